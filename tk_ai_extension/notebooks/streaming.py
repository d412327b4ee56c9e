"""What goes to a live notebook: changes of outputs in few pieces."""

from __future__ import annotations

from collections.abc import Sequence

from tk_ai_extension.model.outputs import OutputChange, StreamEdit


def merged(changes: Sequence[OutputChange]) -> list[OutputChange]:
    """The changes, with what is printed in a row to one stream in one piece."""
    done: list[OutputChange] = []
    parts: list[str] = []
    index = end = -1
    for change in changes:
        if isinstance(change, StreamEdit) and (change.index, change.start) == (index, end):
            parts.append(change.new)
            end += len(change.new)
            continue
        _close(done, parts)
        done.append(change)
        parts, index, end = [], -1, -1
        if isinstance(change, StreamEdit):
            parts, index, end = [change.new], change.index, change.start + len(change.new)
    _close(done, parts)
    return done


def _close(done: list[OutputChange], parts: list[str]) -> None:
    if len(parts) > 1:
        last = done[-1]
        assert isinstance(last, StreamEdit)
        done[-1] = StreamEdit(last.index, last.start, "".join(parts))
