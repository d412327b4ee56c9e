"""Outputs of a cell while it runs: nbformat outputs as dicts, and the changes to a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tk_ai_extension.model.cells import Json, OutputsSummary

_SAMPLE = 32
"""Of a long array in an output, about so many elements are measured."""
_DEPTH = 30
"""So many levels of an output are measured."""


@dataclass(frozen=True, slots=True)
class Append:
    """One more output at the end."""

    output: Json


@dataclass(frozen=True, slots=True)
class StreamEdit:
    """The text of stream output ``index`` becomes ``text[:start] + new``.

    With ``start`` at its present length this appends; a smaller one is a carriage return or a
    backspace that wrote over what was there.
    """

    index: int
    start: int
    new: str


@dataclass(frozen=True, slots=True)
class ReplaceOutput:
    """Output ``index`` is replaced (``update_display_data``)."""

    index: int
    output: Json


@dataclass(frozen=True, slots=True)
class ClearOutputs:
    """All outputs go."""


OutputChange = Append | StreamEdit | ReplaceOutput | ClearOutputs


def stream_text(output: Json) -> str:
    """The text of a stream output, stored as one string or as lines; of what is no text, its value."""
    text: Any = output.get("text", "")
    if not isinstance(text, list):
        return str(text)
    lines = cast("list[Any]", text)
    try:
        return "".join(lines)
    except TypeError:
        return "".join(map(str, lines))


def traceback_of(output: Json) -> list[str]:
    """The entries of an error's traceback; none where there is no list of them."""
    entries: Any = output.get("traceback")
    return list(map(str, cast("list[Any]", entries))) if isinstance(entries, list) else []


def bundle_of(output: Json) -> Json:
    """The values of a display by their MIME types; none where there is no such object."""
    data: Any = output.get("data")
    return cast("Json", data) if isinstance(data, dict) else {}


def apply_change(outputs: list[Json], change: OutputChange) -> None:
    """Carries out one change on a list of outputs, in place."""
    match change:
        case Append(output):
            outputs.append(output)
        case StreamEdit(index, start, new):
            outputs[index] = {**outputs[index], "text": stream_text(outputs[index])[:start] + new}
        case ReplaceOutput(index, output):
            outputs[index] = output
        case ClearOutputs():
            outputs.clear()


def overwritten(outputs: list[Json], change: OutputChange) -> tuple[int, int] | None:
    """Where a change about to be carried out writes over what is there: output and character.

    None where it only adds.
    """
    match change:
        case StreamEdit(index, start, _) if start < len(stream_text(outputs[index])):
            return index, start
        case ReplaceOutput(index, _):
            return index, 0
        case ClearOutputs() if outputs:
            return 0, 0
        case _:
            return None


def summarise(outputs: Sequence[Json]) -> OutputsSummary:
    """What a list of outputs is: count, size, MIME types."""
    mimes: dict[str, None] = {}
    size = 0
    for output in outputs:
        match output.get("output_type"):
            case "stream":
                mimes[str(output.get("name", "stdout"))] = None
                size += len(stream_text(output))
            case "error":
                mimes["error"] = None
                size += sum(map(len, traceback_of(output)))
            case _:
                for mime, value in bundle_of(output).items():
                    mimes[mime] = None
                    size += _size(value)
    return OutputsSummary(len(outputs), size, tuple(mimes))


def _size(value: Any, depth: int = 0) -> int:
    """The size of a JSON value, about.

    Of a long array a sample of its elements is measured, and nothing far down.
    """
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, dict | list):
        return len(str(value))
    if depth == _DEPTH:
        return 0
    below = depth + 1
    if isinstance(value, dict):
        members = cast("Json", value).items()
        return sum(len(key) + _size(item, below) + 4 for key, item in members)
    items = cast("list[Any]", value)
    sample = items[:: max(len(items) // _SAMPLE, 1)]
    measured = sum(_size(item, below) for item in sample)
    return measured * len(items) // max(len(sample), 1) + 2 * len(items)
