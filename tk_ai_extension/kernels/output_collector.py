"""Turns the messages of one execution into the outputs of its cell, as JupyterLab shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.model.executions import StatusDisplay
from tk_ai_extension.model.json_values import Json, encodable
from tk_ai_extension.model.output_changes import (
    AppendOutput,
    ClearOutputs,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
)

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Bytes of one execution's outputs that are kept by default."""

OTHER_DISPLAY_MIME = "application/x-other-display-status"
"""MIME type of the `StatusDisplay` for the newest content of a display, which other cells may show, too.

Its data is ``{"display_id": str, "output": nbformat display_data}``.
"""

OUTPUT_MESSAGES = frozenset(
    {"stream", "display_data", "execute_result", "error", "update_display_data", "clear_output"}
)

REACH = 10_000
"""Characters of a stream's last line to which carriage returns and backspaces can return."""

_STATUS_MIME = re.compile(r"application/x-[^;]*-status\b")
_PARTS = re.compile(r"\r+|[\b]+|[^\r\b]+")
_OVERHEAD = 256  # bytes counted for an output in addition to its payload
_RESERVED = 1024 * 1024  # bytes beyond the limit for errors and for this server's lines


class TerminalText:
    r"""The text of a stream output as JupyterLab shows it, with carriage returns and backspaces applied.

    A stream is what a terminal would receive. JupyterLab (``OutputAreaModel.processText``) keeps the
    displayed text and a cursor in it:

    - a line feed is appended to the text and moves the cursor to its end;
    - a carriage return moves the cursor to the start of its line;
    - a backspace deletes the character before the cursor (and, inside a line, the one under it);
    - any other character overwrites the one under the cursor.

    Only the last line changes. Its first part is final once it is longer than `REACH`, which bounds the
    cost of each character.

    >>> text = TerminalText()
    >>> text.write("10%\r20%\nspinner |\b/")
    >>> text.value
    '20%\nspinner /'
    """

    def __init__(self) -> None:
        self._final: list[str] = []
        self._line = ""  # what may change
        self._cursor = 0
        self._line_start = 0  # characters before it
        self._changed_from = 0  # index from which the text differs from what was drained
        self._drained_length = 0

    @property
    def value(self) -> str:
        """The whole text."""
        return self._since(0)

    @property
    def length(self) -> int:
        """Characters of the whole text."""
        return self._line_start + len(self._line)

    def write(self, text: str) -> None:
        """Add what the kernel printed."""
        for part in _PARTS.findall(text):
            if part[0] == "\r":
                self._cursor = 0
            elif part[0] == "\b":
                self._erase(len(part))
            else:
                self._put(part)

    def drain(self) -> tuple[int, str] | None:
        """Return ``(start, new)`` such that the text is now ``text[:start] + new``; None if unchanged."""
        start, length = self._changed_from, self.length
        if start == self._drained_length == length:
            return None
        self._changed_from = self._drained_length = length
        return start, self._since(start)

    def _put(self, text: str) -> None:
        """Write text without carriage returns and backspaces."""
        first, newline, rest = text.partition("\n")
        self._overwrite(first)
        if newline:
            ended, newline, last = rest.rpartition("\n")
            self._finish(f"\n{ended}{newline}")
            self._overwrite(last)

    def _overwrite(self, text: str) -> None:
        start, self._cursor = self._cursor, self._cursor + len(text)
        self._line = self._line[:start] + text + self._line[self._cursor :]
        self._changed_from = min(self._changed_from, self._line_start + start)
        if self._cursor == len(self._line) > REACH:
            self._finish("")

    def _finish(self, end: str) -> None:
        """Finalize the last line, with its line end."""
        final = self._line + end
        self._final.append(final)
        self._line_start += len(final)
        self._line, self._cursor = "", 0

    def _erase(self, count: int) -> None:
        """Delete characters before the cursor, and as many after it, within the line."""
        end, self._cursor = self._cursor, max(self._cursor - count, 0)
        self._line = self._line[: self._cursor] + self._line[2 * end - self._cursor :]
        self._changed_from = min(self._changed_from, self._line_start + self._cursor)

    def _since(self, start: int) -> str:
        """Return the text from an index."""
        parts, at = [self._line], self._line_start
        for part in reversed(self._final):
            if at <= start:
                break
            parts.append(part)
            at -= len(part)
        return "".join(reversed(parts))[start - at :]


