"""The start of an agent's session: the handshake, the login, the history, the mode and the model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tk_ai_extension._version import __version__
from tk_ai_extension.agent.acp.calls import mapping
from tk_ai_extension.agent.acp.commands import AgentCommand
from tk_ai_extension.agent.acp.errors import AUTHENTICATION_REQUIRED, NOT_FOUND, words
from tk_ai_extension.agent.acp.session import INVALID_PARAMS, AcpSession
from tk_ai_extension.agent.backend import HistoryMissing, SessionConfig
from tk_ai_extension.agent.tool_server import build_tool_server
from tk_ai_extension.model.agent_errors import AgentDied, AgentUnavailable, NoModel

if TYPE_CHECKING:
    from tk_ai_extension.agent.acp.tool_socket import ToolSocket

PROTOCOL_VERSION = 1

ASKING = ("default", "ask", "manual", "read-only", "approve")
"""Ids of modes in which agents ask before they act, the preferred first. What is asked is decided by
the chat's permission mode; a mode in which the agent decides by itself would bypass it."""

CAPABILITIES = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    # A command in a terminal is a kernel's work, where its output is kept and it can be stopped.
    "terminal": False,
}


class Opening:
    """Opens the session of an agent that has been started.

    Args:
        session: The session.
        command: How the agent was started.
        config: Settings of the session.
        environment: The environment of its process.
        timeout: Timeout for each request, in seconds.
    """

    def __init__(
        self,
        session: AcpSession,
        command: AgentCommand,
        config: SessionConfig,
        *,
        environment: Mapping[str, str],
        timeout: float,
    ) -> None:
        self._session = session
        self._command = command
        self._config = config
        self._environment = environment
        self._timeout = timeout
        self._capabilities: Mapping[str, Any] = {}
        self._logins: Sequence[str] = ()

    async def run(self, folder: Path, prefix: str, socket: ToolSocket) -> None:
        """Open a new session, or the one of the history.

        Raises:
            AgentDied: The agent has ended, or cannot resume the history.
            AgentUnavailable: It does not answer, or it is not logged in.
            NoModel: It has no model of that name.
        """
        session = self._session
        await self._initialize()
        session.access = await socket.open(
            build_tool_server(self._config.registry, session.call_tool)
        )
        session.access.pid = session.process.pid
        settings: dict[str, Any] = {
            "cwd": str(folder),
            "mcpServers": [session.access.as_mcp_server(), *self._user_servers()],
        }
        if mapping(self._capabilities.get("sessionCapabilities")).get("systemPrompt") is not None:
            text = {"type": "text", "text": self._config.instructions}
            settings["systemPrompt"] = {"mode": "append", "content": [text]}
        else:
            session.prelude = f"<instructions>\n{self._config.instructions}\n</instructions>"
        opened = await self._open(settings, prefix)
        session.checkpoint = prefix + session.session
        await self._set_mode(opened)
        session.set_model = partial(self._set_model, opened)
        _, _, model = self._config.model.partition(":")
        if model:
            await self._set_model(opened, model)

    def _user_servers(self) -> list[dict[str, Any]]:
        """Return the user's MCP servers; without those with an address if the agent takes none."""

        def pairs(values: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
            return [{"name": name, "value": value} for name, value in values]

        servers: list[dict[str, Any]] = []
        for each in self._config.servers:
            if not each.url:
                program = {"command": each.command, "args": list(each.args)}
                servers.append({"name": each.name, **program, "env": pairs(each.env)})
            elif mapping(self._capabilities.get("mcpCapabilities")).get("http"):
                address = {"type": "http", "url": each.url, "headers": pairs(each.headers)}
                servers.append({"name": each.name, **address})
        return servers

    async def _initialize(self) -> None:
        from acp.exceptions import RequestError

        name = "tk-ai-extension"
        about = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": CAPABILITIES,
            "clientInfo": {"name": name, "title": name, "version": __version__},
        }
        try:
            answer = await self._request("initialize", about)
        except RequestError as error:
            raise self._refused(error, "initialize") from None
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            raise AgentUnavailable(
                f"{self._command.title} speaks another version of the protocol.",
                hint=f"Install another version of {self._command.title}.",
            )
        self._capabilities = mapping(answer.get("agentCapabilities"))
        self._logins = [str(mapping(each).get("id")) for each in answer.get("authMethods") or ()]
        prompts = mapping(self._capabilities.get("promptCapabilities"))
        self._session.images = bool(prompts.get("image"))

    async def _open(self, settings: dict[str, Any], prefix: str) -> Mapping[str, Any]:
        history = self._config.history
        if history.session is None:
            opened = await self._with_login("session/new", settings)
            self._session.session = str(opened.get("sessionId"))
            return opened
        name = history.session.removeprefix(prefix)
        resumes = mapping(self._capabilities.get("sessionCapabilities")).get("resume") is not None
        if history.position is not None or not (resumes or self._capabilities.get("loadSession")):
            raise HistoryMissing(f"{self._command.title} cannot resume this history.")
        method = "session/resume" if resumes else "session/load"
        opened = await self._with_login(method, {**settings, "sessionId": name})
        # What a loaded session repeats of its history comes before its name is known, and is dropped.
        self._session.session = name
        return opened

    async def _with_login(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        """Send a request, and log in with a key of the environment if the agent requires it."""
        from acp.exceptions import RequestError

        try:
            return await self._request(method, params)
        except RequestError as error:
            if error.code != AUTHENTICATION_REQUIRED:
                raise self._refused(error, method) from None
        login = self._login()
        if login is None:
            raise self._command.unavailable(f"{self._command.title} is not logged in.")
        try:
            await self._request("authenticate", {"methodId": login})
            return await self._request(method, params)
        except RequestError as error:
            raise self._refused(error, "authenticate") from None

    def _login(self) -> str | None:
        """Return the first login method whose variable is set."""
        present = self._environment
        for method in self._logins:
            names = self._command.logins.get(method, ())
            if any(present.get(name) for name in names):
                return method
        return None

    def _refused(self, error: Exception, method: str) -> AgentDied | AgentUnavailable:
        said = self._session.redact(words(error))[:500]
        if method in ("session/load", "session/resume"):
            is_missing = getattr(error, "code", None) in (INVALID_PARAMS, NOT_FOUND)
            died = HistoryMissing if is_missing else AgentDied
            return died(f"{self._command.title} cannot resume its session: {said}.")
        return self._command.unavailable(f"{self._command.title} refused to start: {said}.")

    async def _set_mode(self, opened: Mapping[str, Any]) -> None:
        """Choose a mode in which the agent asks before it acts."""
        modes = mapping(opened.get("modes"))
        offered = [str(mapping(each).get("id")) for each in modes.get("availableModes") or ()]
        wanted = next((mode for mode in ASKING if mode in offered), None)
        if wanted is None or wanted == modes.get("currentModeId"):
            return
        from acp.exceptions import RequestError

        try:
            await self._request(
                "session/set_mode", {"sessionId": self._session.session, "modeId": wanted}
            )
        except RequestError as error:
            raise self._refused(error, "session/set_mode") from None

    async def _set_model(self, opened: Mapping[str, Any], model: str) -> None:
        """Choose a model of the agent; the one that it had first if the name is empty.

        Raises:
            NoModel: The agent has none of that name.
        """
        from acp.exceptions import RequestError

        session = {"sessionId": self._session.session}
        option = next(
            (
                each
                for each in map(mapping, opened.get("configOptions") or ())
                if each.get("category") == "model"
            ),
            None,
        )
        models = mapping(opened.get("models"))
        listed = models.get("availableModels") or ()
        model = model or str((option or {}).get("currentValue") or models.get("currentModelId"))
        names = _values(option) or [str(mapping(each).get("modelId")) for each in listed]
        if names and model not in names:
            raise NoModel(
                f"{self._command.title} has no model `{model[:80]}`.",
                hint=f"Choose one of: {', '.join(names[:30])}.",
            )
        try:
            if option is not None:
                await self._request(
                    "session/set_config_option",
                    {**session, "configId": option.get("id"), "value": model},
                )
            else:
                await self._request("session/set_model", {**session, "modelId": model})
        except RequestError as error:
            raise NoModel(
                f"{self._command.title} does not accept the model `{model[:80]}`: "
                f"{self._session.redact(words(error))[:300]}.",
                hint=f"Choose another model of {self._command.title}.",
            ) from None

    async def _request(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        """Send a request.

        Raises:
            RequestError: The agent refused it.
            AgentDied, AgentUnavailable.
        """
        session = self._session
        try:
            async with asyncio.timeout(self._timeout):
                return mapping(await session.connection.send_request(method, params))
        except TimeoutError:
            raise self._command.unavailable(
                f"{self._command.title} did not answer within {self._timeout:.0f} s."
            ) from None
        except ConnectionError:
            died = await session.died()
            if self._config.history.session is not None and method != "initialize":
                raise died from None
            raise self._command.unavailable(died.message) from None


def _values(option: Mapping[str, Any] | None) -> list[str]:
    """Return the values of an option, which may be in groups."""
    found: list[str] = []
    for each in map(mapping, (option or {}).get("options") or ()):
        found += _values(each) if "options" in each else [str(each.get("value"))]
    return found
