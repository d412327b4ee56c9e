"""Translates an agent's reports and requests into events and actions of `agent.backend`; without I/O.

Calls of our tools arrive over MCP, where they are shown and permitted. Agents report them as well, and some
request permission, which is granted at once. So a report counts as a call of our tools only if the agent's
program says so: the model writes the input of a call, and often its title.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    CreateFormSessionElicitationRequest,
    FileEditToolCallContent,
    PermissionOption,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)

from tk_ai_extension.agent.backend import SERVER, AgentEvent, Heartbeat, result_of_agent
from tk_ai_extension.agent.chat_events import (
    AgentChoice,
    AgentSetting,
    AgentSlashCommand,
    OptionsOffered,
    Question,
    QuestionOption,
    TextDelta,
    ThinkingDelta,
    TodoItem,
    TodoListed,
    ToolAnswered,
    ToolCalled,
    UsageReported,
)
from tk_ai_extension.agent.turn import ActionRequest, ReportedEdits
from tk_ai_extension.model.output_text import shorten
from tk_ai_extension.model.proposals import Proposal, ProposalStep, diff_lines
from tk_ai_extension.tools.registry import argument_proposal
from tk_ai_extension.workspace.permission_requests import Effect

MAX_TEXT = 20_000
"""Maximum length of the output of an agent's built-in tool, in characters."""
MAX_TURN = 20_000_000
"""Maximum length of an agent's text in a turn, in characters; more is dropped, and counts as silence."""

MAX_OFFERED = 100
"""Maximum number of settings, and of commands, that an agent can offer."""

ToolArguments = Mapping[str, Collection[str]]
"""The names of our tools, each with the names of its arguments."""

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

EFFECTS: Mapping[str | None, Effect] = {
    "read": "READ",
    "search": "READ",
    "think": "READ",
    "edit": "WRITE",
}
"""The effect of a call by its kind; EXECUTE for every other kind."""

UNKNOWN = ""
"""An unknown place: an action that concerns it counts as running a command."""

CANCELLED = {"outcome": {"outcome": "cancelled"}}
"""The response to a permission request of a turn that was stopped or has ended."""

ASK = "AskUserQuestion"
"""The tool of a form that belongs to no call: the panel knows Claude's."""

AGREED = ""
"""The field of a form without fields, which asks the person to agree to its message."""

Fields = Mapping[str, Mapping[str, Any]]
"""The JSON schemas of the fields of a form, by name."""


@dataclass
class ReportedCall:
    """A call as the agent has reported it so far.

    Attributes:
        report: All that the agent has reported.
        is_shown: Whether its event was emitted.
    """

    report: ToolCallUpdate
    is_shown: bool = False

    def add(self, update: ToolCallStart | ToolCallUpdate) -> None:
        """Add the fields of a ``tool_call``, a ``tool_call_update``, or a permission request."""
        said = {name: getattr(update, name) for name in ToolCallUpdate.model_fields}
        self.report = self.report.model_copy(update={k: v for k, v in said.items() if v})

    @property
    def name(self) -> str:
        """Its name for people."""
        return " ".join((self.report.title or "").split())[:100] or self.report.kind or "other"

    @property
    def stated(self) -> str:
        """The name of its tool as the agent's program states it, apart from the title; empty if unknown."""
        return str(
            json_object((self.report.field_meta or {}).get("claudeCode")).get("toolName") or ""
        )

    @property
    def input(self) -> Mapping[str, Any]:
        """Its input, if it is an object; else an empty one."""
        return json_object(self.report.raw_input)

    @property
    def arguments(self) -> dict[str, Any]:
        """Its input for people; its title and content if it has no input object."""
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
    the input must match that tool. If a call does more than read, its input must also be an envelope,
    which no input of a shell or an editor is.

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


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects of a list; none of any other value."""
    return [*map(json_object, cast("list[Any]", value))] if isinstance(value, list) else []


def values_of(setting: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a setting, which may be in groups, with their names."""
    found: dict[str, str] = {}
    for each in objects(setting.get("options")):
        value = str(each.get("value"))
        found |= values_of(each) if "options" in each else {value: str(each.get("name") or value)}
    return found


