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
"""MIME type of the `StatusEvent` for the newest content of a display, which other cells may show, too.

Its data is ``{"display_id": str, "output": nbformat display_data}``.
"""

OUTPUT_MESSAGES = frozenset(
    {"stream", "display_data", "execute_result", "error", "update_display_data", "clear_output"}
)

_STATUS_MIME = re.compile(r"application/x-[^;]*-status\b")
_OVERHEAD = 256  # bytes counted for an output in addition to its payload
_CONTAINER, _SCALAR = 64, 8  # bytes counted for a JSON value in addition to its characters
_ALWAYS_KEPT = 1024 * 1024  # bytes beyond the limit that errors may use
_NOTES = 64 * 1024  # and bytes beyond those that this server's own lines may use


class _Budget:
    """Bytes that may be kept.

    Args:
        limit: Their number.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def free(self, allowance: int = 0) -> int:
        """Return how many bytes more may be kept, with an allowance beyond the limit."""
        return max(self.limit + allowance - self.used, 0)

    def take(self, size: int, allowance: int = 0) -> bool:
        """Charge bytes if there is room for them; a negative size gives bytes back."""
        if size > 0 and size > self.free(allowance):
            return False
        self.used += size
        return True

    @property
    def text(self) -> str:
        """The limit for people."""
        return f"{self.limit / 1024 / 1024:.3g} MB"


class OutputCollector:
    r"""Collects the outputs of one execution and reports what changed since the previous `drain`.

    Consecutive texts of one stream become one output; ``update_display_data`` replaces the displays
    with that id; ``clear_output`` clears, with ``wait`` at the next output; carriage returns and
    backspaces are applied. Malformed messages are accepted.

    Args:
        limit: Bytes that are kept. Output beyond it is counted in ``dropped``; an error may exceed it.

    >>> collector = OutputCollector()
    >>> collector.add("stream", {"name": "stdout", "text": "1\n"})
    >>> collector.add("stream", {"name": "stdout", "text": "2\n"})
    >>> collector.drain()
    (Append(output={'output_type': 'stream', 'name': 'stdout', 'text': '1\n2\n'}),)
    >>> collector.drain()
    ()
    """

    def __init__(self, limit: int = MAX_OUTPUT_BYTES) -> None:
        self._budget = _Budget(limit)
        self._event_budget = _Budget(limit)
        self._outputs: list[Json] = []
        self._sizes: list[int] = []  # what each output is charged
        self._streams: dict[int, TerminalText] = {}
        self._displays: dict[str, list[int]] = {}
        self._clear_next = False
        self._open_stream: TerminalText | None = None
        # What the reader has drained, and what is to be drained.
        self._drained = 0
        self._clear_pending = False
        self._replaced: set[int] = set()
        self._edited: set[int] = set()
        self._events: list[StatusEvent] = []
        self._updated: Json = {}  # the newest output by display id
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
        """Add a short line of this server's own to stderr, also beyond the limit."""
        self._write("stderr", text.rstrip("\n") + "\n", _ALWAYS_KEPT + _NOTES)

    def finish(self) -> None:
        """Report in a last stderr output how much was dropped, if anything was."""
        if self.dropped:
            limit = self._budget.text
            self.warn(
                f"[{self.dropped:,} more characters of output were dropped: the limit is {limit}.]"
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
        """Return the status events since the last call; of each display only its newest content."""
        events = self._events + [
            StatusEvent(OTHER_DISPLAY_MIME, {"display_id": display_id, "output": output})
            for display_id, output in self._updated.items()
        ]
        self._events.clear()
        self._updated.clear()
        self._event_budget.used = 0
        return tuple(events)

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
        self._drained = 0
        self._clear_next = False
        self._budget.take(-sum(self._sizes))
        self._sizes.clear()
        for state in (self._outputs, self._streams, self._displays, self._replaced, self._edited):
            state.clear()

    def _add_stream(self, name: str, text: str) -> None:
        if text:
            self._clear_if_due()
            self._write(name, text)

    def _write(self, name: str, text: str, allowance: int = 0) -> None:
        stream = self._open_stream
        if stream is not None and self._outputs[-1]["name"] != name:
            stream = None
        free = self._budget.free(allowance) - (0 if stream else _OVERHEAD)
        kept = text[: max(free, 0)]
        self.dropped += len(text) - len(kept)
        if not kept:
            return
        if stream is None:
            stream = self._open_stream = TerminalText()
            self._append({"output_type": "stream", "name": name, "text": ""}, _OVERHEAD, allowance)
            self._streams[len(self._outputs) - 1] = stream
        before = stream.length
        stream.write(kept)
        at = len(self._outputs) - 1
        self._charge(at, self._sizes[at] + stream.length - before, allowance)
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
            output["execution_count"] = integer(content.get("execution_count"))
        if display_id:
            self._show(display_id, output)
        if self._add_output(output, len(display_id)) and display_id:
            self._displays.setdefault(display_id, []).append(len(self._outputs) - 1)

    def _update_display(self, content: Mapping[str, Any]) -> None:
        output = self._bundle("display_data", content)
        display_id = _display_id(content)
        if output is not None and display_id:
            self._show(display_id, output)

    def _show(self, display_id: str, output: Json) -> None:
        """Show the newest data of a display wherever it is: its id belongs to the kernel."""
        shown = {**output, "output_type": "display_data"}
        shown.pop("execution_count", None)
        former = self._updated.pop(display_id, None)
        if former is not None:
            self._event_budget.take(-_OVERHEAD - len(display_id) - _size(former))
        if self._event_budget.take(_OVERHEAD + len(display_id) + _size(shown)):
            self._updated[display_id] = shown
        elif display_id not in self._displays:
            self.dropped += len(json.dumps(shown))
        if display_id in self._displays:
            self._replace(display_id, shown)

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
        if self._event_budget.take(_OVERHEAD + len(mime) + _size(data)):
            self._events.append(StatusEvent(mime, data))
        else:
            self.dropped += len(json.dumps({mime: data}))

    def _replace(self, display_id: str, output: Json) -> None:
        size = _OVERHEAD + _size(output) + len(display_id)
        note: Json | None = None
        for at in self._displays[display_id]:
            if self._charge(at, size):
                shown = self._outputs[at]
                self._outputs[at] = {
                    **shown,
                    "data": output["data"],
                    "metadata": output["metadata"],
                }
            else:
                note = note or self._drop(output)
                self._outputs[at] = note
                self._charge(at, _OVERHEAD + len(display_id))
            if at < self._drained:
                self._replaced.add(at)

    def _drop(self, output: Json) -> Json:
        """Count a display's new content as dropped; return a display that says so in its place.

        The display is of constant size, which the overhead of an output covers.
        """
        size = len(json.dumps(output))
        self.dropped += size
        note = f"[{size:,} characters were dropped here: the limit is {self._budget.text}.]"
        return {"output_type": "display_data", "data": {"text/plain": note}, "metadata": {}}

    def _add_output(self, output: Json, more: int = 0, *, allowance: int = 0) -> bool:
        self._clear_if_due()
        if not self._append(output, _OVERHEAD + _size(output) + more, allowance):
            self.dropped += len(json.dumps(output))
            return False
        self._open_stream = None
        return True

    def _append(self, output: Json, size: int, allowance: int) -> bool:
        if not self._budget.take(size, allowance):
            return False
        self._outputs.append(output)
        self._sizes.append(size)
        return True

    def _charge(self, at: int, size: int, allowance: int = 0) -> bool:
        """Charge an output its new size, if there is room for it."""
        if not self._budget.take(size - self._sizes[at], allowance):
            return False
        self._sizes[at] = size
        return True

    def _clear_if_due(self) -> None:
        if self._clear_next:
            self._clear(wait=False)


def integer(value: Any) -> int | None:
    """Return a value of a message that should be an integer; None if it is another."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
    """Return the approximate bytes of a JSON value in memory; also of empty and nested ones."""
    if isinstance(value, str):
        return _SCALAR + len(value)
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return _CONTAINER + sum(len(str(key)) + _size(item) for key, item in items)
    if isinstance(value, list):
        return _CONTAINER + sum(_size(item) for item in cast("list[Any]", value))
    return _SCALAR