@dataclass(slots=True)
class _Output:
    """An output in nbformat; the text of a stream is kept separately."""

    value: Json
    size: int
    stream: TerminalText | None = None

    @property
    def complete(self) -> Json:
        return self.value if self.stream is None else {**self.value, "text": self.stream.value}


class OutputCollector:
    r"""Collects the outputs of one execution and reports what changed since the previous `drain`.

    Consecutive texts of one stream become one output; ``update_display_data`` replaces the displays
    with that id; ``clear_output`` clears, with ``wait`` at the next output; carriage returns and
    backspaces are applied.

    Args:
        limit: Bytes of outputs and of undrained events that are kept. What exceeds it is counted in
            ``dropped``; an error may exceed it.

    >>> collector = OutputCollector()
    >>> collector.add("stream", {"name": "stdout", "text": "1\n"})
    >>> collector.add("stream", {"name": "stdout", "text": "2\n"})
    >>> collector.drain()
    (AppendOutput(output={'output_type': 'stream', 'name': 'stdout', 'text': '1\n2\n'}),)
    >>> collector.drain()
    ()
    """

    def __init__(self, limit: int = MAX_OUTPUT_BYTES) -> None:
        self._limit = limit
        self._used = 0
        self._outputs: list[_Output] = []
        self._displays: dict[str, list[int]] = {}
        self._clear_next = False
        # The drained state, and the changes still to be drained.
        self._drained = 0
        self._clear_pending = False
        self._changed: set[int] = set()
        self._events: dict[object, tuple[StatusDisplay, int]] = {}  # with their sizes
        self.dropped = 0
        """Characters that were dropped because of the limit."""
        self.error: Json | None = None
        """ename, evalue and traceback of the last error output."""

    def add(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add one message of a type in `OUTPUT_MESSAGES`."""
        message: Json = encodable(content)
        match kind:
            case "clear_output":
                self._clear(wait=bool(message.get("wait")))
            case "stream":
                if text := message.get("text"):
                    self._clear_if_due()
                    self._write(message.get("name") or "stdout", text)
            case "error":
                self.error = {
                    "ename": str(message.get("ename") or ""),
                    "evalue": str(message.get("evalue") or ""),
                    "traceback": [str(line) for line in message.get("traceback") or ()],
                }
                self._append({"output_type": "error", **self.error}, allowance=_RESERVED)
            case "display_data" | "execute_result" | "update_display_data":
                self._add_bundle(kind, message)
            case _:
                raise ValueError(f"not an output message: {kind}")

    def warn(self, text: str) -> None:
        """Add a short line of this server to stderr, also beyond the limit."""
        self._write("stderr", text.rstrip("\n") + "\n", _RESERVED)

    def finish(self) -> None:
        """Report in a last stderr output how much was dropped, if anything was."""
        if self.dropped:
            self.warn(
                f"[{self.dropped:,} more characters of output were dropped: "
                f"the limit is {self._limit / 1024 / 1024:.3g} MB.]"
            )

    def drain(self) -> tuple[OutputChange, ...]:
        """Return the changes since the last call; applying them in order gives the current outputs."""
        changes: list[OutputChange] = []
        if self._clear_pending:
            changes.append(ClearOutputs())
            self._clear_pending = False
        for at in sorted(self._changed):
            output = self._outputs[at]
            if output.stream is None:
                changes.append(ReplaceOutput(at, output.value))
            elif (edit := output.stream.drain()) is not None:
                changes.append(StreamEdit(at, *edit))
        for output in self._outputs[self._drained :]:
            changes.append(AppendOutput(output.complete))
            if output.stream is not None:
                output.stream.drain()
        self._changed.clear()
        self._drained = len(self._outputs)
        return tuple(changes)

    def drain_events(self) -> tuple[StatusDisplay, ...]:
        """Return the status events since the last call; of each display only its newest content."""
        events = tuple(self._events.values())
        self._events.clear()
        self._used -= sum(size for _, size in events)
        return tuple(event for event, _ in events)

    @property
    def outputs(self) -> tuple[Json, ...]:
        """All outputs so far, as nbformat dicts."""
        return tuple(output.complete for output in self._outputs)

    @property
    def displays(self) -> dict[str, tuple[int, ...]]:
        """The indexes of the outputs with each display id."""
        return {name: tuple(places) for name, places in self._displays.items()}

    def _clear(self, *, wait: bool) -> None:
        self._clear_next = wait
        if wait:
            return
        self._clear_pending = self._clear_pending or self._drained > 0
        self._drained = 0
        self._used -= sum(output.size for output in self._outputs)
        self._outputs.clear()
        self._displays.clear()
        self._changed.clear()

    def _clear_if_due(self) -> None:
        if self._clear_next:
            self._clear(wait=False)

    def _write(self, name: str, text: str, allowance: int = 0) -> None:
        output = self._outputs[-1] if self._outputs else None
        if output is None or output.stream is None or output.value["name"] != name:
            output = None
        free = self._limit + allowance - self._used - (0 if output else _OVERHEAD)
        kept = text[: max(free, 0)]
        self.dropped += len(text) - len(kept)
        if not kept:
            return
        if output is None:
            value = {"output_type": "stream", "name": name, "text": ""}
            output = _Output(value, _OVERHEAD, TerminalText())
            self._outputs.append(output)
            self._used += _OVERHEAD
        stream = output.stream
        assert stream is not None
        before = stream.length
        stream.write(kept)
        output.size += stream.length - before
        self._used += stream.length - before
        if len(self._outputs) <= self._drained:
            self._changed.add(len(self._outputs) - 1)

    def _add_bundle(self, kind: str, content: Json) -> None:
        data: Json = content.get("data") or {}
        statuses = [mime for mime in data if _STATUS_MIME.match(mime)]
        for mime in statuses:
            self._emit(object(), StatusDisplay(mime, data.pop(mime)))
        if statuses:
            # The text next to a status is the fallback for front ends that do not know the type.
            data = {mime: value for mime, value in data.items() if not mime.startswith("text/")}
            if not data:
                return
        bundle = {"data": data, "metadata": content.get("metadata") or {}}
        if kind == "execute_result":
            bundle["execution_count"] = integer(content.get("execution_count"))
        display_id = str((content.get("transient") or {}).get("display_id") or "")
        if kind != "update_display_data":
            self._append({"output_type": kind, **bundle}, display_id)
        if display_id:
            self._show(display_id, {"data": data, "metadata": bundle["metadata"]})

    def _append(self, value: Json, display_id: str = "", *, allowance: int = 0) -> None:
        self._clear_if_due()
        output = _Output(value, 0)
        if self._charge(output, value, display_id, allowance):
            self._outputs.append(output)
            if display_id:
                self._displays.setdefault(display_id, []).append(len(self._outputs) - 1)

    def _show(self, display_id: str, bundle: Json) -> None:
        """Show the newest data of a display in all of its outputs, also in other cells."""
        for at in self._displays.get(display_id, ()):
            output = self._outputs[at]
            value = {**output.value, **bundle}
            if value != output.value and self._charge(output, value, display_id):
                output.value = value
                if at < self._drained:
                    self._changed.add(at)
        shown = {"display_id": display_id, "output": {"output_type": "display_data", **bundle}}
        self._emit(display_id, StatusDisplay(OTHER_DISPLAY_MIME, shown))

    def _charge(self, output: _Output, value: Json, display_id: str, allowance: int = 0) -> bool:
        """Count an output's new value against the limit; if it does not fit, count it as dropped."""
        size = _OVERHEAD + _size(value) + len(display_id)
        if self._used + size - output.size > self._limit + allowance:
            self.dropped += size
            return False
        self._used += size - output.size
        output.size = size
        return True

    def _emit(self, key: object, event: StatusDisplay) -> None:
        """Report an event; it replaces an undrained one with the same key."""
        _, former = self._events.pop(key, (None, 0))
        self._used -= former
        size = _OVERHEAD + len(event.mime) + _size(event.data)
        if self._used + size > self._limit:
            self.dropped += size
        else:
            self._used += size
            self._events[key] = event, size


def integer(value: Any) -> int | None:
    """Return a value of a message if it is an integer; else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _size(value: Any) -> int:
    """Return the characters of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False))
