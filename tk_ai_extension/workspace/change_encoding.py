"""Changes as the journal stores them: strict JSON, without outputs that are too large."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tk_ai_extension.model.cell_operations import Change
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.json_values import Json, encodable
from tk_ai_extension.model.output_changes import summarise

MAX_OUTPUTS = 1_000_000
"""Approximate maximum characters of one cell's outputs. Larger ones are not stored."""


def encode_changes(changes: Sequence[Change]) -> tuple[str, str]:
    """Return the changes as strict JSON, and a note about the cells with outputs too large to store."""
    left_out: dict[str, None] = {}
    items: list[Json] = []
    for change in changes:
        item: Json = {
            "action": change.action,
            "cell": change.cell,
            "index": change.index,
            "index_before": change.index_before,
            "previous": change.previous,
        }
        for name in ("neighbours", "witnesses"):
            if (marks := getattr(change, name)) is not None:
                item[name] = list(marks)
        for name, content in (("before", change.before), ("after", change.after)):
            stored = _without_large(content)
            if stored is not content:
                item["outputs_kept"] = change.keeps_outputs
            item[name] = None if stored is None else _content(stored)
        if change.outputs_kept is not None:  # It was already stored without the outputs.
            item["outputs_kept"] = change.outputs_kept
        elif item.get("outputs_kept") is False:
            left_out[change.cell] = None
        items.append(item)
    note = ""
    if left_out:
        note = (
            f"The outputs of {', '.join(f'@{cell}' for cell in left_out)} were too large to keep."
        )
    try:
        return json.dumps(items, separators=(",", ":"), allow_nan=False), note
    except ValueError:
        # NaN and infinity, which Python's parser takes. SQLite parses the text, and refuses them.
        return json.dumps(encodable(items), separators=(",", ":")), note


def decode_changes(data: str) -> tuple[Change, ...]:
    """Return the changes from the JSON of `encode_changes`."""
    return tuple(_change(item) for item in json.loads(data))


def standing(stored: Sequence[Change], undone: Sequence[Change]) -> list[Change]:
    """Return an entry's stored changes without the undone ones; among equal ones, the last was undone."""
    counts = Counter(map(_identity, undone))
    left: list[Change] = []
    for change in reversed(stored):
        identity = _identity(change)
        if counts[identity]:
            counts[identity] -= 1
        else:
            left.append(change)
    return left[::-1]


def _identity(change: Change) -> tuple[object, ...]:
    # Without outputs: too large ones are not stored.
    sources = (content and content.source for content in (change.before, change.after))
    return (change.action, change.cell, change.index, change.index_before, *sources)


def _change(item: Json) -> Change:
    before, after = _read(item.pop("before")), _read(item.pop("after"))
    marks: Json = {
        name: tuple(item.pop(name)) for name in ("neighbours", "witnesses") if name in item
    }
    return Change(before=before, after=after, **marks, **item)


def _without_large(content: CellData | None) -> CellData | None:
    # Measure instead of encoding: encoding large outputs would hold the GIL.
    if content is None or summarise(content.outputs).size <= MAX_OUTPUTS:
        return content
    return replace(content, outputs=(), execution_count=None)


def _content(content: CellData) -> Json:
    return {
        "type": content.type,
        "source": content.source,
        "id": content.id,
        "metadata": dict(content.metadata),
        "execution_count": content.execution_count,
        "outputs": list(content.outputs),
        "extra": dict(content.extra),
    }


def _read(item: Json | None) -> CellData | None:
    return None if item is None else CellData(outputs=tuple(item.pop("outputs")), **item)
