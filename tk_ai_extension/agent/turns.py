"""One turn of a chat: a person's message, and the calls that the agent makes because of it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types

from tk_ai_extension.agent.events import (
    CellChanged,
    Discarded,
    Done,
    EventPayload,
    PermissionAsked,
    PermissionSettled,
    Sent,
    TextDelta,
    ToolAnswered,
    ToolCalled,
    ToolProgressed,
)
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.requests import Message
from tk_ai_extension.mcp.descriptions import error_content, result_content
from tk_ai_extension.model.agent_errors import CallStopped
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.operations import Change
from tk_ai_extension.model.sentences import Sentence, sentence_info
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.tools.results import Result
from tk_ai_extension.workspace.editing import line_diff
from tk_ai_extension.workspace.permissions import PermissionRequest, Reply
from tk_ai_extension.workspace.turn_credentials import TurnCredential
from tk_ai_extension.workspace.workspace import Workspace

KNOWN = 5.0
"""Seconds for which a call waits until the agent has reported it."""

SETTLE = 2.0
"""Seconds for which the end of a turn waits for its calls: a cell may not heed an interrupt."""


@dataclass
class Turn:
    """A turn, queued or under way.

    Attributes:
        id: Random; the journal and the events name it.
        message: What was asked.
        caller: Who acts in it: the chat, in its mode, in this turn.
        workspace: What the tools work on.
        registry: The tools.
        log: Takes the events.
        text: What the agent has written since its last call.
        stopped: When somebody has stopped it, on the event loop's clock; None where nobody has.
        calls: The calls under way.
        context: The context variables of who sent the message: the provider is chosen by them, also
            where the message has waited for other turns.
        over: Whether its end was told: nothing is told after it.
    """

    id: str
    message: Message
    caller: Caller
    workspace: Workspace
    registry: Registry
    log: ChatLog
    text: str = ""
    stopped: float | None = None
    calls: set[asyncio.Task[types.CallToolResult]] = field(
        default_factory=set["asyncio.Task[types.CallToolResult]"]
    )
    context: Context = field(default_factory=copy_context)
    over: bool = False
    why_stopped: str = Sentence("call_stopped_turn_over")
    _known: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    _answered: set[str] = field(default_factory=set[str])
    _journalled: int = 0
    _cancelled_call: str | None = None
    _credential: TurnCredential | None = None

    def begin(self) -> TurnCredential:
        """Issues the credential of its calls, which counts until it is stopped or settled."""
        self._credential = self.workspace.turns.issue(self)
        return self._credential

    def stop(self, why: str) -> float:
        """Mark it as stopped; the calls under way answer with the reason, a sentence.

        Returns:
            When it was stopped first, on the event loop's clock.
        """
        self._revoke()
        if self.stopped is None:
            self.why_stopped = why
            self.stopped = asyncio.get_running_loop().time()
        return self.stopped

    def receive(self, what: EventPayload) -> None:
        """Takes what the agent reports; what is known of a call already is nothing new."""
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
        """Tells what happened, unless it comes too late: a cell may not heed an interrupt."""
        if self.over:
            return
        self.log.add(self.id, what)
        asking = self.message.asking
        match what:
            case Sent() if asking is not None:
                self.workspace.questions.begin(asking.kernel_id, self.caller)
            case ToolCalled(call=call):
                self._known.setdefault(call, asyncio.Event()).set()
            case Done():
                self.over = True
                if asking is not None:
                    self.workspace.questions.end(asking.kernel_id, self.caller)
            case _:
                pass

    async def call(
        self, call: str | None, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        """Carries out a call of the agent's, and tells of it; its failure is an answer, too."""
        if call is None:
            call = f"call-{secrets.token_hex(8)}"
            self.receive(ToolCalled(call, tool, dict(arguments)))
        task = asyncio.create_task(self._call(call, tool, arguments))
        self.calls.add(task)
        task.add_done_callback(self.calls.discard)
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
        if task.cancelled():
            return error_content(CallStopped(self.why_stopped))
        return task.result()

    def cancel_calls(self) -> None:
        """Ends the calls under way: their cells are interrupted, their questions withdrawn."""
        for task in list(self.calls):
            task.cancel()

    async def settle(self) -> None:
        """End the calls under way, wait briefly for each, and report what they changed before."""
        self._revoke()
        self.cancel_calls()
        if self.calls:
            await asyncio.wait(self.calls, timeout=SETTLE)
        if self._cancelled_call is not None:
            await self._publish_changes(self._cancelled_call)

    def _revoke(self) -> None:
        if self._credential is not None:
            self.workspace.turns.revoke(self._credential)

    async def _call(
        self, call: str, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        began = time.monotonic()
        await self._until_known(call, tool, arguments)
        self._answered.add(call)

        async def progress(message: str) -> None:
            self.publish(ToolProgressed(call, message, sentence_info(message)))

        context = ToolContext(self.workspace, self.caller, progress, ChatApprover(self, call))
        result: Result | None = None
        try:
            result = await self.registry.call(tool, arguments, context)
            content, structured = result_content(result), result.structured()
        except ToolError as error:
            content, structured = error_content(error), {"error": error.as_dict()}
        except asyncio.CancelledError:
            self._cancelled_call = call
            stopped = CallStopped(self.why_stopped)
            self._publish_result(
                call, tool, began, error_content(stopped), structured={"error": stopped.as_dict()}
            )
            raise
        if result is None or self.registry.get(tool).effect != "READ":
            await self._publish_changes(call)
        self._publish_result(call, tool, began, content, structured=structured, result=result)
        return content

    async def _until_known(self, call: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Waits until the agent has reported this call: the text before it comes first."""
        known = self._known.setdefault(call, asyncio.Event())
        try:
            async with asyncio.timeout(KNOWN):
                await known.wait()
        except TimeoutError:
            self.receive(ToolCalled(call, tool, dict(arguments)))

    async def _publish_changes(self, call: str) -> None:
        """Tells what the journal has of this turn and was not told yet."""
        try:
            entries = await self.workspace.journal.undoable(
                self.caller, None, turn=self.id, since=self._journalled
            )
        except ToolError:
            # The change itself is in the answer; only its diff is not shown.
            return
        for entry in reversed(entries):
            self._journalled = max(self._journalled, entry.id)
            for change in entry.changes:
                self.publish(_changed(call, entry.path, change, entry.id))

    def _publish_result(
        self,
        call: str,
        tool: str,
        began: float,
        content: types.CallToolResult,
        *,
        structured: dict[str, Any],
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
                notices=[] if result is None else [sentence_info(each) for each in result.notices],
            )
        )


class ChatApprover:
    """Asks the person in the chat; the answer comes by `PermissionPolicy.answer`."""

    def __init__(self, turn: Turn, call: str) -> None:
        self._turn = turn
        self._call = call

    async def ask(self, request: PermissionRequest) -> Reply | None:
        """Shows the request and waits: whoever answers it ends the wait, and so does a stop."""
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


def _changed(call: str, path: str, change: Change, entry: int) -> CellChanged:
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
        line_diff(before, after),
        entry,
    )