def offered(
    settings: Iterable[Mapping[str, Any]], commands: Iterable[Mapping[str, Any]]
) -> OptionsOffered:
    """Return what an agent offers the person, without its modes: see `session.ASKING`."""
    return OptionsOffered(
        [
            AgentSetting(
                str(each.get("id")),
                str(each.get("name")),
                str(each.get("currentValue")),
                [AgentChoice(value, name) for value, name in values_of(each).items()],
            )
            for each in [*settings][:MAX_OFFERED]
            if each.get("category") != "mode" and values_of(each)
        ],
        [
            AgentSlashCommand(str(each.get("name")), str(each.get("description") or ""))
            for each in [*commands][:MAX_OFFERED]
        ],
    )


def text_of(block: Any) -> str:
    """Return the text of a content block, or the name of its content in brackets."""
    if isinstance(block, TextContentBlock):
        return block.text
    return f"[{getattr(block, 'name', block.type)}]"


def json_object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


class AcpEventTranslator:
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
        self._total = 0
        # The cost of the session, if it was reported in this turn.
        self._cost: float | None = None

    def report(self, update: ToolCallStart | ToolCallUpdate) -> ReportedCall:
        """Add an update or a permission request to its call, and return the call."""
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
                yield Heartbeat()
            case _:
                yield Heartbeat()

    def show(self, call: ReportedCall) -> Iterator[AgentEvent]:
        """Yield the event of a call of a built-in tool, once."""
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

    def used(self, usage: Usage | None) -> UsageReported | None:
        """Return the usage of the turn; None if the agent reports none.

        Args:
            usage: The usage in the response to the prompt; None without it.
        """
        if usage is None and self._cost is None:
            return None
        tokens = usage or Usage(total_tokens=0, input_tokens=0, output_tokens=0)
        return UsageReported(
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens + (tokens.thought_tokens or 0),
            cache_read_tokens=tokens.cached_read_tokens or 0,
            cache_write_tokens=tokens.cached_write_tokens or 0,
            session_cost_usd=self._cost,
            seconds=round(time.monotonic() - self._began, 3),
        )

    def _text(self, kind: str, piece: str) -> Iterator[AgentEvent]:
        self._total += len(piece)
        if not piece or self._total > MAX_TURN:
            return
        if kind != self._kind:
            self._kind = kind
            self._block += 1
        yield (TextDelta if kind == "text" else ThinkingDelta)(self._block, piece)

    def _call(self, call: ReportedCall) -> Iterator[AgentEvent]:
        yield Heartbeat()
        if self.is_ours(call):
            return
        if call.report.raw_input is not None or call.has_ended:
            yield from self.show(call)
        if call.report.status == "completed":
            # The diff of a file that was new or is now empty cannot locate the edit.
            edits = ((each.path, each.old_text, each.new_text) for each in call.diffs)
            known = tuple((path, old, new) for path, old, new in edits if old and new)
            if known:
                yield ReportedEdits(call.report.tool_call_id, known)
        if call.has_ended:
            yield _answered(call)


def _answered(call: ReportedCall) -> ToolAnswered:
    diffs = [f"{each.path}: changed" for each in call.diffs]
    text = shorten("\n".join([*diffs, call.text]).strip(), MAX_TEXT).text
    return result_of_agent(
        call.report.tool_call_id, call.name, text, ok=call.report.status == "completed"
    )


def action_of(call: ReportedCall, agent: str, own_folder: Path) -> ActionRequest:
    """Return the action of a call that an agent asks about.

    Args:
        call: The call.
        agent: The agent's display name.
        own_folder: The agent's working directory, which has no files of the person.
    """
    said = f"{agent} wants to use its built-in tool: {call.name}"
    steps = [
        ProposalStep(
            "arguments", f"Write {each.path}", lines=diff_lines(each.old_text or "", each.new_text)
        )
        for each in call.diffs
    ]
    shown = {each.path for each in call.diffs}
    if not shown or not shown.issuperset(call.paths):
        files = {"files": call.paths} if call.paths else {}
        steps += argument_proposal(said, files | call.arguments).steps
    return ActionRequest(
        call.report.tool_call_id,
        call.name,
        _effect(call),
        {"title": call.report.title, "kind": call.report.kind, "input": call.arguments},
        Proposal(said, tuple(steps)),
        _concerned_paths(call, own_folder),
    )


