"""Turn of a chat: a person's message and the agent's calls in response."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import mcp_types as types

from tk_ai_extension.agent.events import (
    CellChanged,
    Discarded,
    Done,
    EventPayload,
    Noticed,
    PermissionAsked,
    PermissionSettled,
    TextDelta,
    ToolAnswered,
    ToolCalled,
    ToolProgressed,
)
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.requests import Message
from tk_ai_extension.mcp.descriptions import error_content, result_content
from tk_ai_extension.model.agent_errors import CallStopped
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.diffs import DiffBudget, line_diff
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Change
from tk_ai_extension.tools.context import Result, ToolContext
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.permission_requests import Effect
from tk_ai_extension.workspace.permissions import Approver, PermissionRequest, Reply
from tk_ai_extension.workspace.turn_credentials import TurnCredential
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

T = TypeVar("T")

KNOWN = 5.0
"""Timeout for the agent to report a call before it runs, in seconds."""

SETTLE = 2.0
"""Grace period for the calls at the end of a turn, in seconds: a cell may ignore an interrupt."""


class CallableTool(Protocol):
    """A tool, as far as a turn knows it."""

    @property
    def effect(self) -> Effect:
        """What a call can do."""
        ...


class CallableTools(Protocol):
    """Tools that a turn calls: a `Registry`, or those of other servers."""

    def get(self, name: str) -> CallableTool:
        """Return the tool of that name."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Check the permission and run a tool."""
        ...


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A change of a file, as an agent shows it.

    Attributes:
        path: The path.
        before: The content before; None if there is no file.
        after: The new content.
    """

    path: str
    before: str | None
    after: str


@dataclass
class Turn:
    """A queued or running turn.

    Attributes:
        id: Random id, used in the journal and in events.
        message: The message.
        caller: The chat as a caller, with the turn's mode and id.
        workspace: What the tools work on.
        registry: The tools.
        log: The event log.
        text: The agent's text since its last call.
        stopped: When it was stopped, on the event loop's clock; None if it was not.
        calls: The running calls.
        context: The sender's context variables, which select the provider, even
            if the message was queued.
        over: Whether its end was published: no event follows it.
        ended: Set with its end.
        on_change: Called when a call begins or ends, and when the turn is stopped.
    """

    id: str
    message: Message
    caller: Caller
    workspace: Workspace
    registry: Registry
    log: ChatLog
    text: str = ""
    stopped: float | None = None
    calls: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])
    context: Context = field(default_factory=copy_context)
    over: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    on_change: Callable[[], None] = lambda: None
    why_stopped: str = "The turn ended before this call did."
    _known: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    _answered: set[str] = field(default_factory=set[str])
    # The tools of the calls that have no result yet.
    _open: dict[str, str] = field(default_factory=dict[str, str])
    # Journal entries whose changes were published.
    _published: set[int] = field(default_factory=set[int])
    # Cancellations of the runs of a stopped turn.
    _ending: BackgroundTasks = field(default_factory=lambda: BackgroundTasks(logger))
    _cancelled_call: str | None = None
    _credential: TurnCredential | None = None
    # Files that an approved action of the agent's own may write, once each.
    _writes: list[FileEdit] = field(default_factory=list[FileEdit])

    def can_answer(self, queued: Turn) -> bool:
        """Return whether this turn can answer a queued message, too."""
        message = queued.message
        return (
            message.about is self.message.about
            and message.request.command is None
            and self.message.request.command is None
            and not message.replaces
        )

    def notify(self, said: str) -> None:
        """Publish an information for the person."""
        self.publish(Noticed(said))

    def begin(self) -> TurnCredential:
        """Issue the credential of its calls, valid until the turn is stopped or settled."""
        self._credential = self.workspace.turns.issue(self)
        return self._credential

    def stop(self, why: str) -> None:
        """Mark the turn as stopped; running calls return the reason, a sentence."""
        self._revoke()
        if self.stopped is None:
            self.why_stopped = why
            self.stopped = asyncio.get_running_loop().time()
            self.on_change()

    def receive(self, what: EventPayload) -> None:
        """Handle an event of the agent; known calls and results are ignored."""
        match what:
            case ToolCalled(call=call):
                if call in self._known and self._known[call].is_set():
                    return
                self.text = ""
            case ToolAnswered(call=call):
                if call in self._answered:
                    return
                self._answered.add(call)
            case TextDelta(text=text):
                self.text += text
            case Discarded():
                self.text = ""
            case _:
                pass
        self.publish(what)

    def publish(self, what: EventPayload) -> None:
        """Publish an event unless the turn is over: a cell may ignore an interrupt."""
        if self.over:
            return
        if isinstance(what, Done):
            # An agent that was closed does not report the end of its own calls.
            for call, tool in list(self._open.items()):
                self._publish_stopped(call, tool, time.monotonic(), CallStopped(self.why_stopped))
        self.log.add(self.id, what)
        match what:
            case ToolCalled(call=call, tool=tool):
                self._known.setdefault(call, asyncio.Event()).set()
                self._open[call] = tool
            case ToolAnswered(call=call):
                self._open.pop(call, None)
            case Done():
                self.over = True
                self.ended.set()
            case _:
                pass

    async def call(
        self,
        call: str | None,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        registry: CallableTools | None = None,
        approved: Callable[[], Awaitable[bool]] | None = None,
    ) -> types.CallToolResult:
        """Carry out a call of the agent and publish its result; an error is a result as well.

        Args:
            call: The id with which the agent reports the call; None if it does not report it.
            tool: The tool's name.
            arguments: The arguments.
            registry: The registry of the tool; None for the chat's.
            approved: Returns whether the person has already approved this call as it is now; None if
                not. It is asked when the call would ask the person.
        """
        if call is None:
            call = f"call-{secrets.token_hex(8)}"
            self.receive(ToolCalled(call, tool, dict(arguments)))
        approver = self.approver(call)
        if approved is not None:
            approver = _ApprovedBefore(approved, approver)
        try:
            return await self.run(
                self._call(call, tool, arguments, registry or self.registry, approver)
            )
        except CallStopped as stopped:
            if call in self._known and self._known[call].is_set() and call not in self._answered:
                # It was stopped before it began.
                self._answered.add(call)
                self._publish_stopped(call, tool, time.monotonic(), stopped)
            return error_content(stopped)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work of the agent, which is cancelled when the turn is stopped or settled.

        Raises:
            CallStopped: It was cancelled.
        """
        task = asyncio.create_task(work)
        self.calls.add(task)
        task.add_done_callback(self._call_ended)
        self.on_change()
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
        if task.cancelled():
            raise CallStopped(self.why_stopped)
        return task.result()

    def _call_ended(self, task: asyncio.Task[Any]) -> None:
        self.calls.discard(task)
        self.on_change()

    def approver(self, call: str) -> Approver:
        """Return the approver that asks for a call in the chat."""
        return ChatApprover(self, call)

    def approve_write(self, write: FileEdit) -> None:
        """Record that the person has approved a write of a file."""
        self._writes.append(write)

    def take_approved_write(self, path: str, text: str) -> FileEdit | None:
        """Return the approval of a write of a file, which is good for one; None if there is none."""
        for each in self._writes:
            if (each.path, each.after) == (path, text):
                self._writes.remove(each)
                return each
        return None

    def cancel_calls(self) -> None:
        """Cancel the running calls: interrupts their cells and withdraws their permission requests.

        If the turn was stopped, also cancel each run that it began, whichever call waits for it.
        """
        for task in list(self.calls):
            task.cancel()
        if self.stopped is None:
            return
        executions = self.workspace.executions
        for run in executions.active(turn=self.id):
            self._ending.spawn(executions.cancel(run), f"Cancelling run {run.id}")

    async def settle(self) -> None:
        """Cancel the running calls, wait for them, and publish what they changed.

        A call has a grace period. A change that has begun has none: it is in the journal.
        """
        self._revoke()
        self.cancel_calls()
        await self._until_calls_ended()
        if await self.workspace.commits.join(self.id):
            await self._until_calls_ended()
        if self._cancelled_call is not None:
            await self._publish_changes(self._cancelled_call)

    async def _until_calls_ended(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE):
                if self.calls:
                    await asyncio.wait(self.calls)
                await self._ending.join()

    def _revoke(self) -> None:
        if self._credential is not None:
            self.workspace.turns.revoke(self._credential)

    async def _call(
        self,
        call: str,
        tool: str,
        arguments: Mapping[str, Any],
        registry: CallableTools,
        approver: Approver,
    ) -> types.CallToolResult:
        began = time.monotonic()
        # The call's own entries are newer; a parallel call may publish its entries first.
        since = max(self._published, default=0)
        await self._until_known(call, tool, arguments)
        self._answered.add(call)

        async def progress(message: str) -> None:
            self.publish(ToolProgressed(call, message))

        context = ToolContext(self.workspace, self.caller, progress, approver)
        result: Result | None = None
        try:
            result = await registry.call(tool, arguments, context)
            content, structured = result_content(result), result.structured()
        except ToolError as error:
            content, structured = error_content(error), {"error": error.as_dict()}
        except asyncio.CancelledError:
            self._cancelled_call = call
            self._publish_stopped(call, tool, began, CallStopped(self.why_stopped))
            raise
        try:
            if result is None or registry.get(tool).effect != "READ":
                await self._publish_changes(call, since)
        except asyncio.CancelledError:
            self._cancelled_call = call
            raise
        finally:
            # The call has ended: its result is published, also if its diffs are still missing.
            self._publish_result(call, tool, began, content, structured=structured, result=result)
        return content

    async def _until_known(self, call: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Wait until the agent has reported this call, so that the text before it is published first."""
        known = self._known.setdefault(call, asyncio.Event())
        try:
            async with asyncio.timeout(KNOWN):
                await known.wait()
        except TimeoutError:
            self.receive(ToolCalled(call, tool, dict(arguments)))

    async def _publish_changes(self, call: str, since: int | None = None) -> None:
        """Publish the turn's changes in the journal that were not published yet.

        The ids of entries order the intents, not the outcomes: an entry with a lower id than a
        published one may still be open.

        Args:
            call: The call that they are shown at.
            since: Only entries after this one, as their sources and outputs are read; None for all.
        """
        try:
            entries = await self.workspace.journal.undoable(
                self.caller, None, turn=self.id, since=since
            )
        except ToolError:
            # The result has the change; only its diff is missing.
            return
        for entry in reversed(entries):
            # Another call of this turn may have published it in the meantime.
            if entry.id in self._published:
                continue
            self._published.add(entry.id)
            budget = DiffBudget()
            for change in entry.changes:
                self.publish(_changed(call, entry.path, change, entry.id, budget))

    def _publish_stopped(self, call: str, tool: str, began: float, stopped: CallStopped) -> None:
        content = error_content(stopped)
        self._publish_result(call, tool, began, content, structured={"error": stopped.as_dict()})

    def _publish_result(
        self,
        call: str,
        tool: str,
        began: float,
        content: types.CallToolResult,
        *,
        structured: Json,
        result: Result | None = None,
    ) -> None:
        texts = [part.text for part in content.content if isinstance(part, types.TextContent)]
        images = () if result is None else result.images
        self.publish(
            ToolAnswered(
                call,
                tool,
                ok=not content.is_error,
                text="\n".join(texts),
                structured=structured,
                images=[{"data": image.data, "mime": image.mime} for image in images],
                seconds=round(time.monotonic() - began, 3),
            )
        )


class ChatApprover:
    """Approver that asks in the chat; the answer arrives through `PermissionPolicy.answer`."""

    def __init__(self, turn: Turn, call: str) -> None:
        self._turn = turn
        self._call = call

    async def ask(self, request: PermissionRequest) -> Reply | None:
        """Publish the request and wait until it is cancelled by an answer or a stop."""
        self._turn.publish(
            PermissionAsked(
                self._call,
                request.id,
                request.tool,
                request.effect,
                request.notebook,
                request.preview,
                request.proposal.as_dict(),
                list(request.answers),
            )
        )
        try:
            await asyncio.Event().wait()
        finally:
            self._turn.publish(PermissionSettled(self._call, request.id))
        return None


class _ApprovedBefore:
    """Approver of a call that the person may have approved before it came.

    Args:
        is_approved: Returns whether they have approved what it would do now.
        otherwise: Asks them if not.
    """

    def __init__(self, is_approved: Callable[[], Awaitable[bool]], otherwise: Approver) -> None:
        self._is_approved = is_approved
        self._otherwise = otherwise

    async def ask(self, request: PermissionRequest) -> Reply | None:
        """Approve it, or ask the person."""
        if await self._is_approved():
            return Reply("once")
        return await self._otherwise.ask(request)


def _changed(call: str, path: str, change: Change, entry: int, budget: DiffBudget) -> CellChanged:
    content: CellContent | None = change.after or change.before
    before = "" if change.before is None else change.before.source
    after = "" if change.after is None else change.after.source
    return CellChanged(
        call,
        path,
        change.action,
        change.cell,
        change.index,
        "code" if content is None else content.type,
        line_diff(before, after, budget),
        entry,
    )
