"""Calls that an agent reports, and which of them are calls of our tools.

An agent reports each of its calls (``tool_call``), those of our tools as well, and the calls of our
tools also arrive over MCP, without the id of the report in most agents. Both are one call.

A request for a permission of one of our tools is allowed at once, so a report is one of our tools only
if the agent's program says so. The model writes the input of a call, and often its title: see `identify`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tk_ai_extension.agent.tool_server import SERVER

ToolArguments = Mapping[str, Collection[str]]
"""The names of our tools, and of the arguments of each."""

REPORT = 0.5
"""Timeout, in seconds, for an agent to report a call that has arrived over MCP."""

_STATED = re.compile(rf"mcp__{SERVER}__([\w-]+)")
"""Matches the name that Claude's CLI has for one of our tools."""

_TITLE = re.compile(
    rf"(?:[Tt]ool:\s*)?(?:mcp__{SERVER}__|mcp\.{SERVER}\.|{SERVER}[./_:])([\w-]+)"
    rf"|([\w-]+)\s*\({SERVER} MCP Server\)(?::.*)?",
    re.DOTALL,
)
"""Matches the name of one of our tools as agents write it in a title: always with the server's name."""

_ENVELOPE = {"server", "tool", "arguments"}
"""The keys of an input in which the agent's program names the server and the tool."""

_TITLED = frozenset({"read", "search", "think", "other"})
"""Kinds of calls that a title identifies. For others, such as a shell's, the title is the model's text."""


@dataclass
class ReportedCall:
    """A call as the agent has reported it so far.

    Attributes:
        id: The agent's id.
        title: Its title.
        kind: Its kind: read, edit, delete, move, search, execute, think, fetch, switch_mode, other.
        tool: The name of our tool; None if it is the agent's own.
        stated: The name of its tool as the agent's program states it beside the title; empty if it does
            not.
        raw: Its input.
        text: Its output as text.
        diffs: The files that it writes: path, text before (None if new), text after.
        locations: Paths of the files that it concerns.
        shown: Whether its event was emitted.
        claimed: Whether it has arrived over MCP.
        refused: Whether its permission was refused.
        ended: Whether it has ended.
        ok: Whether it succeeded.
    """

    id: str
    title: str = ""
    kind: str = "other"
    tool: str | None = None
    stated: str = ""
    raw: Any = None
    text: str = ""
    diffs: list[tuple[str, str | None, str]] = field(
        default_factory=list[tuple[str, str | None, str]]
    )
    locations: list[str] = field(default_factory=list[str])
    shown: bool = False
    claimed: bool = False
    refused: bool = False
    ended: bool = False
    ok: bool = True

    @property
    def running(self) -> bool:
        """Whether it is one of the agent's own that has begun and has not ended, as far as is reported."""
        return self.shown and not (self.claimed or self.refused or self.ended)

    @property
    def arguments(self) -> dict[str, Any]:
        """Its input as arguments."""
        if self.tool is not None:
            return _arguments(self.raw)
        return dict(mapping(self.raw)) or {"title": self.title}


class CallBook:
    """The calls of one turn.

    Args:
        tools: The names of our tools, and of the arguments of each.
    """

    def __init__(self, tools: ToolArguments) -> None:
        self._tools = tools
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
        call.stated = _claude_name(update) or call.stated
        if update.get("rawInput"):
            call.raw = update["rawInput"]
        if update.get("locations"):
            call.locations = [str(mapping(each).get("path", "")) for each in update["locations"]]
        _read_content(call, update)
        status = update.get("status")
        if status in ("completed", "failed"):
            call.ended, call.ok = True, status == "completed"
        # Each time: a later report with the same id may be one of another action.
        call.tool = identify(call, self._tools)
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
        # It is no proof that this call is ours: the model writes the arguments of both.
        found.claimed = True
        return found.id

    def claim_id(self, call_id: str, tool: str) -> None:
        """Record that the call of this id has arrived over MCP."""
        call = self._calls.setdefault(call_id, ReportedCall(call_id))
        call.claimed, call.tool, call.stated = True, tool, f"mcp__{SERVER}__{tool}"

    def _unclaimed(self, tool: str, arguments: Mapping[str, Any]) -> ReportedCall | None:
        waiting = [each for each in self._calls.values() if not each.claimed and not each.ended]
        equal = [each for each in waiting if _arguments(each.raw) == arguments]
        named = [each for each in waiting if each.tool == tool]
        both = [each for each in equal if each.tool == tool]
        alike = [each for each in equal if arguments and _may_be_ours(each)]
        return next(iter((*both, *named, *alike)), None)

    def _claim_earlier(self, call: ReportedCall) -> None:
        """Claim a report that comes after its call."""
        for each in self._unreported:
            if each[0] == call.tool:
                self._unreported.remove(each)
                call.claimed = True
                return


def identify(call: ReportedCall, tools: ToolArguments) -> str | None:
    """Return the name of our tool that a call is of; None if that is not proven.

    A name that the agent's program states decides alone. Otherwise the title must name the server, and
    the input must be one of that tool. A call of a kind that does more than read must have the input as
    an envelope as well, which no input of a shell or an editor is.

    >>> tools = {"undo": {"steps"}}
    >>> identify(ReportedCall("1", title="undo", stated="mcp__tk__undo"), tools)
    'undo'
    >>> identify(ReportedCall("1", title="tk_undo", raw={"steps": 1}), tools)
    'undo'
    >>> identify(ReportedCall("1", title="tk_undo", raw={"command": "rm"}), tools)
    >>> identify(ReportedCall("1", title="undo", raw={"server": "tk", "tool": "undo"}), tools)

    Args:
        call: The call.
        tools: The names of our tools, and of the arguments of each.
    """
    if call.stated:
        match = _STATED.fullmatch(call.stated)
        return match[1] if match is not None and match[1] in tools else None
    match = _TITLE.fullmatch(call.title.strip())
    name = "" if match is None else match[1] or match[2]
    if name not in tools or call.diffs or call.locations:
        return None
    if _is_envelope(call.raw):
        return name if call.raw["tool"] == name else None
    given = mapping(call.raw)
    is_input = (not call.raw or bool(given)) and given.keys() <= set(tools[name])
    return name if call.kind in _TITLED and is_input else None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _claude_name(update: Mapping[str, Any]) -> str:
    return str(mapping(mapping(update.get("_meta")).get("claudeCode")).get("toolName") or "")


def _is_envelope(raw: Any) -> bool:
    given = mapping(raw)
    return set(given) == _ENVELOPE and given["server"] == SERVER


def _may_be_ours(call: ReportedCall) -> bool:
    """Return whether a call that names no tool of ours may be one: then its card is that of the call."""
    return call.tool is None and not call.stated and call.kind in _TITLED and not call.diffs


def _arguments(raw: Any) -> dict[str, Any]:
    """Return the arguments in a report's input; some agents put them into an envelope."""
    given = mapping(raw)
    return dict(mapping(given["arguments"])) if _is_envelope(given) else dict(given)


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
