"""Translation of the protocol's updates to the events of `agent.backend`; without I/O."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)

from tk_ai_extension.agent.acp.calls import ReportedCall, ToolArguments, is_ours, text_of
from tk_ai_extension.agent.backend import AgentEvent, Working
from tk_ai_extension.agent.events import (
    TextDelta,
    ThinkingDelta,
    TodoItem,
    TodoListed,
    ToolAnswered,
    ToolCalled,
    Used,
)

MAX_TEXT = 20_000
"""Maximum length of the output of an agent's own tool, in characters."""
MAX_TURN = 20_000_000
"""Maximum length of an agent's text in a turn, in characters; more is dropped, and counts as silence."""


class Translator:
    """Translator of the updates of one turn.

    Args:
        tools: The names of our tools, and of the arguments of each.

    Attributes:
        stopped: Whether the turn was interrupted.
    """

    def __init__(self, tools: ToolArguments) -> None:
        self.stopped = False
        self._tools = tools
        self._calls: dict[str, ReportedCall] = {}
        self._began = time.monotonic()
        self._kind = ""
        self._block = -1
        self._length = 0
        self._total = 0
        # The cost of the session, if it was reported in this turn.
        self._cost: float | None = None

    def report(self, update: ToolCallStart | ToolCallUpdate) -> ReportedCall:
        """Return a call with what an update, or the request for its permission, says of it."""
        new = ReportedCall(ToolCallUpdate(tool_call_id=update.tool_call_id))
        call = self._calls.setdefault(update.tool_call_id, new)
        call.add(update)
        return call

    def is_ours(self, call: ReportedCall) -> bool:
        """Return whether a call is one of our tools, which is shown where it arrives over MCP."""
        return not call.is_shown and is_ours(call, self._tools)

    def translate(self, update: Any) -> Iterator[AgentEvent]:
        """Yield the events of an update."""
        match update:
            case AgentMessageChunk(content=content):
                yield from self._text("text", text_of(content))
            case AgentThoughtChunk(content=content):
                yield from self._text("thinking", text_of(content))
            case AgentPlanUpdate(entries=entries):
                yield TodoListed([TodoItem(each.content, each.status) for each in entries])
            case ToolCallStart() | ToolCallProgress():
                yield from self._call(self.report(update))
            case UsageUpdate(cost=cost):
                if cost is not None and cost.currency == "USD":
                    self._cost = cost.amount
                yield Working()
            case _:
                yield Working()

    def show(self, call: ReportedCall) -> Iterator[AgentEvent]:
        """Yield the event of one of the agent's own calls, once."""
        if not call.is_shown:
            call.is_shown = True
            yield self.call(call.report.tool_call_id, call.name, call.arguments)

    def call(self, call_id: str, tool: str, arguments: dict[str, Any]) -> ToolCalled:
        """Return the event of a call; the text after it is another block."""
        self._kind = ""
        return ToolCalled(call_id, tool, arguments)

    def end(self) -> Iterator[AgentEvent]:
        """Yield what was not emitted yet, at the end of the turn."""
        for call in self._calls.values():
            if not self.is_ours(call) and call.report.title:
                yield from self.show(call)
            if call.is_shown and not call.has_ended:
                call.report.status = "failed"
                yield _answered(call)

    def used(self, usage: Usage | None) -> Used | None:
        """Return the usage of the turn; None if the agent reports none.

        Args:
            usage: What the response to the prompt says; None without it.
        """
        if usage is None and self._cost is None:
            return None
        tokens = usage or Usage(total_tokens=0, input_tokens=0, output_tokens=0)
        return Used(
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens + (tokens.thought_tokens or 0),
            cache_read_tokens=tokens.cached_read_tokens or 0,
            cache_write_tokens=tokens.cached_write_tokens or 0,
            session_cost_usd=self._cost,
            seconds=round(time.monotonic() - self._began, 3),
            requests=0,
        )

    def _text(self, kind: str, piece: str) -> Iterator[AgentEvent]:
        self._total += len(piece)
        if not piece or self._total > MAX_TURN:
            return
        if kind != self._kind:
            self._kind, self._length = kind, 0
            self._block += 1
        start, self._length = self._length, self._length + len(piece)
        yield (TextDelta if kind == "text" else ThinkingDelta)(self._block, start, piece)

    def _call(self, call: ReportedCall) -> Iterator[AgentEvent]:
        yield Working()
        if self.is_ours(call):
            return
        if call.report.raw_input is not None or call.has_ended:
            yield from self.show(call)
        if call.has_ended:
            yield _answered(call)


def _answered(call: ReportedCall) -> ToolAnswered:
    is_ok = call.report.status == "completed"
    diffs = [f"{each.path}: changed" for each in call.diffs]
    text = "\n".join([*diffs, call.text]).strip()
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[… {len(text) - MAX_TEXT:,} characters left out]"
    error = {"code": "agent_tool_failed", "message": text, "hint": "", "retryable": False}
    structured = {} if is_ok else {"error": error}
    name = call.report.tool_call_id
    return ToolAnswered(name, call.name, ok=is_ok, text=text, structured=structured)
