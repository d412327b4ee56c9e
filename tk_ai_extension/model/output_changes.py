"""Outputs of a running cell, as nbformat dicts, and the changes to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

from tk_ai_extension.model.cells import OutputsSummary
from tk_ai_extension.model.json_values import Json

_SAMPLE = 32
"""Approximate number of elements of a long array that are measured."""
_DEPTH = 30
"""Maximum nesting of a JSON value that is measured."""


@dataclass(frozen=True, slots=True)
class AppendOutput:
    """Append an output."""

    output: Json


@dataclass(frozen=True, slots=True)
class StreamEdit:
    """Set the text of stream output ``index`` to ``text[:start] + new``.

    If ``start`` is the current length, this appends. If it is smaller, a carriage return or a
    backspace has overwritten text.
    """

    index: int
    start: int
    new: str


@dataclass(frozen=True, slots=True)
class ReplaceOutput:
    """Replace output ``index`` (``update_display_data``)."""

    index: int
    output: Json


@dataclass(frozen=True, slots=True)
class ClearOutputs:
    """Remove all outputs (``clear_output``)."""


OutputChange = AppendOutput | StreamEdit | ReplaceOutput | ClearOutputs


def stream_text(output: Json) -> str:
    """Return the text of a stream output, which is stored as a string or a list of lines."""
    text: Any = output.get("text", "")
    if not isinstance(text, list):
        return str(text)
    lines = cast("list[str]", text)
    try:
        return "".join(lines)
    except TypeError:
        return "".join(map(str, lines))


def traceback_of(output: Json) -> list[str]:
    """Return the entries of an error's traceback; an empty list if it has none."""
    entries: Any = output.get("traceback")
    return list(map(str, cast("list[Any]", entries))) if isinstance(entries, list) else []


def bundle_of(output: Json) -> Json:
    """Return the MIME bundle of a display; an empty dict if it has none."""
    data: Any = output.get("data")
    return cast("Json", data) if isinstance(data, dict) else {}


class StreamBuffer:
    """The text of a growing stream output. Appending does not copy the existing text."""

    def __init__(self, text: str) -> None:
        self._parts = [text]
        self._length = len(text)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0]

    def edit(self, start: int, new: str) -> str:
        """Set the text to ``text[:start] + new``; return the removed text."""
        removed: list[str] = []
        while self._length > start:
            last = self._parts.pop()
            self._length -= len(last)
            kept = max(start - self._length, 0)
            if kept:
                self._parts.append(last[:kept])
                self._length += kept
            removed.append(last[kept:])
        self._parts.append(new)
        self._length += len(new)
        return "".join(reversed(removed))

    def since(self, start: int) -> str:
        """Return the text from character ``start`` on. The cost depends only on its length."""
        parts: list[str] = []
        end = self._length
        for part in reversed(self._parts):
            begin = end - len(part)
            if end <= start:
                break
            parts.append(part if begin >= start else part[start - begin :])
            end = begin
        return "".join(reversed(parts))

    def pieces(self, start: int, size: int) -> Iterator[str]:
        """Yield the current text from character ``start`` on, in pieces of at most ``size``."""
        parts: list[str] = []
        end = self._length
        for part in reversed(self._parts):
            if end <= start:
                break
            end -= len(part)
            parts.append(part if end >= start else part[start - end :])
        piece = ""
        while parts:
            piece += parts.pop()
            at = 0
            while len(piece) - at >= size:
                yield piece[at : at + size]
                at += size
            piece = piece[at:]
        if piece:
            yield piece


class OutputBuffer(Sequence[Json]):
    """The outputs of a running cell. The cost of a change depends only on the size of the change.

    As a sequence, it contains the current outputs as nbformat dicts.

    >>> outputs = OutputBuffer()
    >>> outputs.apply(AppendOutput({"output_type": "stream", "name": "stdout", "text": "25 %"}))
    >>> outputs.apply(StreamEdit(0, 0, "50 %"))
    >>> outputs[0]["text"]
    '50 %'
    """

    def __init__(self, outputs: Iterable[Json] = ()) -> None:
        self._outputs: list[Json] = []
        self._streams: dict[int, StreamBuffer] = {}
        for output in outputs:
            self._put(len(self._outputs), output)

    def __len__(self) -> int:
        return len(self._outputs)

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self._outputs)))]
        output = self._outputs[index]
        stream = self.stream(index)
        return output if stream is None else {**output, "text": str(stream)}

    def stream(self, index: int) -> StreamBuffer | None:
        """Return the text of output ``index``; None if it does not exist or is not a stream."""
        return self._streams.get(index + len(self._outputs) if index < 0 else index)

    def name(self, index: int) -> str | None:
        """Return the stream name of output ``index``; None if it is not a stream."""
        return self._outputs[index].get("name")

    def apply(self, change: OutputChange) -> None:
        """Apply a change."""
        match change:
            case AppendOutput(output):
                self._put(len(self._outputs), output)
            case StreamEdit(index, start, new):
                self._streams[index].edit(start, new)
            case ReplaceOutput(index, output):
                self._put(index, output)
            case ClearOutputs():
                self._outputs.clear()
                self._streams.clear()

    def _put(self, index: int, output: Json) -> None:
        self._outputs[index : index + 1] = [output]
        self._streams.pop(index, None)
        if output.get("output_type") == "stream":
            self._streams[index] = StreamBuffer(stream_text(output))


def summarise(outputs: Sequence[Json]) -> OutputsSummary:
    """Return the count, size and MIME types of a list of outputs."""
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
                    size += json_size(value)
    return OutputsSummary(len(outputs), size, tuple(mimes))


def json_size(value: Any, depth: int = 0) -> int:
    """Return the approximate size of a JSON value in characters.

    Long arrays are sampled, and deeply nested values are not measured.
    """
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, (dict, list)):
        return len(str(value))
    if depth == _DEPTH:
        return 0
    below = depth + 1
    if isinstance(value, dict):
        members = cast("Json", value).items()
        return sum(len(key) + json_size(item, below) + 4 for key, item in members)
    items = cast("list[Any]", value)
    sample = items[:: max(len(items) // _SAMPLE, 1)]
    measured = sum(json_size(item, below) for item in sample)
    return measured * len(items) // max(len(sample), 1) + 2 * len(items)
