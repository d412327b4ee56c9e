"""Generate TypeScript types from the models of the server's routes.

    python scripts/typescript.py

writes `src/api/models.ts`; `tests/test_frontend.py` fails if it differs from this output.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter

from tk_ai_extension.agent.chat_setup import ChatSetupInfo
from tk_ai_extension.agent.claude.providers import ConnectionInfo
from tk_ai_extension.model.callers import Mode
from tk_ai_extension.model.proposals import StepKind
from tk_ai_extension.server import rest_models
from tk_ai_extension.server.openapi import definitions
from tk_ai_extension.tools.run_plans import CellRun
from tk_ai_extension.workspace.permission_requests import Answer, Effect, Outcome
from tk_ai_extension.workspace.permissions import StandingApprovalInfo

TARGET = Path(__file__).parent.parent / "src" / "api" / "models.ts"

SENT: tuple[Any, ...] = (
    rest_models.EventHead,
    *rest_models.CHAT_EVENTS,
    rest_models.ActivityEvent,
    rest_models.ChatInfo,
    rest_models.ErrorInfo,
    rest_models.PermissionEvent,
    CellRun,
    # Changes to notebooks, and code that the page asks for.
    rest_models.CombinedChanges,
    rest_models.UndoneChanges,
    rest_models.UndoneTurn,
    rest_models.CompletedCode,
    rest_models.EditedCell,
    # Attachments of a message, and the setup of chats.
    *get_args(rest_models.Attachment),
    rest_models.VariableList,
    ChatSetupInfo,
    ConnectionInfo,
    StandingApprovalInfo,
)
"""The models that the page reads, with all models that they refer to."""

EVENTS = [event.__name__ for event in rest_models.CHAT_EVENTS]
HEAD_FIELDS: dict[str, Any] = definitions(SENT)["EventHead"]["properties"]
UNIONS = {
    "Attachment": [each.__name__ for each in get_args(rest_models.Attachment)],
    "ChatEvent": EVENTS,
    "PermissionEvent": [
        "PendingPermissionRequests",
        "PermissionRequestAdded",
        "PermissionRequestSettled",
    ],
}
LITERALS: dict[str, Any] = {
    "Answer": Answer,
    "Effect": Effect,
    "Mode": Mode,
    "Outcome": Outcome,
    "StepKind": StepKind,
}

SIMPLE = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}

WIDTH = 100
"""Characters of a line, as in oxfmt's settings."""

HEAD = """\
/* Written by scripts/typescript.py, from the models of the server's routes. */
"""


def generate() -> str:
    """The module."""
    names = {json.dumps(_enum(TypeAdapter(each))): name for name, each in LITERALS.items()}
    parts = [HEAD]
    for name, each in sorted(LITERALS.items()):
        parts.append(_union(name, _members(each)))
    parts += [_declared(name, each, names) for name, each in sorted(definitions(SENT).items())]
    for name, members in UNIONS.items():
        parts.append(_union(name, members))
    return "".join(parts)


def _members(literal: Any) -> list[str]:
    """The values of a literal; those of an `Answer` by that name."""
    values, answers = _enum(TypeAdapter(literal)), _enum(TypeAdapter(Answer))
    if set(values) > set(answers):
        return ["Answer", *(_literal(each) for each in values if each not in answers)]
    return [_literal(value) for value in values]


def _union(name: str, members: list[str]) -> str:
    short = f"export type {name} = {' | '.join(members)};\n"
    if len(short) <= WIDTH + 1:
        return short
    return f"export type {name} =" + "".join(f"\n  | {member}" for member in members) + ";\n"


def _enum(adapter: TypeAdapter[Any]) -> list[Any]:
    return adapter.json_schema()["enum"]


def _options(values: list[Any]) -> str:
    return " | ".join(_literal(value) for value in values)


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)


def _declared(name: str, schema: dict[str, Any], names: dict[str, str]) -> str:
    if "properties" not in schema and schema.get("type") != "object":
        return f"export type {name} = {_type(schema, names)};\n"
    required = schema.get("required", [])
    properties = dict(schema.get("properties", {}))
    base = ""
    if name in EVENTS:
        # A request's id replaces the number of other events.
        own = properties["id"]["type"] != HEAD_FIELDS["id"]["type"]
        base = " extends Omit<EventHead, 'id'>" if own else " extends EventHead"
        for key in HEAD_FIELDS.keys() - ({"id"} if own else set()):
            del properties[key]
    lines: list[str] = []
    for key, value in properties.items():
        lines += _comment(value.get("description"), "  ")
        lines.append(f"  {key}{'' if key in required else '?'}: {_type(value, names)};")
    comment = _comment(schema.get("description"), "")
    return "\n".join([*comment, f"export interface {name}{base} {{", *lines, "}", ""])


def _comment(text: str | None, indent: str) -> list[str]:
    if not text:
        return []
    if len(text) + len(indent) + 7 <= WIDTH:
        return [f"{indent}/** {text} */"]
    wrapped = textwrap.wrap(text, WIDTH - len(indent) - 3, break_long_words=False)
    return [f"{indent}/**", *(f"{indent} * {line}" for line in wrapped), f"{indent} */"]


def _type(schema: dict[str, Any], names: dict[str, str]) -> str:
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "const" in schema:
        return _literal(schema["const"])
    if "enum" in schema:
        return names.get(json.dumps(schema["enum"])) or _options(schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(_type(each, names) for each in schema[key]))
    return SIMPLE.get(schema.get("type", "")) or _composed(schema, names)


def _composed(schema: dict[str, Any], names: dict[str, str]) -> str:
    match schema.get("type"):
        case "array":
            item = _type(schema.get("items", {}), names)
            is_whole = " | " not in item and not item.startswith("readonly ")
            return f"readonly {item}[]" if is_whole else f"readonly ({item})[]"
        case "object":
            values = schema.get("additionalProperties")
            of = _type(values, names) if isinstance(values, dict) else "unknown"
            return f"Readonly<Record<string, {of}>>"
        case _:
            return "unknown"


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
