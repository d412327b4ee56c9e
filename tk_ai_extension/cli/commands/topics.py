"""Help topics for programs: the output of `--json`, and the error codes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.session import UNREACHABLE_CODES
from tk_ai_extension.model import agent_errors
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.glossary import FIELDS

WIDTH = 100

assert agent_errors  # they are part of the tree of errors

_JSON = """\
`--json` answers with one JSON object in a line on standard output, errors too:

  {"error": {"code": ..., "message": ..., "hint": ..., "retryable": ..., "details": {...}}}

`nb help errors` lists the codes. A field without a value is left out. Every answer may have `notices`:
what the caller has to know besides, such as that a kernel died. A command that runs code answers when
the code has ended or `--wait` is over; `status` says how: ok, error, interrupted, timed_out, kernel_died,
kernel_restarted or connection_lost; queued or running where it still runs. `nb chat --json` prints
each event as a line.

Each command, and the fields of its answer; those of the members of a list are in brackets:
"""


def error_classes(root: type[ToolError] = ToolError) -> Iterator[type[ToolError]]:
    """Return all error classes with their own code, in the order of definition."""
    for kind in root.__subclasses__():
        if "code" in vars(kind):
            yield kind
        yield from error_classes(kind)


def json_topic(commands: Iterable[tuple[str, tuple[type[BaseModel], ...]]]) -> str:
    """Return the help topic on the output of `--json`.

    Args:
        commands: Each command with the classes of its answers.
    """
    lines = [_JSON]
    for name, answers in sorted(commands, key=lambda each: each[0]):
        for number, answer in enumerate(answers):
            fields = ", ".join(_fields(answer.model_json_schema()))
            lines += _entry("" if number else name, f"or: {fields}" if number else fields)
    lines += ["", "Some fields:", ""]
    for name, said in FIELDS.items():
        lines += _entry(name, said.replace("](errors.md#how-an-execution-ends)", "").lstrip("["))
    return "\n".join(lines) + "\n"


def errors_topic() -> str:
    """Return the help topic on error codes."""
    lines = ["Error codes, in text and in `--json`, with their exit status:", ""]
    for kind in error_classes():
        status = wire.UNREACHABLE if kind.code in UNREACHABLE_CODES else wire.REFUSED
        said = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
        again = " Retryable: the same call can succeed later." if kind.retryable else ""
        lines += _entry(f"{kind.code} {status}", f"{said}{again}")
    return "\n".join(lines) + "\n"


def _entry(name: str, text: str) -> list[str]:
    first, *rest = textwrap.wrap(text, WIDTH - 30) or [""]
    return [f"  {name:<27} {first}".rstrip(), *(f"{'':<30}{line}" for line in rest)]


def _fields(
    schema: Mapping[str, Any], classes: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[str]:
    """Yield the fields of an answer; those of the members of its lists in brackets."""
    classes = schema.get("$defs", {}) if classes is None else classes
    for name, field in schema["properties"].items():
        if name == "notices":
            continue
        listed: Mapping[str, Any] = next(
            (each for each in (field, *field.get("anyOf", ())) if "items" in each), {}
        )
        item = classes.get(str(listed.get("items", {}).get("$ref", "")).rpartition("/")[2])
        yield f"{name} [{', '.join(_fields(item, classes))}]" if item else name
