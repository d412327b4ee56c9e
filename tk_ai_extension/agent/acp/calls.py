"""Calls that an agent reports, and which of them are calls of our tools.

An agent reports each of its calls (``tool_call``), those of our tools as well, and the calls of our
tools also arrive over MCP, without the id of the report in most agents. Both are one call.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tk_ai_extension.agent.tool_server import SERVER

REPORT = 0.5
"""Timeout, in seconds, for an agent to report a call that has arrived over MCP."""

_NAMES = re.compile(
    rf"(?:tool:\s*)?(?:mcp__{SERVER}__|mcp\.{SERVER}\.|{SERVER}[./_:])?(\w+)"
    rf"(?:\s*\({SERVER} MCP Server\)(?::.*)?)?",
    re.IGNORECASE | re.DOTALL,
)
"""Matches the name of one of our tools as agents write it in a title."""


@dataclass
class ReportedCall:
    """A call as the agent has reported it so far.

    Attributes:
        id: The agent's id.
        title: Its title.
        kind: Its kind: read, edit, delete, move, search, execute, think, fetch, switch_mode, other.
        tool: The name of our tool; None if it is the agent's own.
        raw: Its input.
        text: Its output as text.
        diffs: The files that it writes: path, text before (None if new), text after.
        locations: Paths of the files that it concerns.
        shown: Whether its event was emitted.
        claimed: Whether it has arrived over MCP.
        ended: Whether it has ended.
        ok: Whether it succeeded.
    """

    id: str
    title: str = ""
    kind: str = "other"
    tool: str | None = None
    raw: Any = None
    text: str = ""
    diffs: list[tuple[str, str | None, str]] = field(
        default_factory=list[tuple[str, str | None, str]]
    )
    locations: list[str] = field(default_factory=list[str])
    shown: bool = False
    claimed: bool = False
    ended: bool = False
    ok: bool = True

    @property
    def arguments(self) -> dict[str, Any]:
        """Its input as arguments."""
        if self.tool is not None:
            return _arguments(self.raw)
        return dict(mapping(self.raw)) or {"title": self.title}


class CallBook:
    """The calls of one turn.

    Args:
        tools: The names of our tools.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)
        self._calls: dict[str, ReportedCall] = {}
        # Calls over MCP that were not reported in time.
        self._unreported: list[tuple[str, dict[str, Any]]] = []
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[ReportedCall]:
        return iter(self._calls.values())

    def report(self, update: Mapping[str, Any]) -> ReportedCall:
        """Record a ``tool_call``, a ``tool_call_update``, or the call of a permission request."""
        call_id = str(update.get("toolCallId") or "")
        call = self._calls.setdefault(call_id, ReportedCall(call_id))
        call.title = str(update.get("title") or call.title)
        call.kind = str(update.get("kind") or call.kind)
        if update.get("rawInput"):
            call.raw = update["rawInput"]
        if update.get("locations"):
            call.locations = [str(mapping(each).get("path", "")) for each in update["locations"]]
        _read_content(call, update)
        status = update.get("status")
        if status in ("completed", "failed"):
            call.ended, call.ok = True, status == "completed"
        call.tool = call.tool or self._tool_of(call, update)
        if call.tool is not None and not call.claimed:
            self._claim_earlier(call)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return call

    async def claim(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return the id of the report of a call that has arrived over MCP; None if there is none yet."""
        try:
            async with asyncio.timeout(REPORT):
                while (found := self._unclaimed(tool, arguments)) is None:
                    await self._changed.wait()
        except TimeoutError:
            self._unreported.append((tool, dict(arguments)))
            return None
        found.claimed, found.tool = True, tool
        return found.id

    def writing(self, path: str) -> ReportedCall | None:
        """Return the reported call that writes a file; None if there is none."""
        for call in self._calls.values():
            paths = [*(each[0] for each in call.diffs), *call.locations]
            if path in paths and not call.ended and not call.claimed and call.tool is None:
                return call
        return None

    def claim_id(self, call_id: str, tool: str) -> None:
        """Record that the call of this id has arrived over MCP."""
        call = self._calls.setdefault(call_id, ReportedCall(call_id))
        call.claimed, call.tool = True, tool

    def _unclaimed(self, tool: str, arguments: Mapping[str, Any]) -> ReportedCall | None:
        waiting = [each for each in self._calls.values() if not each.claimed and not each.ended]
        equal = [each for each in waiting if _arguments(each.raw) == arguments]
        named = [each for each in waiting if each.tool == tool]
        both = [each for each in equal if each.tool == tool]
        alike = [each for each in equal if each.tool is None and arguments]
        return next(iter((*both, *named, *alike)), None)

    def _claim_earlier(self, call: ReportedCall) -> None:
        """Claim a report that comes after its call."""
        for each in self._unreported:
            if each[0] == call.tool:
                self._unreported.remove(each)
                call.claimed = True
                return

    def _tool_of(self, call: ReportedCall, update: Mapping[str, Any]) -> str | None:
        """Return the name of our tool that a report names, in the forms that agents use."""
        if call.kind in ("edit", "delete", "move", "execute") and not _names_server(call.raw):
            # A file or a command may be called anything.
            names = [_claude_name(update)]
        else:
            names = [_claude_name(update), _raw_name(call.raw), call.title]
        for name in names:
            match = _NAMES.fullmatch(name.strip()) if name else None
            if match is not None and match[1] in self._tools:
                return match[1]
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _claude_name(update: Mapping[str, Any]) -> str:
    return str(mapping(mapping(update.get("_meta")).get("claudeCode")).get("toolName") or "")


def _names_server(raw: Any) -> bool:
    return mapping(raw).get("server") == SERVER


def _raw_name(raw: Any) -> str:
    if not _names_server(raw):
        return ""
    given = mapping(raw)
    return str(given.get("tool") or given.get("toolName") or given.get("name") or "")


def _arguments(raw: Any) -> dict[str, Any]:
    """Return the arguments in a report's input; some agents put them into an object."""
    given = mapping(raw)
    if _names_server(given):
        return dict(mapping(given.get("arguments") or given.get("args")))
    return dict(given)


def _read_content(call: ReportedCall, update: Mapping[str, Any]) -> None:
    texts: list[str] = []
    for each in cast("Iterable[Any]", update.get("content") or ()):
        block = mapping(each)
        if block.get("type") == "diff":
            before, after = block.get("oldText"), str(block.get("newText", ""))
            item = (str(block.get("path", "")), None if before is None else str(before), after)
            call.diffs = [*(known for known in call.diffs if known != item), item]
        elif block.get("type") == "content":
            inner = mapping(block.get("content"))
            texts.append(str(inner.get("text") or f"[{inner.get('type', 'content')}]"))
    if texts:
        call.text = "\n".join(texts)
    elif not call.text and update.get("rawOutput"):
        raw = update["rawOutput"]
        call.text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
