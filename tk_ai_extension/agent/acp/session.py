"""Session of an agent with the Agent Client Protocol: its start, its turns, and what it asks."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp_types as types

from tk_ai_extension._version import __version__
from tk_ai_extension.agent.acp.calls import mapping
from tk_ai_extension.agent.acp.commands import AgentCommand
from tk_ai_extension.agent.acp.permissions import (
    MODE,
    AgentFolder,
    action_of,
    cancelled,
    notebooks_of,
    outcome,
)
from tk_ai_extension.agent.acp.process import AgentProcess
from tk_ai_extension.agent.acp.tool_socket import ToolAccess, ToolSocket
from tk_ai_extension.agent.acp.translator import TooMuchText, Translator, used
from tk_ai_extension.agent.backend import (
    OWN_CALL,
    STOP_TIMEOUT,
    AgentEvent,
    Checkpoint,
    ContentBlock,
    HistoryMissing,
    SessionConfig,
    TextBlock,
    TurnEnded,
    Working,
)
from tk_ai_extension.agent.tool_server import build_tool_server
from tk_ai_extension.model.agent_errors import (
    AgentDied,
    AgentUnavailable,
    CallStopped,
    InvalidTurnCredential,
    ModelFailed,
    ModelUnauthorized,
    NoModel,
)
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.workspace.turn_credentials import TurnCredential

if TYPE_CHECKING:
    from acp.connection import Connection

logger = logging.getLogger(__name__)

PROTOCOL_VERSION = 1

CAPABILITIES = {
    # Agents edit files in their own process; what they changed is recorded once they have asked.
    "fs": {"readTextFile": False, "writeTextFile": False},
    # A command in a terminal is a kernel's work, where its output is kept and it can be stopped.
    "terminal": False,
}

ASKING = ("default", "ask", "manual", "read-only", "approve")
"""Ids of modes in which agents ask before they act, the preferred first. What is asked is decided by
the chat's permission mode; a mode in which the agent decides by itself would bypass it."""

MAX_EVENTS = 20_000
"""Maximum number of events that are not received yet; an agent that sends more is ended."""

AUTHENTICATION_REQUIRED = -32000
NOT_FOUND = -32002
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
METHOD_NOT_FOUND = -32601
"""Codes of the protocol and of JSON-RPC."""

_STATUS = re.compile(r"\b(401|403|429|500|502|503|504|529)\b")
_LOGIN = "Log in with the agent's own program in a terminal, or set its key for the server."


@dataclass
class _Turn:
    """The running turn.

    Attributes:
        token: The token of its credential.
        translator: Translates its updates.
        cost: The cost of the session before it.
        began: When it began, on the monotonic clock.
        stopped: Whether it was interrupted.
    """

    token: str
    translator: Translator
    cost: float | None
    began: float = field(default_factory=time.monotonic)
    stopped: bool = False


