"""Outputs of a cell while it runs: nbformat outputs as dicts, and the changes to a list of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from tk_ai_extension.model.cells import Json, OutputsSummary

_SAMPLE = 32
"""Of a long array in an output, about so many elements are measured."""


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
    """The text of a stream output, stored as one string or as lines."""
    text: Any = output.get("text", "")
    return "".join(text) if isinstance(text, list) else str(text)  # pyright: ignore[reportUnknownArgumentType]


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


def summarise(outputs: list[Json] | tuple[Json, ...]) -> OutputsSummary:
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
                traceback = cast("list[Any]", output.get("traceback") or [])
                size += sum(len(str(line)) for line in traceback)
            case _:
                data: Any = output.get("data")
                if isinstance(data, dict):
                    for mime, value in data.items():  # pyright: ignore[reportUnknownVariableType]
                        mimes[str(mime)] = None  # pyright: ignore[reportUnknownArgumentType]
                        size += _size(value)
    return OutputsSummary(len(outputs), size, tuple(mimes))


def _size(value: Any) -> int:
    """The size of a JSON value, about: of a long array a sample of its elements is measured."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(key)) + _size(item) + 4 for key, item in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        sample = items[:: max(len(items) // _SAMPLE, 1)]
        return sum(map(_size, sample)) * len(items) // max(len(sample), 1) + 2 * len(items)
    return len(str(value))
