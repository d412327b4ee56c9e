"""TypeScript of what the server sends: types, made of the models of its routes.

    python scripts/typescript.py

writes `src/api/models.ts`, and `changeModels.ts`, `codeModels.ts`, `connectionModels.ts`,
`contextModels.ts`, `setupModels.ts` beside it; `tests/test_frontend.py` fails
where they are not what this makes.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter

from tk_ai_extension.agent.context import ChatSetupInfo
from tk_ai_extension.agent.models import ConnectionInfo, ModelsInfo
from tk_ai_extension.model.callers import Mode
from tk_ai_extension.model.proposals import StepKind
from tk_ai_extension.server import models
from tk_ai_extension.server.openapi import definitions
from tk_ai_extension.tools.execution_results import CellRun
from tk_ai_extension.workspace.permission_requests import Answer, Effect, Outcome
from tk_ai_extension.workspace.permissions import StandingInfo

API = Path(__file__).parent.parent / "src" / "api"
TARGET = API / "models.ts"
CHANGES_TARGET = API / "changeModels.ts"
CODE_TARGET = API / "codeModels.ts"
CONTEXT_TARGET = API / "contextModels.ts"
CONNECTION_TARGET = API / "connectionModels.ts"
SETUP_TARGET = API / "setupModels.ts"

SENT: tuple[Any, ...] = (
    models.EventHead,
    *models.CHAT_EVENTS,
    models.Activity,
    models.ChatInfo,
    models.ErrorInfo,
    ModelsInfo,
    models.PermissionEvent,
    CellRun,
)
"""The models that the page reads, with all that they refer to."""

CHANGES: tuple[Any, ...] = (
    models.ChangeList,
    models.ChatChanges,
    models.NetChanges,
    models.UndoneChanges,
    models.UndoneTurn,
)
"""The models of changes, with what they refer to beyond `SENT`."""

CODE: tuple[Any, ...] = (models.CompletedCode, models.EditedCell)
"""The models of code that the page asks for."""

CONTEXT: tuple[Any, ...] = (
    *get_args(models.Attachment),
    models.VariableList,
    models.VariablePreview,
)
"""The models of what a person adds to a message."""


SETUP: tuple[Any, ...] = (ChatSetupInfo, StandingInfo)
"""The models of what chats are set up with."""

EVENTS = [event.__name__ for event in models.CHAT_EVENTS]
HEAD_FIELDS: dict[str, Any] = definitions(SENT)["EventHead"]["properties"]
UNIONS = {
    "ChatEvent": EVENTS,
    "PermissionEvent": ["PermissionsWaiting", "PermissionRequested", "PermissionSettled"],
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
"""Characters of a line, as in prettier's settings."""

HEAD = """\
/* Written by scripts/typescript.py, from the models of the server's routes. */
"""


def generate() -> str:
    """The module."""
    names = {json.dumps(_enum(TypeAdapter(each))): name for name, each in LITERALS.items()}
    parts = [HEAD]
    for name, each in sorted(LITERALS.items()):
        parts.append(_union(name, _members(each)))
    parts += _declarations(SENT, names)
    for name, members in UNIONS.items():
        parts.append(_union(name, members))
    return "".join(parts)


def generate_code() -> str:
    """The module of code that the page asks for."""
    return "".join([HEAD, *_declarations(CODE, {})])


def generate_changes() -> str:
    """The module of changes to notebooks."""
    known, found = definitions(SENT), definitions(CHANGES)
    own = [_declared(name, found[name], {}) for name in sorted(found.keys() - known.keys())]
    return "".join([HEAD, "\nimport type { TakenBack } from './models';\n\n", *own])


def generate_context() -> str:
    """The module of what a person adds to a message."""
    kinds = [each.__name__ for each in get_args(models.Attachment)]
    return "".join([HEAD, *_declarations(CONTEXT, {}), _union("Attachment", kinds)])


def generate_setup() -> str:
    """The module of what chats are set up with."""
    return "".join([HEAD, *_declarations(SETUP, {})])


def generate_connection() -> str:
    """The module of the connection, which the page reads when somebody connects a model."""
    known, found = definitions(SENT), definitions((ConnectionInfo,))
    own = [_declared(name, found[name], {}) for name in sorted(found.keys() - known.keys())]
    return "".join([HEAD, "\nimport type { ModelsInfo } from './models';\n\n", *own])


def _declarations(sent: tuple[Any, ...], names: dict[str, str]) -> list[str]:
    """Declarations of models and of all that they refer to."""
    return [_declared(name, each, names) for name, each in sorted(definitions(sent).items())]


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
        # A request's id stands where other events have their number.
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
            return f"readonly ({item})[]" if " | " in item else f"readonly {item}[]"
        case "object":
            values = schema.get("additionalProperties")
            of = _type(values, names) if isinstance(values, dict) else "unknown"
            return f"Readonly<Record<string, {of}>>"
        case _:
            return "unknown"


if __name__ == "__main__":
    TARGET.write_text(generate(), encoding="utf-8")
    CHANGES_TARGET.write_text(generate_changes(), encoding="utf-8")
    CONNECTION_TARGET.write_text(generate_connection(), encoding="utf-8")
    CONTEXT_TARGET.write_text(generate_context(), encoding="utf-8")
    CODE_TARGET.write_text(generate_code(), encoding="utf-8")
    SETUP_TARGET.write_text(generate_setup(), encoding="utf-8")
