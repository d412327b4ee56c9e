"""Session of an agent with the Agent Client Protocol: its process, tools, turns and requests.

The tools of a session are an MCP server that the agent starts: a relay to a Unix socket. Only the agent's
processes may connect, if the system can identify the peer of a socket.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import mcp_types as types
import psutil
from acp.connection import Connection
from acp.exceptions import RequestError
from acp.schema import (
    CreateFormSessionElicitationRequest,
    PromptResponse,
    RequestPermissionRequest,
    SessionNotification,
)
from anyio import AsyncFile
from mcp.server import Server
from mcp.server.stdio import stdio_server
from pydantic import ValidationError

from tk_ai_extension._version import __version__
from tk_ai_extension.agent.acp import mcp_relay
from tk_ai_extension.agent.acp.event_translator import (
    ASK,
    CANCELLED,
    AcpEventTranslator,
    action_of,
    answer,
    fields_of,
    filled,
    json_object,
    objects,
    offered,
    questions_of,
    values_of,
    writes_notebook,
)
from tk_ai_extension.agent.backend import (
    SERVER,
    STOP_TIMEOUT,
    AgentEvent,
    AgentTurnEnded,
    ContentBlock,
    Heartbeat,
    HistoryMissing,
    SessionConfig,
    TextBlock,
    build_tool_server,
    result_of_agent,
)
from tk_ai_extension.agent.chat_events import QuestionAsked
from tk_ai_extension.agent.chat_store import HistoryPosition
from tk_ai_extension.agent.launch_settings import AgentSpec
from tk_ai_extension.model.agent_errors import (
    AgentDied,
    AgentUnavailable,
    CallStopped,
    ModelFailed,
    NoModel,
)
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import encodable
from tk_ai_extension.workspace.private_socket import PrivateSocket, comes_from

logger = logging.getLogger(__name__)

MAX_LINE = 64 << 20
"""Maximum length of a line from an agent, in bytes."""
LAST_LINES = 8
"""Number of lines of stderr that are kept for an error message."""
GRACE = 1.5
"""Grace period, in seconds, for the process to end by itself, and again after SIGTERM."""
START = 60.0
"""Timeout for each request at the start, in seconds."""

ASKING = ("default", "ask", "manual", "read-only", "approve")
"""Ids of modes in which agents ask before they act, in order of preference. The chat's permission mode
decides about each request; a mode in which the agent decides by itself would bypass it."""

MODE = "switch_mode"
"""Kind of a call that changes the agent's mode, which only the person may do."""

PROTOCOL = 1
"""Version of the protocol that this package uses, whichever version the installed library has."""

AUTHENTICATION_REQUIRED = -32000
"""The protocol's error code for a missing login."""


