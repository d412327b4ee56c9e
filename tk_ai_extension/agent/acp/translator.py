"""Translation of the protocol's updates to the events of `agent.backend`; without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from tk_ai_extension.agent.acp.calls import CallBook, ReportedCall, ToolArguments, mapping
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
"""Maximum length of an agent's text in a turn, in characters."""

MAX_TODO = 100
"""Maximum number of items of a to-do list."""
MAX_TODO_TEXT = 500
"""Maximum length of an item, in characters."""


_STATUS: Mapping[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}


class TooMuchText(Exception):
    """The agent has sent more text in a turn than `MAX_TURN`."""


class Translator:
    """Translator of the updates of one turn.

    Args:
        tools: The names of our tools, and of the arguments of each.
    """

    def __init__(self, tools: ToolArguments) -> None:
        self.calls = CallBook(tools)
        self._kind = ""
        self._block = -1
        self._length = 0
        self._total = 0
        self.cost: float | None = None
        """The cost of the session in US dollars, as last reported; None if unknown."""

    @property
    def running(self) -> bool:
        """Whether a call of the agent's own is running."""
        return any(call.running for call in self.calls)

    def translate(self, update: Mapping[str, Any]) -> list[AgentEvent]:
        """Return the events of an update, at least one.

        Raises:
            TooMuchText.
        """
        return list(self._events(update)) or [Working()]

    def show(self, call: ReportedCall) -> Iterator[AgentEvent]:
        """Emit one of the agent's own calls, once."""
        if not call.shown:
            call.shown = True
            self._kind = ""
            yield ToolCalled(call.id, call.tool or _name(call), call.arguments)

    def own_call(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> ToolCalled:
        """Return the event of a call of one of our tools."""
        self._kind = ""
        return ToolCalled(call_id, tool, dict(arguments))

    def end(self) -> Iterator[AgentEvent]:
        """Emit the reported calls that were not emitted, at the end of the turn."""
        for call in self.calls:
            if not call.claimed and not call.shown and call.title:
                yield from self.show(call)
            if call.shown and not call.ended and not call.claimed:
                call.ended, call.ok = True, False
                yield _answered(call)

    def _events(self, update: Mapping[str, Any]) -> Iterator[AgentEvent]:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                yield from self._text("text", _text(update.get("content")))
            case "agent_thought_chunk":
                yield from self._text("thinking", _text(update.get("content")))
            case "plan":
                yield TodoListed(_todo(update))
            case "tool_call" | "tool_call_update":
                yield from self._call(self.calls.report(update))
            case "usage_update":
                self._read_usage(update)
            case _:
                pass

    def _text(self, kind: str, piece: str) -> Iterator[AgentEvent]:
        if not piece:
            return
        self._total += len(piece)
        if self._total > MAX_TURN:
            raise TooMuchText
        if kind != self._kind:
            self._kind, self._length = kind, 0
            self._block += 1
        start, self._length = self._length, self._length + len(piece)
        yield (TextDelta if kind == "text" else ThinkingDelta)(self._block, start, piece)

    def _call(self, call: ReportedCall) -> Iterator[AgentEvent]:
        if call.claimed:
            return
        begun = call.raw is not None and call.tool is None
        if begun or call.ended:
            yield from self.show(call)
        if call.ended:
            yield _answered(call)

    def _read_usage(self, update: Mapping[str, Any]) -> None:
        cost = mapping(update.get("cost"))
        if cost.get("currency") == "USD" and isinstance(cost.get("amount"), int | float):
            self.cost = float(cost["amount"])


def _name(call: ReportedCall) -> str:
    return " ".join(call.title.split())[:100] or call.kind


def _answered(call: ReportedCall) -> ToolAnswered:
    diffs = [f"{path}: changed" for path, _, _ in call.diffs]
    text = "\n".join([*diffs, call.text]).strip()
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[… {len(text) - MAX_TEXT:,} characters left out]"
    error = {"code": "agent_tool_failed", "message": text, "hint": "", "retryable": False}
    return ToolAnswered(
        call.id,
        call.tool or _name(call),
        ok=call.ok,
        text=text,
        structured={} if call.ok else {"error": error},
    )


def _text(content: Any) -> str:
    given = mapping(content)
    match given.get("type"):
        case "text":
            return str(given.get("text", ""))
        case "resource_link":
            return f"[{given.get('name') or given.get('uri')}]"
        case None:
            return ""
        case kind:
            return f"[{kind}]"


def _todo(update: Mapping[str, Any]) -> list[TodoItem]:
    """Return the items of a plan, in the protocol the agent's list of tasks."""
    entries: Any = update.get("entries") or ()
    return [
        TodoItem(str(entry.get("content", ""))[:MAX_TODO_TEXT], _STATUS[str(entry.get("status"))])
        for entry in entries[:MAX_TODO]
        if str(entry.get("status")) in _STATUS
    ]


def used(
    usage: Mapping[str, Any], cost: float | None, before: float | None, seconds: float
) -> Used:
    """Return the usage of a turn.

    Args:
        usage: ``usage`` of the response to the prompt; empty if the agent reports none.
        cost: The cost of the session in US dollars; None if unknown.
        before: The same before the turn.
        seconds: The duration of the turn.
    """

    def tokens(name: str) -> int:
        value = usage.get(name)
        return value if isinstance(value, int) else 0

    return Used(
        input_tokens=tokens("inputTokens"),
        output_tokens=tokens("outputTokens") + tokens("thoughtTokens"),
        cache_read_tokens=tokens("cachedReadTokens"),
        cache_write_tokens=tokens("cachedWriteTokens"),
        cost_usd=None if cost is None or before is None else round(max(cost - before, 0.0), 9),
        session_cost_usd=cost,
        seconds=round(seconds, 3),
        requests=0,
    )