class AcpSession:
    """A running agent: an `AgentSession`.

    What the agent sends between turns is dropped, and what it asks then is refused.

    Args:
        process: The agent's process.
        command: How it was started.
        config: Settings of the session.
        folder: The agent's working directory.
        redact: Removes secrets from a text.
        timeout: Timeout for each request at the start, in seconds.
    """

    def __init__(
        self,
        process: AgentProcess,
        command: AgentCommand,
        config: SessionConfig,
        folder: AgentFolder,
        redact: Callable[[str], str],
        *,
        timeout: float,
    ) -> None:
        from acp.connection import Connection

        self._process = process
        self._command = command
        self._config = config
        self._folder = folder
        self._redact = redact
        self._timeout = timeout
        self._title = command.title
        # The agent's id of the session, once it is open, and that of `Checkpoint`.
        self._session = ""
        self._checkpoint = ""
        # Text before the first message: the instructions, for an agent without a system prompt.
        self._prelude = ""
        self._capabilities: Mapping[str, Any] = {}
        self._opened: Mapping[str, Any] = {}
        self._model = config.model
        self._events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self._turn: _Turn | None = None
        self._cost = config.cost
        self._prompting: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks(logger)
        self._ended: str | None = None
        self._socket: ToolSocket | None = None
        self.access: ToolAccess | None = None
        """The access to the tools."""
        self._connection: Connection = Connection(self._handle, process.writer, process.reader)

    # -- the start

    async def open(
        self, socket: ToolSocket, folder: Path, prefix: str, environment: Mapping[str, str]
    ) -> None:
        """Open a new session, or the one of the history.

        Args:
            socket: The socket over which the agent calls the tools.
            folder: The agent's working directory.
            prefix: What the id of a session begins with in `Checkpoint`.
            environment: The environment of its process.

        Raises:
            AgentDied: The agent has ended, or cannot resume the history.
            AgentUnavailable: It does not answer, or it is not logged in.
            NoModel: It has no model of that name.
        """
        logins = await self._initialize()
        self._socket = socket
        self.access = await socket.open(
            build_tool_server(self._config.registry, self.call_tool), self._process.pid
        )
        settings: dict[str, Any] = {
            "cwd": str(folder),
            "mcpServers": [self.access.as_mcp_server(), *self._user_servers()],
        }
        if self._has("sessionCapabilities", "systemPrompt"):
            text = {"type": "text", "text": self._config.instructions}
            settings["systemPrompt"] = {"mode": "append", "content": [text]}
        else:
            self._prelude = f"<instructions>\n{self._config.instructions}\n</instructions>"
        method, name = "session/new", ""
        history = self._config.history
        if history.session is not None:
            resumes = self._has("sessionCapabilities", "resume")
            if history.position is not None or not (resumes or self._has("loadSession")):
                raise HistoryMissing(f"{self._title} cannot resume this history.")
            name = history.session.removeprefix(prefix)
            method = "session/resume" if resumes else "session/load"
            settings["sessionId"] = name
        ready = [each for each in logins if self._is_ready(each, environment)]
        self._opened = await self._with_login(method, settings, ready)
        # What a loaded session repeats of its history comes before its name is known, and is dropped.
        self._session = name or str(self._opened.get("sessionId"))
        self._checkpoint = prefix + self._session
        await self._set_mode()
        _, _, model = self._config.model.partition(":")
        if model:
            await self._set_model(model)

    async def _initialize(self) -> list[str]:
        """Exchange capabilities; return the ids of the agent's login methods."""
        name = "tk-ai-extension"
        about = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": CAPABILITIES,
            "clientInfo": {"name": name, "title": name, "version": __version__},
        }
        answer = await self._request("initialize", about)
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            raise AgentUnavailable(
                f"{self._title} speaks another version of the protocol.",
                hint=f"Install another version of {self._title}.",
            )
        self._capabilities = mapping(answer.get("agentCapabilities"))
        return [str(mapping(each).get("id")) for each in answer.get("authMethods") or ()]

    def _has(self, *names: str) -> bool:
        """Whether the agent has a capability."""
        found: Any = self._capabilities
        for name in names:
            found = mapping(found).get(name)
        return found is not None and found is not False

    def _user_servers(self) -> list[dict[str, Any]]:
        """Return the user's MCP servers; without those with an address if the agent takes none."""

        def pairs(values: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
            return [{"name": name, "value": value} for name, value in values]

        servers: list[dict[str, Any]] = []
        for each in self._config.servers:
            if not each.url:
                program = {"command": each.command, "args": list(each.args)}
                servers.append({"name": each.name, **program, "env": pairs(each.env)})
            elif self._has("mcpCapabilities", "http"):
                address = {"type": "http", "url": each.url, "headers": pairs(each.headers)}
                servers.append({"name": each.name, **address})
        return servers

    def _is_ready(self, login: str, environment: Mapping[str, str]) -> bool:
        """Whether a variable of a login method is set."""
        return any(environment.get(name) for name in self._command.logins.get(login, ()))

    async def _with_login(
        self, method: str, params: dict[str, Any], logins: Sequence[str]
    ) -> Mapping[str, Any]:
        """Send a request, and log in with a key of the environment if the agent requires it."""
        from acp.exceptions import RequestError

        try:
            return await self._request(method, params, passes=(AUTHENTICATION_REQUIRED,))
        except RequestError:
            if not logins:
                raise self._command.unavailable(f"{self._title} is not logged in.") from None
        await self._request("authenticate", {"methodId": logins[0]})
        return await self._request(method, params)

    async def _set_mode(self) -> None:
        """Choose a mode in which the agent asks before it acts."""
        modes = mapping(self._opened.get("modes"))
        offered = [str(mapping(each).get("id")) for each in modes.get("availableModes") or ()]
        wanted = next((mode for mode in ASKING if mode in offered), None)
        if wanted is not None and wanted != modes.get("currentModeId"):
            params = {"sessionId": self._session, "modeId": wanted}
            await self._request("session/set_mode", params)

    async def _set_model(self, model: str) -> None:
        """Choose a model of the agent; the one that it had first if the name is empty.

        Raises:
            NoModel: The agent has none of that name.
        """
        from acp.exceptions import RequestError

        options = [mapping(each) for each in self._opened.get("configOptions") or ()]
        option = next((each for each in options if each.get("category") == "model"), None)
        models = mapping(self._opened.get("models"))
        listed = models.get("availableModels") or ()
        model = model or str((option or {}).get("currentValue") or models.get("currentModelId"))
        names = _values(option) or [str(mapping(each).get("modelId")) for each in listed]
        if names and model not in names:
            raise NoModel(
                f"{self._title} has no model `{model[:80]}`.",
                hint=self._redact(f"Choose one of: {', '.join(names[:30])}."),
            )
        method, chosen = "session/set_model", {"modelId": model}
        if option is not None:
            method = "session/set_config_option"
            chosen = {"configId": str(option.get("id")), "value": model}
        try:
            await self._request(
                method, {"sessionId": self._session, **chosen}, passes=(INVALID_PARAMS, NOT_FOUND)
            )
        except RequestError as error:
            raise NoModel(
                f"{self._title} does not accept the model `{model[:80]}`: {self._said(error)}.",
                hint=f"Choose another model of {self._title}.",
            ) from None

    async def _request(
        self, method: str, params: dict[str, Any], *, passes: Sequence[int] = ()
    ) -> Mapping[str, Any]:
        """Send a request of the start.

        Args:
            method: The method.
            params: Its parameters.
            passes: Codes of errors that are raised as they are.

        Raises:
            RequestError: The agent refused it with one of `passes`.
            AgentDied, AgentUnavailable.
        """
        from acp.exceptions import RequestError

        resumes = method in ("session/load", "session/resume")
        try:
            async with asyncio.timeout(self._timeout):
                return mapping(encodable(await self._connection.send_request(method, params)))
        except TimeoutError:
            raise self._command.unavailable(
                f"{self._title} did not answer within {self._timeout:.0f} s."
            ) from None
        except ConnectionError:
            died = await self.died()
            raise (died if resumes else self._command.unavailable(died.message)) from None
        except RequestError as error:
            if error.code in passes:
                raise
            said = self._said(error)
            if resumes:
                is_missing = error.code in (INVALID_PARAMS, NOT_FOUND)
                kind = HistoryMissing if is_missing else AgentDied
                raise kind(f"{self._title} cannot resume its session: {said}.") from None
            raise self._command.unavailable(f"{self._title} refused to start: {said}.") from None

    # -- an `AgentSession`

    @property
    def alive(self) -> bool:
        """Whether the process is running, as far as is known."""
        return self._ended is None and self._process.running

    async def send(
        self,
        content: Sequence[ContentBlock],
        *,
        model: str,
        credential: TurnCredential,
    ) -> None:
        """Begin a turn."""
        if not self.alive:
            raise await self.died()
        if model != self._model:
            await self._set_model(model.partition(":")[2])
        self._model = model
        blocks = [self._block(each) for each in content]
        if self._prelude:
            blocks.insert(0, {"type": "text", "text": self._prelude})
            self._prelude = ""
        self._prompt_with(blocks, credential)

    async def receive(self) -> AgentEvent:
        """Return the next event."""
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)
            raise await self.died()
        return event

    async def interrupt(self) -> None:
        """End the running turn: the agent is asked to, and its own actions are refused."""
        if self._turn is None:
            return
        self._turn.stopped = True
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._connection.send_notification(
                    "session/cancel", {"sessionId": self._session}
                )
        except (TimeoutError, OSError) as error:
            raise AgentDied(f"{self._title} does not respond.") from error

    async def close(self) -> None:
        """End the agent with all its processes, and its access to the tools."""
        if self.alive:
            with suppress(AgentDied):
                await self.interrupt()
        await self._process.end()
        if self._prompting is not None:
            self._prompting.cancel()
            await asyncio.wait((self._prompting,))
        with suppress(ConnectionError):
            # What could not be sent any more.
            await self._connection.close()
        await self._tasks.close()
        if self._socket is not None and self.access is not None:
            await self._socket.close(self.access)

    async def died(self) -> AgentDied:
        """Return the error of an agent that has ended."""
        why = self._redact(self._ended or await self._process.why_ended())
        return AgentDied(f"{self._title} has ended: {why}.")

    async def call_tool(
        self, call_id: str | None, request: str, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        """Carry out a call that has arrived over MCP, in the running turn."""
        turn = self._turn
        if turn is None:
            return await self._config.call("", f"call-{request}", tool, arguments)
        calls = turn.translator.calls
        if call_id is None:
            call_id = await calls.claim(tool, arguments) or f"{turn.token[:6]}-{request}"
        else:
            calls.claim_id(call_id, tool)
        self._emit(turn.translator.own_call(call_id, tool, arguments), of=turn)
        return await self._config.call(turn.token, call_id, tool, arguments)

    # -- the turn

    def _prompt_with(self, blocks: list[dict[str, Any]], credential: TurnCredential) -> None:
        translator = Translator(self._config.tool_arguments)
        self._turn = _Turn(credential.token, translator, self._cost)
        self._emit(Checkpoint(self._checkpoint))
        self._prompting = asyncio.create_task(
            self._prompt(self._turn, blocks), name="tk-ai prompt of an agent"
        )

    async def _prompt(self, turn: _Turn, blocks: list[dict[str, Any]]) -> None:
        error: ToolError | None = None
        result: Mapping[str, Any] = {}
        try:
            params = {"sessionId": self._session, "prompt": blocks}
            result = mapping(await self._connection.send_request("session/prompt", params))
        except ConnectionError:
            self._turn = None
            self._events.put_nowait(None)
            return
        except Exception as failed:  # noqa: BLE001 - `RequestError`, or what its answer caused
            error = self._failure(failed)
        self._turn = None
        for event in turn.translator.end():
            self._events.put_nowait(event)
        if error is None and result.get("stopReason") == "refusal":
            error = ModelFailed(f"{self._title} refused to answer.", hint="Change the message.")
        translator, usage = turn.translator, mapping(result.get("usage"))
        self._cost = self._cost if translator.cost is None else translator.cost
        if usage or translator.cost is not None:
            seconds = time.monotonic() - turn.began
            self._events.put_nowait(used(usage, self._cost, turn.cost, seconds))
        self._events.put_nowait(Checkpoint(self._checkpoint))
        self._events.put_nowait(TurnEnded(None if turn.stopped else error))

    def _failure(self, error: Exception) -> ToolError:
        """Return why a turn failed."""
        said = self._said(error)
        status = _STATUS.search(said)
        code = "" if status is None else status[1]
        if getattr(error, "code", None) == AUTHENTICATION_REQUIRED:
            return ModelUnauthorized(f"{self._title} is not logged in: {said}.", hint=_LOGIN)
        if code in ("401", "403"):
            return ModelUnauthorized(
                f"The provider of {self._title} refused the key: {said}.", hint=_LOGIN
            )
        if code in ("429", "503", "529"):
            return ModelFailed(
                f"The provider of {self._title} is busy: {said}.",
                hint="Wait a moment, then send the message again. Completed changes are kept.",
            )
        return ModelFailed(f"{self._title} failed: {said}.")

    def _said(self, error: BaseException) -> str:
        """Return an error's message with the details that agents put beside it, without secrets."""
        data: Any = getattr(error, "data", None)
        details = mapping(data)
        data = details.get("details") or details.get("message") or details.get("error") or data
        text = f"{error}: {data}" if data and str(data) not in str(error) else str(error)
        return self._redact(str(encodable(text)))[:500].rstrip(".")

    def _block(self, block: ContentBlock) -> dict[str, Any]:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text}
        if not self._has("promptCapabilities", "image"):
            return {"type": "text", "text": f"[A picture: {self._title} accepts none.]"}
        return {"type": "image", "data": block.data, "mimeType": block.mime}

    def _emit(self, *events: AgentEvent, of: _Turn | None = None) -> None:
        if of is not None and (of is not self._turn or of.stopped):
            return
        for event in events:
            self._events.put_nowait(event)
        if self._turn is not None and self._turn.translator.running:
            # The last event decides how long the agent may be silent.
            self._events.put_nowait(Working(OWN_CALL))
        if self._events.qsize() > MAX_EVENTS:
            self._abandon("it sends faster than the chat can show")

    def _abandon(self, problem: str) -> None:
        """End the session because of what the agent sends."""
        if self._ended is None:
            self._ended = problem
            self._turn = None
            self._events.put_nowait(None)
            self._tasks.spawn(self._process.end(), "tk-ai end of an agent")

    # -- messages of the agent

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a message. The package would log another error with the agent's words, maybe secrets."""
        from acp.exceptions import RequestError

        given = mapping(encodable(params))
        try:
            if method == "session/update":
                self._update(given)
                return None
            if method == "session/request_permission":
                return await self._permission(given)
        except Exception as error:  # noqa: BLE001 - whatever an agent's message can cause
            logger.warning("%s: %s in a message", self._title, type(error).__name__)
            if is_notification:
                return None
            raise RequestError(INTERNAL_ERROR, "The client failed.") from None
        if is_notification:
            return None
        raise RequestError(METHOD_NOT_FOUND, f"The client does not offer {method[:100]}.")

    def _update(self, given: Mapping[str, Any]) -> None:
        turn, update = self._turn, mapping(given.get("update"))
        if turn is not None and not turn.stopped and given.get("sessionId") == self._session:
            try:
                self._emit(*turn.translator.translate(update), of=turn)
            except TooMuchText:
                self._abandon("it sent too much text in one turn")

    async def _permission(self, given: Mapping[str, Any]) -> dict[str, Any]:
        turn, options = self._turn, [mapping(each) for each in given.get("options") or ()]
        if turn is None or turn.stopped:
            return cancelled()
        call = turn.translator.calls.report(mapping(given.get("toolCall")))
        if call.tool is not None and call.kind != MODE:
            # The policy decides where the tool runs.
            return outcome(options, allowed=True, lasting=True)
        call.refused = call.kind == MODE or bool(notebooks_of(call))
        if not call.refused:
            self._emit(*turn.translator.show(call), of=turn)
            action = action_of(call, self._title, self._folder)
            try:
                await self._config.actions.permit(turn.token, action)
            except (CallStopped, InvalidTurnCredential):
                return cancelled()
            except ToolError:
                call.refused = True
        self._emit(Working(), of=turn)
        return outcome(options, allowed=not call.refused)


def _values(option: Mapping[str, Any] | None) -> list[str]:
    """Return the values of an option, which may be in groups."""
    found: list[str] = []
    for each in map(mapping, (option or {}).get("options") or ()):
        found += _values(each) if "options" in each else [str(each.get("value"))]
    return found
