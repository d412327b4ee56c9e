"""The part of the OpenAPI description that tells of the changes to a notebook, and of its lost tabs."""

from __future__ import annotations

from typing import Any

from tk_ai_extension.server.openapi.schemas import (
    FLAG,
    MAYBE,
    NAMES,
    NUMBER,
    TEXT,
    UNDONE,
    WHOLE,
    also_as_events,
    in_query,
    list_of,
    object_of,
    operation,
    told,
)

_CELL = object_of(
    cell=TEXT,
    action={"enum": ["insert", "replace", "delete", "move", "outputs"]},
    diff=told(TEXT, "What its source became, as a unified diff"),
    truncated=FLAG,
)
_CHANGES = object_of(
    changes=list_of(
        object_of(
            entry=told(WHOLE, "The change's number, to take it back by"),
            time=told(NUMBER, "Seconds since the epoch"),
            author=TEXT,
            tool=TEXT,
            turn=told(MAYBE, "Of a chat"),
            yours=told(FLAG, "Whether an agent of yours made it"),
            summary=TEXT,
            cells=list_of(_CELL),
        )
    )
)
_WRITTEN = object_of(
    cells={
        "type": "object",
        "description": "By the cell's key the time of its last change, in seconds since the epoch",
        "additionalProperties": NUMBER,
    },
    unsettled={
        "type": ["number", "null"],
        "description": "The time of the newest change of which is not known which cells it changed",
    },
)
_UNDO = object_of(
    "notebook entries",
    notebook={**TEXT, "minLength": 1},
    entries={**list_of({**WHOLE, "minimum": 0, "maximum": 2**63 - 1}), "minItems": 1},
    cells=told({**NAMES, "minItems": 1}, "Only these cells, by their ids"),
)
_UNDONE = object_of(undone=list_of(UNDONE))
_LOST = object_of(
    lost=list_of(object_of(notebook=TEXT, seconds=told(NUMBER, "For which it has waited")))
)
_GIVEN_UP = object_of(given_up=told(TEXT, "The notebook's path"))
_NOTEBOOK = in_query("notebook", "The notebook's path")
_EVENTS = told(TEXT, "What runs, and from now on: changed, taken_back, running, ran, missed")


def changes_paths(prefix: str) -> dict[str, Any]:
    """The paths of the routes that tell of changes and take them back.

    Args:
        prefix: Of all routes.
    """
    summary = "What was changed in a notebook through tools, and stands"
    changes = operation("list_changes", summary, _CHANGES, [_NOTEBOOK])
    holds = "Which cells hold what was written through tools"
    cells = operation("list_changed_cells", holds, _WRITTEN, [_NOTEBOOK])
    back = "Takes changes back, cell by cell"
    undo = operation("undo_changes", back, _UNDONE, takes=_UNDO)
    wait = "Notebooks that wait for tabs of JupyterLab with unsaved work which have not come back"
    lost = operation("list_lost_tabs", wait, _LOST)
    up = "Gives up what lost tabs held of a notebook: its file counts again"
    give_up = operation("give_up_lost_tabs", up, _GIVEN_UP, [_NOTEBOOK])
    return {
        f"{prefix}/tabs/lost": {"get": lost, "delete": give_up},
        f"{prefix}/changes": {"get": also_as_events(changes, _EVENTS)},
        f"{prefix}/changes/cells": {"get": cells},
        f"{prefix}/changes/undo": {"post": undo},
    }