def writes_notebook(call: ReportedCall) -> bool:
    """Return whether a call would write a notebook as a file."""
    # Claude's built-in tool for notebooks has neither a kind nor a location.
    named = [str(call.input.get("notebook_path"))]
    paths = call.paths if _effect(call) == "WRITE" else named
    return any(path.lower().endswith(".ipynb") for path in paths)


def answer(options: Iterable[PermissionOption], *, is_allowed: bool) -> dict[str, Any]:
    """Return the response to a permission request: only this call is allowed or rejected.

    Lasting approvals are the policy's, not the agent's.

    Args:
        options: The options that the agent offers.
        is_allowed: Whether the call is allowed.
    """
    kind = "allow_once" if is_allowed else "reject_once"
    for option in options:
        if option.kind == kind:
            return {"outcome": {"outcome": "selected", "optionId": option.option_id}}
    return CANCELLED


def fields_of(form: CreateFormSessionElicitationRequest) -> Fields:
    """Return the fields of a form."""
    properties = form.requested_schema.model_dump(by_alias=True)["properties"]
    return properties or {AGREED: {"type": "boolean"}}


def questions_of(message: str, fields: Fields) -> list[Question]:
    """Return a question for each field of a form; the first one has the form's message, too."""
    questions: list[Question] = []
    for name, field in fields.items():
        title = str(field.get("title") or name)
        text = "\n".join(filter(None, (message, str(field.get("description") or ""))))
        options = [QuestionOption(label, note) for label, (note, _) in _options(field).items()]
        is_list = field["type"] == "array"
        questions.append(Question(text or title, title if text else "", options, is_list))
        message = ""
    return questions


def filled(fields: Fields, answers: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the response to a form with the person's answers to its questions."""
    content: dict[str, Any] = {}
    for (name, field), given in zip(fields.items(), answers, strict=False):
        values = [_value(field, answer) for answer in given]
        if values:
            content[name] = values if field["type"] == "array" else values[0]
    if not content or content.pop(AGREED, True) is not True:
        return {"action": "decline"}
    return {"action": "accept", "content": content}


def _options(field: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the description and the value of each answer that a field offers, by its label."""
    if field["type"] == "boolean":
        return {"Yes": ("", True), "No": ("", False)}
    of = field.get("items") or field
    plain = [{"const": value} for value in of.get("enum") or ()]
    return {
        str(each.get("title") or each["const"]): (each.get("description") or "", each["const"])
        for each in of.get("oneOf") or of.get("anyOf") or plain
    }


def _value(field: Mapping[str, Any], answer: str) -> Any:
    """Return the value of an answer. Words that are no option, or no number, are for the agent to refuse."""
    kind = {"integer": int, "number": float}.get(field["type"])
    with suppress(ValueError, OverflowError):
        if kind is not None and math.isfinite(kind(answer)):
            return kind(answer)
    return _options(field).get(answer, ("", answer))[1]


def _effect(call: ReportedCall) -> Effect:
    effect: Effect = EFFECTS.get(call.report.kind, "EXECUTE")
    return "WRITE" if effect == "READ" and call.diffs else effect


def _concerned_paths(call: ReportedCall, own_folder: Path) -> tuple[str, ...]:
    """Return the absolute paths that a call concerns outside the agent's folder, and `UNKNOWN`."""
    if _effect(call) == "EXECUTE" or (call.report.kind == "think" and not call.paths):
        return ()
    found: list[str] = []
    for path in call.paths or [UNKNOWN]:
        if not Path(path).is_absolute():
            found.append(UNKNOWN)
        elif not Path(path).resolve().is_relative_to(own_folder.resolve()):
            found.append(path)
    return tuple(dict.fromkeys(found))