class AcpSession:
    """A running agent: an `AgentSession`.

    Messages of the agent between turns are dropped, and its requests between turns are refused.

    Args:
        process: The agent's process.
        command: How it was started.
        config: Settings of the session.
        folder: The agent's working directory, which has no files of the person.
    """

    def __init__(
        self,
        process: AgentProcess,
        command: AgentSpec,
        config: SessionConfig,
        folder: Path,
    ) -> None:
        self._process = process
        self._command = command
        self._config = config
        self._folder = folder
        self._redact = process.redact
        self._title = command.title
        # The agent's id of the session, once it is open.
        self._session = ""
        # Text before the first message: the instructions, for an agent without a system prompt.
        self._prelude = ""
        self._capabilities: Mapping[str, Any] = {}
        self._opened: Mapping[str, Any] = {}
        self._model = config.model
        # Its settings and commands as last reported, and as last sent to the chat.
        self._settings: list[Mapping[str, Any]] = []
        self._commands: list[Mapping[str, Any]] = []
        self._offered = offered((), ())
        self._events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self._turn: AcpEventTranslator | None = None
        self._prompting: asyncio.Task[None] | None = None
        self._tools = ToolSocket(build_tool_server(config.registry, self.call_tool), process.pid)
        self._connection = Connection(self._handle, process.writer, process.reader)

    # -- the start

    async def open(self, environment: Mapping[str, str]) -> None:
        """Open a new session, or the one of the history.

        Args:
            environment: The environment of its process.

        Raises:
            HistoryMissing: The agent cannot resume the history.
            AgentUnavailable: It has ended, does not answer, or is not logged in.
            NoModel: It has no model of that name.
        """
        login = await self._initialize(environment)
        servers = [await self._tools.open(), *self._user_servers()]
        settings: dict[str, Any] = {"cwd": str(self._folder), "mcpServers": servers}
        if self._has("sessionCapabilities", "systemPrompt"):
            text = {"type": "text", "text": self._config.instructions}
            settings["systemPrompt"] = {"mode": "append", "content": [text]}
        else:
            self._prelude = f"<instructions>\n{self._config.instructions}\n</instructions>"
        method, name = "session/new", ""
        history = self._config.history
        if history is not None:
            resumes = self._has("sessionCapabilities", "resume")
            if history.position is not None or not (resumes or self._has("loadSession")):
                raise HistoryMissing(f"{self._title} cannot resume this history.")
            name = history.session.removeprefix(self._command.prefix)
            method = "session/resume" if resumes else "session/load"
            settings["sessionId"] = name
        self._opened = await self._request(method, settings, login=login)
        # A loaded session replays its history before its id is known here: the replay is dropped.
        self._session = name or str(self._opened.get("sessionId"))
        self._learn(self._opened)
        await self._set_mode()
        _, _, model = self._config.model.partition(":")
        if model:
            await self._set_model(model)

    async def _initialize(self, environment: Mapping[str, str]) -> str | None:
        """Exchange capabilities; return the login method for which a variable is set, if any."""
        about = {
            "protocolVersion": PROTOCOL,
            # No files: agents edit them in their process, and the edits are recorded.
            # No terminals: commands run in kernels, which keep their output and can be interrupted.
            "clientCapabilities": {"elicitation": {"form": {}}},
            "clientInfo": {"name": "tk-ai-extension", "version": __version__},
        }
        answer = await self._request("initialize", about)
        self._capabilities = json_object(answer.get("agentCapabilities"))
        logins = [str(json_object(each).get("id")) for each in answer.get("authMethods") or ()]
        return next((each for each in logins if self._command.has_key(each, environment)), None)

    def _has(self, *names: str) -> bool:
        """Whether the agent has a capability."""
        found: Any = self._capabilities
        for name in names:
            found = json_object(found).get(name)
        return found is not None and found is not False

    def _user_servers(self) -> list[dict[str, Any]]:
        """Return the user's MCP servers, without remote ones if the agent does not support them."""

        def pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
            return [{"name": name, "value": value} for name, value in values.items()]

        servers: list[dict[str, Any]] = []
        for each in self._config.servers:
            if not each.url:
                program = {"command": each.command, "args": each.args}
                servers.append({"name": each.name, **program, "env": pairs(each.env)})
            elif self._has("mcpCapabilities", "http"):
                address = {"type": "http", "url": each.url, "headers": pairs(each.headers)}
                servers.append({"name": each.name, **address})
        return servers

    async def _set_mode(self) -> None:
        """Choose a mode in which the agent asks before it acts."""
        setting, modes = self._setting(category="mode"), json_object(self._opened.get("modes"))
        found = {str(each.get("id")) for each in objects(modes.get("availableModes"))}
        current = modes.get("currentModeId")
        if setting is not None:
            found, current = values_of(setting).keys(), setting.get("currentValue")
        wanted = next((mode for mode in ASKING if mode in found), current)
        if wanted == current:
            return
        if setting is not None:
            await self._choose(setting, str(wanted))
        else:
            params = {"sessionId": self._session, "modeId": wanted}
            await self._request("session/set_mode", params)

    async def _set_model(self, model: str) -> None:
        """Select a model of the agent; its initial one if the name is empty.

        Raises:
            NoModel: The agent has none of that name.
        """
        setting = self._setting(category="model")
        if setting is not None:
            opened = objects(self._opened.get("configOptions"))
            had = [each.get("currentValue") for each in opened if each.get("id") == setting["id"]]
            names, first = list(values_of(setting)), next(iter(had), None)
        else:
            models = json_object(self._opened.get("models"))
            names = [str(each.get("modelId")) for each in objects(models.get("availableModels"))]
            first = models.get("currentModelId")
        model = model or str(first)
        if names and model not in names:
            raise NoModel(
                f"{self._title} has no model `{model[:80]}`.",
                hint=self._redact(f"Choose one of: {', '.join(names[:30])}."),
            )
        if setting is None:
            params = {"sessionId": self._session, "modelId": model}
            await self._request("session/set_model", params)
        else:
            await self._choose(setting, model)

    def _setting(self, **wanted: str) -> Mapping[str, Any] | None:
        """Return the first of the agent's settings with these fields, if any."""
        found = (each for each in self._settings if wanted.items() <= each.items())
        return next(found, None)

    async def _choose(self, setting: Mapping[str, Any], value: str) -> None:
        """Choose a value of one of the agent's settings."""
        params = {"sessionId": self._session, "configId": setting.get("id"), "value": value}
        self._learn(await self._request("session/set_config_option", params))

    def _learn(self, said: Mapping[str, Any]) -> None:
        """Store the agent's settings and commands from an answer or an update."""
        if "configOptions" in said:
            self._settings = objects(said["configOptions"])
        if "availableCommands" in said:
            self._commands = objects(said["availableCommands"])
        self._offer()

    def _offer(self) -> None:
        """Emit what the agent offers, if the chat does not know it yet."""
        now = offered(self._settings, self._commands)
        if self._turn is not None and now != self._offered:
            self._offered = now
            self._emit(self._turn, now)

    async def _request(
        self, method: str, params: dict[str, Any], *, login: str | None = None
    ) -> Mapping[str, Any]:
        """Send a request during the start; log in by the method ``login``, if any, if the agent requires it.

        Raises:
            HistoryMissing, AgentUnavailable.
        """
        try:
            async with asyncio.timeout(START):
                return json_object(encodable(await self._connection.send_request(method, params)))
        except TimeoutError:
            problem = f"{self._title} did not answer within {START:.0f} s."
        except ConnectionError:
            problem = (await self.died()).message
        except RequestError as error:
            said = self._said(error)
            if error.code == AUTHENTICATION_REQUIRED and login is not None:
                await self._request("authenticate", {"methodId": login})
                return await self._request(method, params)
            if error.code == AUTHENTICATION_REQUIRED:
                problem = f"{self._title} is not logged in."
            elif method in ("session/load", "session/resume"):
                raise HistoryMissing(f"{self._title} cannot resume its session: {said}.") from None
            else:
                problem = f"{self._title} refused to start: {said}."
        raise self._command.unavailable(problem)

    # -- an `AgentSession`

    @property
    def alive(self) -> bool:
        """Whether the process is running; it may have ended just now."""
        return self._process.running

    async def send(
        self, content: Sequence[ContentBlock], *, model: str, options: Mapping[str, str]
    ) -> None:
        """Begin a turn."""
        if not self.alive:
            raise await self.died()
        if model != self._model:
            await self._set_model(model.partition(":")[2])
        self._model = model
        for name, value in options.items():
            setting = self._setting(id=name)
            if setting is None or setting.get("category") == "mode":
                continue
            if value != setting.get("currentValue") and value in values_of(setting):
                await self._choose(setting, value)
        # Agents recognize a command only at the beginning of a message.
        is_command = self._is_command(content[-1])
        blocks = [self._block(each) for each in (content[-1:] if is_command else content)]
        if self._prelude and not is_command:
            blocks.insert(0, {"type": "text", "text": self._prelude})
            self._prelude = ""
        self._turn = AcpEventTranslator(self._config.tool_arguments)
        self._events.put_nowait(self._position)
        self._offer()
        self._prompting = asyncio.create_task(
            self._prompt(self._turn, blocks), name="tk-ai prompt of an agent"
        )

    async def receive(self) -> AgentEvent:
        """Return the next event."""
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)
            raise await self.died()
        return event

    async def interrupt(self) -> None:
        """End the running turn: send the agent a cancellation, and refuse its actions."""
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
            # The process is gone: the last messages cannot be sent.
            await self._connection.close()
        self._tools.close()

    async def died(self) -> AgentDied:
        """Return the error of an agent that has ended."""
        return AgentDied(f"{self._title} has ended: {await self._process.why_ended()}.")

    async def call_tool(
        self, call: str, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        """Carry out a call that has arrived over MCP, in the running turn."""
        turn = self._turn
        if turn is not None:
            self._emit(turn, turn.call(call, tool, dict(arguments)))
        return await self._config.call(call, tool, arguments)

    # -- the turn

    @property
    def _position(self) -> HistoryPosition:
        return HistoryPosition(self._command.prefix + self._session)

    async def _prompt(self, turn: AcpEventTranslator, blocks: list[dict[str, Any]]) -> None:
        error: ToolError | None = None
        usage = None
        try:
            params = {"sessionId": self._session, "prompt": blocks}
            answer = await self._connection.send_request("session/prompt", params)
            response = PromptResponse.model_validate(encodable(answer))
            usage = response.usage
            if response.stop_reason == "refusal":
                error = ModelFailed(f"{self._title} refused to answer.", hint="Change the message.")
        except ConnectionError:
            self._turn = None
            self._events.put_nowait(None)
            return
        except RequestError as failed:
            error = ModelFailed(f"{self._title} failed: {self._said(failed)}.")
            if failed.code == AUTHENTICATION_REQUIRED:
                error = self._command.unavailable(f"{self._title} is not logged in.")
        except ValidationError:
            # Not chained: its text contains the agent's message, which may hold secrets.
            error = ModelFailed(f"{self._title} ended the turn with a malformed message.")
        self._turn = None
        used = turn.used(usage)
        for event in (*turn.end(), used, self._position):
            if event is not None:
                self._events.put_nowait(event)
        self._events.put_nowait(AgentTurnEnded(None if turn.stopped else error))

    def _said(self, error: RequestError) -> str:
        """Return an error's message with the details that agents add in its data, without secrets."""
        details = json_object(error.data)
        found = (details.get(each) for each in ("details", "message", "error"))
        data = next(filter(None, found), error.data)
        text = f"{error}: {data}" if data and str(data) not in str(error) else str(error)
        return self._redact(str(encodable(text)))[:500].rstrip(".")

    def _is_command(self, block: ContentBlock) -> bool:
        """Return whether a person's text calls one of the agent's commands."""
        names = {f"/{each.get('name')}" for each in self._commands}
        return isinstance(block, TextBlock) and block.text.partition(" ")[0].strip() in names

    def _block(self, block: ContentBlock) -> dict[str, Any]:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text}
        if not self._has("promptCapabilities", "image"):
            return {"type": "text", "text": f"[A picture, which {self._title} does not accept.]"}
        return {"type": "image", "data": block.data, "mimeType": block.mime}

    def _emit(self, turn: AcpEventTranslator, *events: AgentEvent) -> None:
        """Emit events of a turn, unless it was stopped or has ended."""
        if turn is not self._turn or turn.stopped:
            return
        for event in events:
            self._events.put_nowait(event)

    # -- messages of the agent

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a message."""
        given, turn = encodable(params), self._turn
        try:
            if method == "session/update":
                update = SessionNotification.model_validate(given)
                # Also between turns: agents report them once they have started.
                self._learn(json_object(json_object(given).get("update")))
                if turn is not None and update.session_id == self._session:
                    self._emit(turn, *turn.translate(update.update))
            elif method == "session/request_permission":
                return await self._permission(RequestPermissionRequest.model_validate(given))
            elif method == "elicitation/create":
                return await self._elicitation(given)
            elif not is_notification:
                raise RequestError.method_not_found(method)
        except ValidationError:
            # It may be of a later protocol. The package would log it, and it may hold secrets.
            if not is_notification:
                raise RequestError.invalid_params() from None
        return None

    async def _permission(self, given: RequestPermissionRequest) -> dict[str, Any]:
        turn = self._turn
        if turn is None or turn.stopped:
            return CANCELLED
        call = turn.report(given.tool_call)
        is_mode = call.report.kind == MODE
        if not is_mode and turn.is_ours(call):
            # The policy decides where the tool runs.
            return answer(given.options, is_allowed=True)
        is_allowed = not (is_mode or writes_notebook(call))
        if is_allowed:
            self._emit(turn, *turn.show(call))
            try:
                action = action_of(call, self._title, self._folder)
                await self._config.permit(action)
            except CallStopped:
                return CANCELLED
            except ToolError:
                is_allowed = False
        self._emit(turn, Heartbeat())
        return answer(given.options, is_allowed=is_allowed)

    async def _elicitation(self, given: Any) -> dict[str, Any]:
        if json_object(given).get("mode") != "form":
            return {"action": "decline"}
        form, turn = CreateFormSessionElicitationRequest.model_validate(given), self._turn
        if turn is None or turn.stopped:
            return {"action": "cancel"}
        call, fields = form.tool_call_id or uuid4().hex, fields_of(form)
        # It is ignored if the agent has reported the call.
        self._emit(turn, turn.call(call, ASK, {}))
        try:
            asked = QuestionAsked(call, ASK, questions_of(form.message, fields))
            answers = await self._config.ask(asked)
        except ToolError:
            return {"action": "cancel"}
        if form.tool_call_id is None:
            self._emit(turn, result_of_agent(call, ASK, "", ok=True))
        return filled(fields, answers)


class AgentProcess:
    """An agent's process, the leader of a process group.

    Args:
        process: The process, with pipes, the leader of its group.
        redact: Removes secrets from what it writes.
    """

    def __init__(self, process: Process, redact: Callable[[str], str]) -> None:
        self._process = process
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self.redact = redact
        self.pid = process.pid
        self.reader = cast("StreamReader", process.stdout)
        self.writer = cast("StreamWriter", process.stdin)
        self._listening = asyncio.create_task(self._listen(cast("StreamReader", process.stderr)))

    @property
    def running(self) -> bool:
        """Whether it is running; it may have ended just now."""
        return self._process.returncode is None

    async def why_ended(self) -> str:
        """Return how the process ended and its last words on stderr, without secrets."""
        await self._ends()
        await asyncio.wait((self._listening,), timeout=0.2)
        status = self._process.returncode
        parts = ["it closed its output" if status is None else f"it ended with status {status}"]
        if self._last:
            parts.append(" / ".join(self._last)[-500:])
        return ": ".join(parts)

    async def end(self) -> None:
        """End it and its descendants: close its input, then SIGTERM, then SIGKILL. Idempotent."""
        descendants: list[psutil.Process] = []
        if self.running:
            with suppress(psutil.Error):
                process = psutil.Process(self.pid)
                descendants = await asyncio.to_thread(process.children, recursive=True)
        self.writer.close()
        if not await self._ends():
            self._process.terminate()
            await self._ends()
        with suppress(ProcessLookupError, PermissionError):
            # Also the processes that it has left behind.
            if os.name == "nt":
                self._process.kill()
            else:
                os.killpg(self.pid, signal.SIGKILL)
        for each in descendants:
            with suppress(psutil.Error):
                # It may have left the group.
                each.kill()
        await self._ends()
        self._listening.cancel()
        await asyncio.wait((self._listening,))

    async def _ends(self) -> bool:
        # A child that outlives it may keep its pipes open.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)
        return not self.running

    async def _listen(self, stderr: StreamReader) -> None:
        while True:
            try:
                line = await stderr.readline()
            except ValueError:
                # The line exceeds the limit: the rest of it follows.
                continue
            if not line:
                return
            said = self.redact(line.decode("utf-8", "replace").strip())[:300]
            if said:
                self._last.append(said)
                logger.debug("agent: %s", said)


class ToolSocket:
    """The socket of one session, in a folder that only the server's user can open.

    Args:
        server: The MCP server of the session.
        pid: The agent's process.
    """

    def __init__(self, server: Server[Any], pid: int) -> None:
        self._server = server
        self._pid = pid
        self._listener = PrivateSocket(self._serve, MAX_LINE)
        self.close = self._listener.close

    async def open(self) -> dict[str, Any]:
        """Listen, and return the MCP server for the parameters of ``session/new``.

        Raises:
            AgentUnavailable: The system has no Unix sockets, or the socket cannot be created.
        """
        try:
            path = await self._listener.open()
        except OSError as error:
            raise AgentUnavailable(
                f"The tools cannot be offered to the agent: {error.strerror}.",
                hint="Agents other than Claude need a system with Unix sockets.",
            ) from error
        arguments = ["-I", "-S", mcp_relay.__file__, str(path)]
        return {"name": SERVER, "command": sys.executable, "args": arguments, "env": []}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await comes_from(writer, self._pid):
            logger.warning("A process that is not the agent's connected to the agent's tools")
            return
        options = self._server.create_initialization_options()
        # The transport iterates over lines, and writes and flushes texts.
        lines, texts = cast("AsyncFile[str]", reader), cast("AsyncFile[str]", _Texts(writer))
        try:
            async with stdio_server(lines, texts) as (incoming, outgoing):
                await self._server.run(incoming, outgoing, options)
        except* ConnectionError:
            pass
        except* Exception:
            logger.exception("The connection of an agent to the tools failed")


class _Texts:
    """The writing half of a connection, as a text file."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()
