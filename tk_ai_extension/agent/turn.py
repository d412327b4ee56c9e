"""Turn of a chat: a person's message, the agent's calls in response, and the agent's own actions.

An agent in another process may also run its own tools there. It first asks its client, which is this
server: the same permission modes and approval cards apply. Its edits of text files are in the journal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeVar

import mcp_types as types

from tk_ai_extension.agent.chat_events import (
    BlocksDiscarded,
    CellChanged,
    EventPayload,
    NoticeAdded,
    PermissionAsked,
    PermissionSettled,
    Question,
    QuestionAsked,
    QuestionSettled,
    TextDelta,
    ToolAnswered,
    ToolCalled,
    ToolProgressed,
    TurnEnded,
)
from tk_ai_extension.agent.chat_requests import ChatMessage
from tk_ai_extension.agent.chat_store import ChatLog
from tk_ai_extension.mcp.tool_calls import error_content, result_content
from tk_ai_extension.model.agent_errors import CallStopped
from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cell_operations import Change
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.diffs import line_diff
from tk_ai_extension.model.errors import (
    InvalidArguments,
    LimitReached,
    NotFound,
    NotReadable,
    PathRefused,
    PermissionDenied,
    PermissionRequired,
    ToolError,
)
from tk_ai_extension.model.proposals import Proposal
from tk_ai_extension.tools.registry import Registry, ToolContext
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.files import Files, read_if_exists
from tk_ai_extension.workspace.permission_requests import ApprovalScope, Effect
from tk_ai_extension.workspace.permissions import PermissionReply, PermissionRequest
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

T = TypeVar("T")

KNOWN = 5.0
"""Timeout for the agent to report a call before it runs, in seconds."""

MAX_QUESTIONS = 20_000
"""Maximum characters of the questions of one call, with their options."""

SETTLE = 2.0
"""Grace period for the calls at the end of a turn, in seconds: a cell may ignore an interrupt."""


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action that an agent carries out itself, once it is permitted.

    Attributes:
        call: The id of the agent's call.
        tool: The name of the agent's tool, for people.
        effect: The effect of the action.
        arguments: The exact arguments.
        proposal: What it will do.
        paths: The files and folders outside the agent's own folder that a READ or WRITE concerns. A path
            that is not absolute stands for an unknown place.
        scope: Which standing approvals apply, and may be given: ``effect`` if the agent may name the same
            action differently at each call.
    """

    call: str
    tool: str
    effect: Effect
    arguments: Mapping[str, Any]
    proposal: Proposal
    paths: tuple[str, ...]
    scope: ApprovalScope = "effect"


@dataclass(frozen=True, slots=True)
class ReportedEdits:
    """Edits of one call that an agent reports, possibly without having asked for permission.

    Attributes:
        call: The id of the agent's call.
        edits: For each edit the absolute path of the file, the replaced text and the new text. The texts
            are whole files, or parts of them.
    """

    call: str
    edits: tuple[tuple[str, str, str], ...]


