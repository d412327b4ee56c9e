"""Calls that an agent reports, and which of them are calls of our tools.

The calls of our tools arrive over MCP, where they are shown and decided about. An agent reports them as
well, and some ask for their permission, which they get at once. So a report is one of our tools only if
the agent's program says so: the model writes the input of a call, and often its title.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    TextContentBlock,
    ToolCallStart,
    ToolCallUpdate,
)

from tk_ai_extension.agent.tool_server import SERVER

ToolArguments = Mapping[str, Collection[str]]
"""The names of our tools, and of the arguments of each."""

_TITLE = re.compile(
    rf"(?:[Tt]ool:\s*)?(?:mcp__{SERVER}__|mcp\.{SERVER}\.|{SERVER}[./_:])([\w-]+)"
    rf"|([\w-]+)\s*\({SERVER} MCP Server\)(?::.*)?",
    re.DOTALL,
)
"""Matches the name of one of our tools as agents write it: always with the server's name."""

_ENVELOPE = {"server", "tool", "arguments"}
"""The keys of an input in which the agent's program names the server and the tool."""

_TITLED = (None, "read", "search", "think", "other")
"""Kinds of calls that a title identifies. For others, such as a shell's, the title is the model's text."""


@dataclass
class ReportedCall:
    """A call as the agent has reported it so far.

    Attributes:
        report: All that the agent has reported.
        is_shown: Whether its event was emitted.
        is_refused: Whether its permission was refused.
    """

    report: ToolCallUpdate
    is_shown: bool = False
    is_refused: bool = False

    def add(self, update: ToolCallStart | ToolCallUpdate) -> None:
        """Add what a ``tool_call``, a ``tool_call_update``, or a permission request reports."""
        said = {name: getattr(update, name) for name in ToolCallUpdate.model_fields}
        self.report = self.report.model_copy(update={k: v for k, v in said.items() if v})

    @property
    def name(self) -> str:
        """Its name for people."""
        return " ".join((self.report.title or "").split())[:100] or self.report.kind or "other"

    @property
    def stated(self) -> str:
        """The name of its tool as the agent's program states it beside the title; empty if unknown."""
        return str(
            json_object((self.report.field_meta or {}).get("claudeCode")).get("toolName") or ""
        )

    @property
    def input(self) -> Mapping[str, Any]:
        """Its input, if it is an object; else an empty one."""
        return json_object(self.report.raw_input)

    @property
    def arguments(self) -> dict[str, Any]:
        """Its input for people; what else says what it does, if that is no object."""
        said = {"title": self.report.title, "content": self.text}
        return dict(self.input) or {name: text for name, text in said.items() if text}

    @property
    def diffs(self) -> list[FileEditToolCallContent]:
        """The files that it writes, with their text before and after."""
        content = self.report.content or ()
        return [each for each in content if isinstance(each, FileEditToolCallContent)]

    @property
    def paths(self) -> list[str]:
        """The files that it concerns, as the agent's program names them."""
        locations = self.report.locations or ()
        return [*(each.path for each in self.diffs), *(each.path for each in locations)]

    @property
    def text(self) -> str:
        """Its output."""
        content = self.report.content or ()
        blocks = [each.content for each in content if isinstance(each, ContentToolCallContent)]
        if blocks:
            return "\n".join(map(text_of, blocks))
        raw = self.report.raw_output or ""
        return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.report.status in ("completed", "failed")


def is_ours(call: ReportedCall, tools: ToolArguments) -> bool:
    """Return whether a call is proven to be one of our tools.

    A name that the agent's program states decides alone. Otherwise the title must name the server, and
    the input must be one of that tool. A call of a kind that does more than read must have the input as
    an envelope as well, which no input of a shell or an editor is.

    >>> tools = {"undo": {"steps"}}
    >>> def check(title, raw, **meta):
    ...     update = ToolCallUpdate(tool_call_id="1", title=title, raw_input=raw, field_meta=meta)
    ...     return is_ours(ReportedCall(update), tools)
    >>> check("undo", {}, claudeCode={"toolName": "mcp__tk__undo"})
    True
    >>> check("tk_undo", {"steps": 1})
    True
    >>> check("tk_undo", {"command": "rm"})
    False
    >>> check("undo", {"server": "tk", "tool": "undo", "arguments": {}})
    False

    Args:
        call: The call.
        tools: The names of our tools, and of the arguments of each.
    """
    match = _TITLE.fullmatch(call.stated or (call.report.title or "").strip())
    name = "" if match is None else match[1] or match[2]
    if name not in tools or call.paths:
        return False
    if call.stated:
        return True
    if call.input.keys() == _ENVELOPE:
        return (call.input["server"], call.input["tool"]) == (SERVER, name)
    is_input = isinstance(call.report.raw_input or {}, Mapping)
    return call.report.kind in _TITLED and is_input and call.input.keys() <= set(tools[name])


def text_of(block: Any) -> str:
    """Return the text of a content block; the name of what it has instead of one."""
    if isinstance(block, TextContentBlock):
        return block.text
    return f"[{getattr(block, 'name', block.type)}]"


def json_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
