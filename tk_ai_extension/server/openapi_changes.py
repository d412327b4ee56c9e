"""The part of the OpenAPI description that tells of the changes to a notebook, and of its lost tabs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_STRINGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "integer"}, "minItems": 1}


def _all_of(**properties: dict[str, Any]) -> dict[str, Any]:
    """An object that has just these fields."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


_CELL = _all_of(
    cell={"type": "string"},
    action={"enum": ["insert", "replace", "delete", "move", "outputs"]},
    diff={"type": "string", "description": "What its source became, as a unified diff"},
    truncated={"type": "boolean"},
)
_CHANGES = _all_of(
    changes={
        "type": "array",
        "items": _all_of(
            entry={"type": "integer", "description": "The change's number, to take it back by"},
            time={"type": "number", "description": "Seconds since the epoch"},
            author={"type": "string"},
            tool={"type": "string"},
            turn={"type": ["string", "null"], "description": "Of a chat"},
            yours={"type": "boolean", "description": "Whether an agent of yours made it"},
            summary={"type": "string"},
            cells={"type": "array", "items": _CELL},
        ),
    }
)
_WRITTEN = _all_of(
    cells={
        "type": "object",
        "description": "By the cell's key the time of its last change, in seconds since the epoch",
        "additionalProperties": {"type": "number"},
    },
    unsettled={
        "type": ["number", "null"],
        "description": "The time of the newest change of which is not known which cells it changed",
    },
)
_UNDO: dict[str, Any] = {
    "type": "object",
    "required": ["notebook", "entries"],
    "properties": {
        "notebook": {"type": "string"},
        "entries": _NUMBERS,
        "cells": {**_STRINGS, "description": "Only these cells, by their ids"},
    },
    "additionalProperties": False,
}
_UNDONE = _all_of(
    undone={
        "type": "array",
        "items": _all_of(notebook={"type": "string"}, cells=_STRINGS, left=_STRINGS),
    }
)
_LOST = _all_of(
    lost={
        "type": "array",
        "items": _all_of(
            notebook={"type": "string"},
            seconds={"type": "number", "description": "For which it has waited"},
        ),
    }
)
_GIVEN_UP = _all_of(given_up={"type": "string", "description": "The notebook's path"})
_NOTEBOOK = {
    "name": "notebook",
    "in": "query",
    "required": True,
    "description": "The notebook's path",
    "schema": {"type": "string"},
}


def changes_paths(prefix: str, operation: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The paths of the routes that tell of changes and take them back.

    Args:
        prefix: Of all routes.
        operation: Makes an operation.
    """
    summary = "What was changed in a notebook through tools, and stands"
    changes = operation("list_changes", summary, _CHANGES, [_NOTEBOOK])
    changes["responses"]["200"]["content"]["text/event-stream"] = {
        "schema": {
            "type": "string",
            "description": "What runs, and from now on: changed, taken_back, running, ran, missed",
        }
    }
    told = "Which cells hold what was written through tools"
    cells = operation("list_changed_cells", told, _WRITTEN, [_NOTEBOOK])
    undo = operation("undo_changes", "Takes changes back, cell by cell", _UNDONE)
    undo["requestBody"] = {"required": True, "content": {"application/json": {"schema": _UNDO}}}
    wait = "Notebooks that wait for tabs of JupyterLab with unsaved work which have not come back"
    lost = operation("list_lost_tabs", wait, _LOST)
    up = "Gives up what lost tabs held of a notebook: its file counts again"
    give_up = operation("give_up_lost_tabs", up, _GIVEN_UP, [_NOTEBOOK])
    return {
        f"{prefix}/tabs/lost": {"get": lost, "delete": give_up},
        f"{prefix}/changes": {"get": changes},
        f"{prefix}/changes/cells": {"get": cells},
        f"{prefix}/changes/undo": {"post": undo},
    }
