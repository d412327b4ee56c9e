"""Outputs of a cell while it runs: nbformat outputs as dicts, and the changes to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast, overload

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


class StreamBuffer:
    """The text of a stream output that grows: appending does not copy what is there."""

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
        """Makes it ``text[:start] + new``; returns what goes."""
        gone: list[str] = []
        while self._length > start:
            last = self._parts.pop()
            self._length -= len(last)
            kept = max(start - self._length, 0)
            if kept:
                self._parts.append(last[:kept])
                self._length += kept
            gone.append(last[kept:])
        self._parts.append(new)
        self._length += len(new)
        return "".join(reversed(gone))

    def since(self, start: int) -> str:
        """The text from character ``start`` on; the cost depends on its length alone."""
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
        """The text from character ``start`` on as it is now, in pieces of at most ``size``."""
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
    """The outputs of a cell that runs: a change costs by its own size, not by what is there.

    As a sequence it gives the outputs as nbformat dicts, each as it is now.
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
        """The text of output ``index``; None where it is no stream, or there is none."""
        return self._streams.get(index + len(self._outputs) if index < 0 else index)

    def name(self, index: int) -> str | None:
        """The name of the stream that output ``index`` is; None where it is none."""
        return self._outputs[index].get("name")

    def apply(self, change: OutputChange) -> tuple[int, int] | None:
        """Carries out a change.

        Returns:
            Output and character from which on it is another for who has read to the end; None where
            something was added at the end only.
        """
        match change:
            case Append(output):
                self._put(len(self._outputs), output)
            case StreamEdit(index, start, new):
                stream = self._streams[index]
                length = len(stream)
                stream.edit(start, new)
                is_at_end = start == length and index == len(self._outputs) - 1
                return None if is_at_end else (index, start)
            case ReplaceOutput(index, output):
                self._put(index, output)
                return index, 0
            case ClearOutputs():
                had_any = bool(self._outputs)
                self._outputs.clear()
                self._streams.clear()
                return (0, 0) if had_any else None
        return None

    def _put(self, index: int, output: Json) -> None:
        self._outputs[index : index + 1] = [output]
        self._streams.pop(index, None)
        if output.get("output_type") == "stream":
            self._streams[index] = StreamBuffer(stream_text(output))


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
                    size += json_size(value)
    return OutputsSummary(len(outputs), size, tuple(mimes))


def json_size(value: Any, depth: int = 0) -> int:
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
        return sum(len(key) + json_size(item, below) + 4 for key, item in members)
    items = cast("list[Any]", value)
    sample = items[:: max(len(items) // _SAMPLE, 1)]
    measured = sum(json_size(item, below) for item in sample)
    return measured * len(items) // max(len(sample), 1) + 2 * len(items)
