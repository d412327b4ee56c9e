"""A session of an agent over the Agent Client Protocol: an `AgentSession`."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types

from tk_ai_extension.agent.acp.calls import mapping
from tk_ai_extension.agent.acp.errors import failure, redacting
from tk_ai_extension.agent.acp.paths import AgentFolder
from tk_ai_extension.agent.acp.permissions import (
    MODE,
    action_of,
    cancelled,
    notebooks_of,
    outcome,
)
from tk_ai_extension.agent.acp.process import GRACE, AgentProcess
from tk_ai_extension.agent.acp.translator import TooMuchText, Translator, used
from tk_ai_extension.agent.acp.transport import PipeTransport
from tk_ai_extension.agent.backend import (
    COMPACTING,
    OWN_CALL,
    STOP_TIMEOUT,
    AgentEvent,
    Checkpoint,
    ContentBlock,
    SessionConfig,
    TextBlock,
    TurnEnded,
    Working,
)
from tk_ai_extension.model.agent_errors import (
    AgentDied,
    AgentUnavailable,
    CallStopped,
    InvalidTurnCredential,
)
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.workspace.turn_credentials import TurnCredential

if TYPE_CHECKING:
    from acp.connection import Connection

    from tk_ai_extension.agent.acp.tool_socket import ToolAccess

logger = logging.getLogger(__name__)

COMPACT = ("compact", "compress")
"""Names that agents give to their command that compacts the history."""

MAX_EVENTS = 500
"""Maximum number of events that are not received yet; then no message of the agent is read."""

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
METHOD_NOT_FOUND = -32601
"""Codes of JSON-RPC."""


@dataclass
class _Turn:
    """The running turn.

    Attributes:
        token: The token of its credential.
        translator: Translates its updates.
        began: When it began, on the monotonic clock.
        cost: The cost of the session before it.
        stopped: Whether it was interrupted.
    """

    token: str
    translator: Translator
    cost: float | None
    began: float = field(default_factory=time.monotonic)
    stopped: bool = False


class AcpSession:
    """A running agent: an `AgentSession`.

    Its messages are read from the start to the end, also between turns. What it asks outside a turn is
    refused.

    Args:
        process: The agent's process.
        config: Settings of the session.
        title: The agent's display name.
        redact: Removes secrets from a text.
        folder: The agent's working directory.
    """

    def __init__(
        self,
        process: AgentProcess,
        config: SessionConfig,
        title: str,
        redact: Callable[[str], str],
        folder: AgentFolder,
    ) -> None:
        self.process = process
        self.session = ""
        """The agent's id of the session, once it is open."""
        self.access: ToolAccess | None = None
        """The access to the tools."""
        self.prelude: str = ""
        """Text before the next message: the instructions, for an agent without a system prompt."""
        self.images = False
        """Whether the agent accepts images."""
        self.set_model: Callable[[str], Awaitable[None]] | None = None
        """Chooses a model of the agent's; empty for the one that it had first."""
        self._model = config.model
        self.checkpoint = ""
        """The session's id for `Checkpoint`."""
        self._config = config
        self._title = title
        self.redact = redact
        """Removes secrets from a text."""
        self._folder = folder
        self._tools = config.tool_arguments
        self._events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self._turn: _Turn | None = None
        self._cost = config.cost
        # The agent's command that compacts its history; None if it has none.
        self._compact: str | None = None
        self._prompting: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks(logger)
        self._ended: str | None = None
        self._over = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.closed = False
        self.connection = self._connect()

    @property
    def alive(self) -> bool:
        """Whether the process is running and its messages can be read, as far as is known."""
        return not self._over.is_set() and self.process.running

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
        if model != self._model and self.set_model is not None:
            with redacting(self.redact, AgentDied):
                await self.set_model(model.partition(":")[2])
        self._model = model
        blocks = [self._block(each) for each in content]
        if self.prelude:
            blocks.insert(0, {"type": "text", "text": self.prelude})
            self.prelude = ""
        self._prompt_with(blocks, credential)

    async def compact(self, *, model: str, credential: TurnCredential) -> None:
        """Begin a turn with the agent's command that compacts its history."""
        del model
        if not self.alive:
            raise await self.died()
        if self._compact is None:
            raise AgentUnavailable(
                f"{self._title} cannot compact a chat.", hint="Start another chat."
            )
        self._prompt_with([{"type": "text", "text": f"/{self._compact}"}], credential)
        self._emit(Working(COMPACTING))

    def _prompt_with(self, blocks: list[dict[str, Any]], credential: TurnCredential) -> None:
        self._turn = _Turn(credential.token, Translator(self._tools), self._cost)
        self._emit(Checkpoint(self.checkpoint))
        self._prompting = asyncio.create_task(
            self._prompt(self._turn, blocks), name="tk-ai prompt of an agent"
        )

    async def receive(self) -> AgentEvent:
        """Return the next event."""
        event = await self._events.get()
        if self._events.qsize() < MAX_EVENTS:
            self._room.set()
        if event is None:
            self._events.put_nowait(None)
            raise await self.died()
        return event

    async def steer(self, content: Sequence[ContentBlock]) -> bool:
        """Take no message into a running turn: the protocol has one prompt per turn."""
        del content
        return False

    async def interrupt(self) -> None:
        """End the running turn: the agent is asked to, and its own actions are refused."""
        turn = self._turn
        if turn is None:
            return
        turn.stopped = True
        # What it still sends is dropped, and must not keep it from reading.
        self._room.set()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self.connection.send_notification(
                    "session/cancel", {"sessionId": self.session}
                )
        except (TimeoutError, OSError) as error:
            raise AgentDied(f"{self._title} does not respond.") from error

    async def close(self) -> None:
        """End the agent with all its processes."""
        self.closed = True
        if self._turn is not None and self.alive:
            with suppress(AgentDied):
                await self.interrupt()
        self._room.set()
        await self.process.end()
        if self._prompting is not None:
            self._prompting.cancel()
            await asyncio.wait((self._prompting,))
        await self.connection.close()
        await self._tasks.close()
        await self.process.close()

    async def died(self) -> AgentDied:
        """Return the error of an agent that has ended."""
        why = self.redact(self._ended or await self.process.why_ended())
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

    async def _prompt(self, turn: _Turn, blocks: list[dict[str, Any]]) -> None:
        error: ToolError | None = None
        result: Mapping[str, Any] = {}
        try:
            result = mapping(
                await self.connection.send_request(
                    "session/prompt", {"sessionId": self.session, "prompt": blocks}
                )
            )
        except ConnectionError:
            # Its output ends as well, and says why, if the agent has ended.
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._over.wait()
            if not self._over.is_set():
                self._abandon("its connection was lost")
            self._turn = None
            return
        except Exception as failed:  # noqa: BLE001 - `RequestError`, or what its answer caused
            error = failure(failed, self._title, self.redact)
        self._turn = None
        for event in turn.translator.end():
            self._events.put_nowait(event)
        reason = result.get("stopReason")
        if error is None and reason == "refusal":
            error = failure(None, self._title, self.redact)
        translator, usage = turn.translator, mapping(result.get("usage"))
        self._cost = self._cost if translator.cost is None else translator.cost
        if usage or translator.cost is not None or translator.context is not None:
            seconds = time.monotonic() - turn.began
            context = translator.context, translator.window
            self._events.put_nowait(
                used(
                    usage,
                    self._cost,
                    turn.cost,
                    seconds,
                    context,
                    compacts=self._compact is not None,
                )
            )
        self._events.put_nowait(Checkpoint(self.checkpoint))
        self._events.put_nowait(TurnEnded(None if turn.stopped else error))

    def _block(self, block: ContentBlock) -> dict[str, Any]:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text}
        if not self.images:
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
        if self._events.qsize() >= MAX_EVENTS and not (self._turn and self._turn.stopped):
            self._room.clear()

    # -- messages of the agent

    def _connect(self) -> Connection:
        from acp.connection import Connection

        transport = PipeTransport(
            self.process.reader, self.process.writer, self._room.wait, self._on_end
        )
        return Connection(self._handle, transport)

    def _on_end(self, problem: str | None) -> None:
        if self._over.is_set():
            # The first end is the cause of the others.
            return
        self._ended = problem
        if problem is not None and not self.closed:
            logger.warning("%s: %s", self._title, problem)
        self._turn = None
        self._over.set()
        self._events.put_nowait(None)

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a message. Any other error than these two would be logged with the agent's words."""
        from acp.exceptions import RequestError
        from pydantic import ValidationError

        try:
            return await self._answer(method, params, is_notification)
        except Exception as error:
            if not is_notification and isinstance(error, (RequestError, ValidationError)):
                raise
            kind = type(error).__name__
            shown = self.redact(method[:100])
            logger.warning("%s: a message `%s` failed: %s", self._title, shown, kind)
            if is_notification:
                return None
            raise RequestError(INTERNAL_ERROR, f"The client failed: {kind}.") from None

    async def _answer(self, method: str, params: Any, is_notification: bool) -> Any:
        from acp.exceptions import RequestError
        from acp.schema import (
            ReadTextFileRequest,
            RequestPermissionRequest,
            SessionNotification,
            WriteTextFileRequest,
        )

        given = mapping(params)
        match method:
            case "session/update":
                self._update(given, SessionNotification)
                return None
            case "session/request_permission":
                RequestPermissionRequest.model_validate(given)
                return await self._permission(given)
            case "fs/read_text_file":
                asked = ReadTextFileRequest.model_validate(given)
                text = await self._file(self._config.actions.read_text(self._token, asked.path))
                return {"content": _lines(text, asked.line, asked.limit)}
            case "fs/write_text_file":
                write = WriteTextFileRequest.model_validate(given)
                await self._file(self._write(write.path, write.content))
                return {}
            case _ if is_notification:
                return None
            case _:
                raise RequestError(METHOD_NOT_FOUND, f"The client does not offer {method[:100]}.")

    @property
    def _token(self) -> str:
        return "" if self._turn is None or self._turn.stopped else self._turn.token

    def _update(self, given: Mapping[str, Any], schema: Any) -> None:
        from pydantic import ValidationError

        turn, update = self._turn, mapping(given.get("update"))
        if update.get("sessionUpdate") == "available_commands_update":
            # It comes between turns, also before the session's id is known.
            commands = _commands(update.get("availableCommands"))
            self._compact = next((each for each in COMPACT if each in commands), None)
            return
        if turn is None or turn.stopped or given.get("sessionId") != self.session:
            return
        try:
            update = schema.model_validate(given).update
        except ValidationError as error:
            # Of a later version of the protocol.
            logger.debug("%s: an unknown update: %s", self._title, self.redact(str(error)))
            return
        try:
            events = turn.translator.translate(
                update.model_dump(mode="json", by_alias=True, exclude_none=True)
            )
        except TooMuchText:
            self._abandon("it sent too much text in one turn")
            return
        self._emit(*events, of=turn)

    def _abandon(self, problem: str) -> None:
        """End the session because of what the agent sends."""
        if not self._over.is_set():
            self._on_end(problem)
            self._tasks.spawn(self.process.end(), "tk-ai end of an agent")

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

    async def _write(self, path: str, text: str) -> None:
        turn, call_id = self._turn, None
        call = None if turn is None else turn.translator.calls.writing(path)
        if turn is not None and call is not None:
            call.claimed, call_id = True, call.id
            self._emit(*turn.translator.show(call), Working(), of=turn)
        await self._config.actions.write_text(self._token, call_id, path, text)

    async def _file(self, work: Any) -> Any:
        from acp.exceptions import RequestError

        try:
            return await work
        except ToolError as error:
            raise RequestError(INVALID_PARAMS, error.as_text()) from error


def _commands(listed: Any) -> list[Any]:
    """Return the names in a list of an agent's commands, which is not checked."""
    commands = cast("list[Any]", listed) if isinstance(listed, list) else []
    return [mapping(each).get("name") for each in commands]


def _lines(text: str, first: int | None, limit: int | None) -> str:
    """Return lines of a text, from a number that begins at 1."""
    if first is None and limit is None:
        return text
    begin = max((first or 1) - 1, 0)
    # As editors count them: `str.splitlines` also splits at a form feed or U+2028.
    lines = [*io.StringIO(text, newline="")]
    return "".join(lines[begin : None if limit is None else begin + limit])