@dataclass
class _Call:
    """A call of the agent.

    Attributes:
        tool: The tool's name.
        reported: Set when the call was published.
        is_ours: Whether its result is published here, and not by the agent.
        is_refused: Whether the agent may not carry it out.
        has_result: Whether its result was published.
    """

    tool: str
    reported: asyncio.Event = field(default_factory=asyncio.Event)
    is_ours: bool = False
    is_refused: bool = False
    has_result: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it was reported and has no result yet."""
        return self.reported.is_set() and not self.has_result


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
        is_open: Whether the agent may call tools: from the message to the stop or the end of the turn.
        is_stopped: Whether it was stopped.
        ended: Set by its last event.
        active: When a call ended last, in seconds on the event loop's clock.
        questions: The pending questions by call, and the person's answers to each question.
    """

    id: str
    message: ChatMessage
    caller: Caller
    workspace: Workspace
    registry: Registry
    log: ChatLog
    text: str = ""
    is_open: bool = False
    is_stopped: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    active: float = 0.0
    why_stopped: str = "The turn ended before this call did."
    questions: dict[str, tuple[list[Question], asyncio.Future[list[list[str]]]]] = field(
        default_factory=dict[str, tuple[list[Question], "asyncio.Future[list[list[str]]]"]]
    )
    _calls: dict[str, _Call] = field(default_factory=dict[str, _Call])
    _running: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])
    # Journal entries whose changes were published.
    _published: set[int] = field(default_factory=set[int])
    # Cancellations of the runs of a stopped turn.
    _ending: BackgroundTasks = field(default_factory=lambda: BackgroundTasks(logger))
    _cancelled_call: str | None = None
    # One call is recorded after the other.
    _recording: asyncio.Lock = field(default_factory=asyncio.Lock)
    # By call of each approved action that edits files: the files as they were before it.
    _edits: dict[str, dict[str, str | None]] = field(
        default_factory=dict[str, dict[str, str | None]]
    )

    @property
    def is_calling(self) -> bool:
        """Whether a call is running, here or in the agent."""
        open_calls = (call.is_open and not call.is_refused for call in self._calls.values())
        return bool(self._running) or any(open_calls)

    def stop(self, why: str) -> None:
        """Mark the turn as stopped; running calls return the reason, a sentence."""
        self.is_open = False
        if not self.is_stopped:
            self.is_stopped, self.why_stopped = True, why

    def receive(self, what: EventPayload) -> None:
        """Handle an event of the agent; known calls and results are ignored."""
        match what:
            case ToolCalled(call=call, tool=tool):
                if self._known(call, tool).reported.is_set():
                    return
                self.text = ""
            case ToolAnswered(call=call, tool=tool):
                if self._known(call, tool).is_ours or self._known(call, tool).has_result:
                    return
                if call in self._edits:
                    self._ending.spawn(self._record_edits(call), "Recording an agent's edits")
            case TextDelta(text=text):
                self.text += text
            case BlocksDiscarded():
                self.text = ""
            case _:
                pass
        self.publish(what)

    def receive_edits(self, reported: ReportedEdits) -> None:
        """Record edits without a permission request; `permit` has prepared the record of the others."""
        if reported.call not in self._edits:
            self._ending.spawn(self._record_reported(reported), "Recording an agent's edits")

    def publish(self, what: EventPayload) -> None:
        """Publish an event unless the turn is over: a cell may ignore an interrupt."""
        if self.ended.is_set():
            return
        if isinstance(what, TurnEnded):
            # An agent that was closed does not report the end of its own calls.
            for call, known in self._calls.items():
                if known.is_open:
                    self._publish_stopped(call, known.tool, time.monotonic())
        self.log.add(self.id, what)
        match what:
            case ToolCalled(call=call, tool=tool):
                self._known(call, tool).reported.set()
            case ToolAnswered(call=call, tool=tool):
                self._known(call, tool).has_result = True
            case TurnEnded():
                self.ended.set()
            case _:
                pass

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work of the agent, which is cancelled when the turn is stopped or settled.

        Raises:
            CallStopped: It was cancelled.
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._call_ended)
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
        if task.cancelled():
            raise CallStopped(self.why_stopped)
        return task.result()

    def cancel_calls(self) -> None:
        """Cancel the running calls: interrupts their cells and withdraws their permission requests.

        If the turn was stopped, also cancel each run that it began, whichever call waits for it.
        """
        for task in list(self._running):
            task.cancel()
        if not self.is_stopped:
            return
        executions = self.workspace.executions
        for run in executions.active(turn=self.id):
            self._ending.spawn(executions.cancel(run), f"Cancelling run {run.id}")

    async def settle(self) -> None:
        """Cancel the running calls, wait for them, and publish what they changed.

        Calls get a grace period. A change that has begun is awaited without a limit: it is in the journal.
        """
        self.is_open = False
        self.cancel_calls()
        await self._until_calls_ended()
        for call in list(self._edits):
            await self._record_edits(call)
        if await self.workspace.commits.join(self.id):
            await self._until_calls_ended()
        if self._cancelled_call is not None:
            await self._publish_changes(self._cancelled_call)

    async def permit(self, action: ActionRequest) -> None:
        """Check that the agent may carry out an action; see `backend.Permit`."""
        workspace, notebook = self.workspace, action.proposal.notebook or ""
        effect = _effect(workspace.files, action)
        try:
            await workspace.policy.check(
                self.caller,
                action.tool,
                effect,
                arguments=action.arguments,
                proposal=action.proposal,
                approver=ChatApprover(self, action.call),
                scope=action.scope,
            )
        except (PermissionDenied, PermissionRequired) as refusal:
            self._known(action.call, action.tool).is_refused = True
            await workspace.journal.record(
                self.caller,
                notebook,
                action.tool,
                f"refused: {refusal.message}",
                kind="refused",
                state="failed",
                note=refusal.code,
            )
            raise
        if effect == "WRITE":
            # Read after the decision: the file may have changed while the person decided.
            self._edits[action.call] = await _files(workspace, action)
        if effect != "READ":
            summary = f"{action.tool}: {action.proposal.title}"
            await workspace.journal.record(self.caller, notebook, action.tool, summary, kind="run")
        if effect == "EXECUTE":
            workspace.journal.emit("run", self.caller, notebook, action.tool, "started")

    async def ask(self, asked: QuestionAsked) -> list[list[str]]:
        """Ask the person; see `backend.Ask`."""
        if len(repr(asked.questions)) > MAX_QUESTIONS:
            raise LimitReached(f"The questions are longer than {MAX_QUESTIONS:,} characters.")
        await self._known(asked.call, asked.tool).reported.wait()
        answered = asyncio.get_running_loop().create_future()
        self.questions[asked.call] = asked.questions, answered
        self.publish(asked)
        answers: list[list[str]] = []
        try:
            answers = await answered
            return answers
        finally:
            del self.questions[asked.call]
            self.publish(QuestionSettled(asked.call, answers))

    def answer(self, call: str, answers: list[list[str]]) -> None:
        """Answer the questions of a call, or skip them; raises NotFound or InvalidArguments."""
        questions, answered = self.questions.get(call, ([], None))
        if answered is None or answered.done():
            raise NotFound("This question is not pending.", hint="It was answered or skipped.")
        each = zip(questions, answers, strict=False)
        too_many = any(len(given) > 1 and not question.multiple for question, given in each)
        if too_many or len(answers) not in (0, len(questions)):
            raise InvalidArguments(
                "`answers` needs a list for each question, with one answer unless it allows more."
            )
        answered.set_result(answers if any(answers) else [])

    async def _record_edits(self, call: str) -> None:
        """Record what a tool of the agent changed in files, so that it can be undone."""
        async with self._recording:
            for path, before in self._edits.pop(call, {}).items():
                try:
                    after = await editing.record_file(self.workspace, self.caller, path, before)
                except ToolError as error:
                    said = f"The change of {path} cannot be undone here: {error.message}"
                    self.publish(NoticeAdded(said))
                    continue
                for others in self._edits.values():
                    # Other open edits of this file start from here: this change is recorded.
                    others.update({path: after} if path in others else {})
        await self._publish_changes(call)

    async def _record_reported(self, reported: ReportedEdits) -> None:
        async with self._recording:
            before = await _texts_before(self.workspace.files, reported.edits)
            for path, text in before.items():
                # If this fails, only the undo is missing.
                with suppress(ToolError):
                    await editing.record_file(self.workspace, self.caller, path, text)
        await self._publish_changes(reported.call)

    def _known(self, call: str, tool: str) -> _Call:
        return self._calls.setdefault(call, _Call(tool))

    def _call_ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self.active = asyncio.get_running_loop().time()

    async def _until_calls_ended(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE):
                if self._running:
                    await asyncio.wait(self._running)
                await self._ending.join()

    async def call(
        self, call: str, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        """Carry out a call of the agent and publish its result; an error is a result as well."""
        began = time.monotonic()
        # The call's own entries are newer; a parallel call may publish its entries first.
        since = max(self._published, default=0)
        known = self._known(call, tool)
        # Publish the agent's text before the call first.
        try:
            async with asyncio.timeout(KNOWN):
                await known.reported.wait()
        except TimeoutError:
            self.receive(ToolCalled(call, tool, dict(arguments)))
        known.is_ours = True

        async def progress(message: str) -> None:
            self.publish(ToolProgressed(call, message))

        approver = ChatApprover(self, call)
        context = ToolContext(self.workspace, self.caller, progress, approver)
        try:
            content = result_content(await self.registry.call(tool, arguments, context))
        except ToolError as error:
            content = error_content(error)
        except asyncio.CancelledError:
            self._cancelled_call = call
            self._publish_stopped(call, tool, began + approver.waited)
            raise
        try:
            if content.is_error or self.registry.get(tool).effect != "READ":
                await self._publish_changes(call, since)
        except asyncio.CancelledError:
            self._cancelled_call = call
            raise
        finally:
            # The call has ended: publish its result even if its diffs are missing.
            self._publish_result(call, tool, began + approver.waited, content)
        return content

    async def _publish_changes(self, call: str, since: int | None = None) -> None:
        """Publish the turn's changes in the journal that were not published yet.

        The ids of entries order the intents, not the outcomes: an entry with a lower id than a
        published one may still be open.

        Args:
            call: The call that they are shown at.
            since: Read only entries after this one, with their sources and outputs; None for all.
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
            for change in entry.changes:
                self.publish(_changed(call, entry.path, change, entry.id))

    def _publish_stopped(self, call: str, tool: str, began: float) -> None:
        self._publish_result(call, tool, began, error_content(CallStopped(self.why_stopped)))

    def _publish_result(
        self, call: str, tool: str, began: float, content: types.CallToolResult
    ) -> None:
        texts = [part.text for part in content.content if isinstance(part, types.TextContent)]
        images = [part for part in content.content if isinstance(part, types.ImageContent)]
        self.publish(
            ToolAnswered(
                call,
                tool,
                ok=not content.is_error,
                text="\n".join(texts),
                structured=content.structured_content or {},
                images=[{"data": image.data, "mime": image.mime_type} for image in images],
                seconds=round(time.monotonic() - began, 3),
            )
        )


@dataclass
class ChatApprover:
    """Approver that asks in the chat; the answer arrives through `PermissionPolicy.answer`.

    Attributes:
        turn: The turn.
        call: The call that waits.
        waited: How long the call has waited for answers, in seconds.
    """

    turn: Turn
    call: str
    waited: float = 0.0

    async def ask(self, request: PermissionRequest) -> PermissionReply | None:
        """Publish the request and wait until it is cancelled by an answer or a stop."""
        self.turn.publish(
            PermissionAsked(
                self.call,
                request.id,
                request.tool,
                request.effect,
                request.notebook,
                request.preview,
                request.proposal.as_dict(),
                list(request.answers),
            )
        )
        began = time.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            self.waited += time.monotonic() - began
            self.turn.publish(PermissionSettled(self.call, request.id))
        return None


def _effect(files: Files, action: ActionRequest) -> Effect:
    """Return the effect of an action. Reading or writing outside the root counts as EXECUTE, as in a shell.

    Raises:
        PathRefused: It would write a notebook.
    """
    inside = [path for path in action.paths if _is_below_root(files, path)]
    is_lenient = len(inside) == len(action.paths)
    for path in inside if action.effect == "WRITE" else ():
        if os.path.isdir(path):  # noqa: PTH112 - it raises nothing
            # A folder may hold notebooks and hidden files.
            is_lenient = False
        else:
            files.locate(path)
    return action.effect if is_lenient else "EXECUTE"


def _is_below_root(files: Files, path: str) -> bool:
    """Return whether a path, which may not exist, is absolute, the root or below it, and not hidden."""
    if not path.startswith("/"):
        return False
    try:
        # Locate something in it: the root itself and notebooks are refused.
        inside = files.locate(f"{path.rstrip('/')}/_")
    except ToolError:
        return False
    # Without a root on this machine, the whole path is the contents manager's.
    return len(PurePosixPath(inside).parts) < len(PurePosixPath(path).parts)


async def _files(workspace: Workspace, action: ActionRequest) -> dict[str, str | None]:
    """Return the text files that an action concerns, as they are; None for one that does not exist."""
    files: dict[str, str | None] = {}
    for path in action.paths:
        # Changes of other files cannot be undone.
        with suppress(PathRefused, NotReadable):
            inside = workspace.files.locate(path)
            files[inside] = await read_if_exists(workspace.files, inside)
    return files


async def _texts_before(files: Files, edits: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """Return the texts of files before the edits, of files that have each new text once."""
    found: dict[str, str] = {}
    others: set[str] = set()
    for path, old, new in reversed(edits):
        with suppress(ToolError):
            if not _is_below_root(files, path):
                continue
            inside = files.locate(path)
            text = found.get(inside) or await files.read_text(inside)
            if text.count(new) == 1:
                found[inside] = text.replace(new, old)
            else:
                others.add(inside)
    return {path: text for path, text in found.items() if path not in others}


def _changed(call: str, path: str, change: Change, entry: int) -> CellChanged:
    content: CellData | None = change.after or change.before
    before = "" if change.before is None else change.before.source
    after = "" if change.after is None else change.after.source
    return CellChanged(
        call,
        path,
        change.action,
        change.cell,
        change.index,
        "code" if content is None else content.type,
        line_diff(before, after),
        entry,
    )
