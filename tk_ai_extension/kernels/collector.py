"""Turns the messages of one execution into the outputs of its cell, as JupyterLab shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from tk_ai_extension.kernels.terminal import TerminalText
from tk_ai_extension.model.encoding import encodable, encodable_text
from tk_ai_extension.model.executions import StatusEvent
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
)

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Bytes of one execution's outputs that are kept by default."""

OTHER_DISPLAY_MIME = "application/x-other-display-status"
"""MIME type of the `StatusEvent` for an update to a display that another execution created.

Its data is ``{"display_id": str, "output": nbformat display_data}``. The display is in another cell,
so it is not an output of this execution.
"""

OUTPUT_MESSAGES = frozenset(
    {"stream", "display_data", "execute_result", "error", "update_display_data", "clear_output"}
)

_STATUS_MIME = re.compile(r"application/x-[^;]*-status\b")
_OVERHEAD = 256  # bytes counted for an output in addition to its payload
_ALWAYS_KEPT = 1024 * 1024  # bytes beyond the limit that an error may use
_MAX_EVENTS = 10_000  # status events that are queued for a slow reader


class OutputCollector:
    r"""Collects the outputs of one execution and reports what changed since the previous `drain`.

    Consecutive texts of one stream become one output; ``update_display_data`` replaces the displays
    with that id; ``clear_output`` clears, with ``wait`` at the next output; carriage returns and
    backspaces are applied. Malformed messages are accepted.

    Args:
        max_bytes: Limit of what is kept. Output beyond it is counted in ``dropped``; errors are
            always kept.

    >>> collector = OutputCollector()
    >>> collector.add("stream", {"name": "stdout", "text": "1\n"})
    >>> collector.add("stream", {"name": "stdout", "text": "2\n"})
    >>> collector.drain()
    (Append(output={'output_type': 'stream', 'name': 'stdout', 'text': '1\n2\n'}),)
    >>> collector.drain()
    ()
    """

    def __init__(self, max_bytes: int = MAX_OUTPUT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._outputs: list[Json] = []
        self._streams: dict[int, TerminalText] = {}
        self._displays: dict[str, list[int]] = {}
        self._size = 0
        self._clear_next = False
        self._open_stream: TerminalText | None = None
        # What the reader has drained, and what is to be drained.
        self._drained = 0
        self._clear_pending = False
        self._replaced: set[int] = set()
        self._edited: set[int] = set()
        self._events: list[StatusEvent] = []
        self.dropped = 0
        """Characters that were dropped because of the limit."""
        self.error: Json | None = None
        """ename, evalue and traceback of the last error output."""

    def add(self, kind: str, content: Mapping[str, Any]) -> None:
        """Add one message whose type is in `OUTPUT_MESSAGES`."""
        match kind:
            case "clear_output":
                self._clear(wait=bool(content.get("wait")))
            case "stream":
                self._add_stream(_string(content.get("name")) or "stdout", _text(content))
            case "error":
                self._add_error(content)
            case "update_display_data":
                self._update_display(content)
            case "display_data" | "execute_result":
                self._add_bundle(kind, content)
            case _:
                raise ValueError(f"not an output message: {kind}")

    def warn(self, text: str) -> None:
        """Add a line of this server's own to stderr, regardless of the limit."""
        self._write("stderr", text.rstrip("\n") + "\n")

    def finish(self) -> None:
        """Report in a last stderr output how much was dropped, if anything was."""
        if self.dropped:
            kept = f"{self._max_bytes / 1024 / 1024:.3g} MB"
            self.warn(
                f"[{self.dropped:,} more characters of output were dropped: the limit is {kept}.]"
            )

    def drain(self) -> tuple[OutputChange, ...]:
        """Return the changes since the last call; applying them in order gives the current outputs."""
        changes: list[OutputChange] = []
        if self._clear_pending:
            changes.append(ClearOutputs())
            self._clear_pending = False
        changes.extend(ReplaceOutput(at, self._outputs[at]) for at in sorted(self._replaced))
        for at in sorted(self._edited):
            edit = self._streams[at].drain()
            if edit is not None:
                changes.append(StreamEdit(at, *edit))
        for at in range(self._drained, len(self._outputs)):
            changes.append(Append(self._complete(at)))
            if at in self._streams:
                self._streams[at].drain()
        self._replaced.clear()
        self._edited.clear()
        self._drained = len(self._outputs)
        return tuple(changes)

    def drain_events(self) -> tuple[StatusEvent, ...]:
        """Return the status events since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    @property
    def outputs(self) -> tuple[Json, ...]:
        """All outputs so far, as nbformat dicts."""
        return tuple(self._complete(at) for at in range(len(self._outputs)))

    @property
    def displays(self) -> dict[str, tuple[int, ...]]:
        """The indexes of the outputs with each display id."""
        return {name: tuple(places) for name, places in self._displays.items()}

    def _complete(self, at: int) -> Json:
        stream = self._streams.get(at)
        return self._outputs[at] if stream is None else {**self._outputs[at], "text": stream.value}

    # -- applying messages

    def _clear(self, *, wait: bool) -> None:
        self._open_stream = None
        if wait:
            self._clear_next = True
            return
        self._clear_pending = self._clear_pending or self._drained > 0
        self._drained = self._size = 0
        self._clear_next = False
        for state in (self._outputs, self._streams, self._displays, self._replaced, self._edited):
            state.clear()

    def _add_stream(self, name: str, text: str) -> None:
        if not text:
            return
        self._clear_if_due()
        room = self._max_bytes - self._size
        if len(text) > room:
            kept = max(room, 0)
            self.dropped += len(text) - kept
            text = text[:kept]
            if not text:
                return
        self._write(name, text)

    def _write(self, name: str, text: str) -> None:
        if self._open_stream is None or self._outputs[-1]["name"] != name:
            self._open_stream = TerminalText()
            self._append({"output_type": "stream", "name": name, "text": ""}, _OVERHEAD)
            self._streams[len(self._outputs) - 1] = self._open_stream
        before = self._open_stream.length
        self._open_stream.write(text)
        self._size += self._open_stream.length - before
        at = len(self._outputs) - 1
        if at < self._drained:
            self._edited.add(at)

    def _add_error(self, content: Mapping[str, Any]) -> None:
        traceback = content.get("traceback")
        lines = cast("list[Any]", traceback) if isinstance(traceback, list) else []
        self.error = {
            "ename": _string(content.get("ename")),
            "evalue": _string(content.get("evalue")),
            "traceback": [_string(line) for line in lines],
        }
        self._add_output({"output_type": "error", **self.error}, allowance=_ALWAYS_KEPT)

    def _add_bundle(self, kind: str, content: Mapping[str, Any]) -> None:
        output = self._bundle(kind, content)
        if output is None:
            return
        display_id = _display_id(content)
        if kind == "execute_result":
            output["execution_count"] = content.get("execution_count")
        elif display_id in self._displays:
            # A second display with the same id also updates the first one.
            self._replace(display_id, output)
        added = self._add_output(output)
        if added and display_id and kind == "display_data":
            self._displays.setdefault(display_id, []).append(len(self._outputs) - 1)

    def _update_display(self, content: Mapping[str, Any]) -> None:
        output = self._bundle("display_data", content)
        display_id = _display_id(content)
        if output is None or not display_id:
            return
        if display_id in self._displays:
            self._replace(display_id, output)
        else:
            self._emit(OTHER_DISPLAY_MIME, {"display_id": display_id, "output": output})

    def _bundle(self, kind: str, content: Mapping[str, Any]) -> Json | None:
        """Return the output for a MIME bundle; None if it only holds a status."""
        data = _mapping(content.get("data"))
        statuses = [mime for mime in data if _STATUS_MIME.match(mime)]
        if statuses:
            for mime in statuses:
                self._emit(mime, data.pop(mime))
            # The text beside a status is the fallback for front ends that do not know the type.
            data = {mime: value for mime, value in data.items() if not mime.startswith("text/")}
            if not data:
                return None
        return {"output_type": kind, "data": data, "metadata": _mapping(content.get("metadata"))}

    def _emit(self, mime: str, data: Any) -> None:
        if len(self._events) < _MAX_EVENTS:
            self._events.append(StatusEvent(mime, data))
        else:
            self.dropped += len(json.dumps({mime: data}))

    def _replace(self, display_id: str, output: Json) -> None:
        for at in self._displays[display_id]:
            self._outputs[at] = output
            if at < self._drained:
                self._replaced.add(at)

    def _add_output(self, output: Json, allowance: int = 0) -> bool:
        self._clear_if_due()
        size = _OVERHEAD + _size(output)
        if self._size + size > self._max_bytes + allowance:
            self.dropped += len(json.dumps(output))
            return False
        self._open_stream = None
        self._append(output, size)
        return True

    def _append(self, output: Json, size: int) -> None:
        self._outputs.append(output)
        self._size += size

    def _clear_if_due(self) -> None:
        if self._clear_next:
            self._clear(wait=False)


def _text(content: Mapping[str, Any]) -> str:
    text = content.get("text")
    if isinstance(text, list):
        return "".join(_string(part) for part in cast("list[Any]", text))
    return _string(text)


def _string(value: Any) -> str:
    """Return a value from a kernel as a string that can be encoded."""
    return "" if value is None else encodable_text(value if isinstance(value, str) else str(value))


def _mapping(value: Any) -> Json:
    return cast("Json", encodable(value)) if isinstance(value, dict) else {}


def _display_id(content: Mapping[str, Any]) -> str:
    return _string(_mapping(content.get("transient")).get("display_id"))


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(
            len(str(key)) + _size(item) for key, item in cast("dict[Any, Any]", value).items()
        )
    if isinstance(value, list):
        return sum(_size(item) for item in cast("list[Any]", value))
    return 8
