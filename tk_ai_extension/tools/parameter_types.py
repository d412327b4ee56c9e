"""Types of the tools' parameters. Their descriptions are short: each one costs the model tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Notebook = Annotated[str | None, Field(description="default: current")]
"""A path below the root, a managed name, or None for the caller's current notebook."""

Address = Annotated[
    str | int,
    Field(union_mode="left_to_right", description="id, prefix, index, `[count]` or `id.version`"),
]
"""A cell: id, ``cell-N``, index, unique prefix of an id, ``[N]``, or a versioned address."""

MaybeAddress = Annotated[str | int | None, Field(union_mode="left_to_right")]

MaybeRanges = Annotated[str | None, Field(description="such as `0-3,7,@318a,-1`")]

MAX_INTEGER = 2**63 - 1
"""The largest integer that SQLite stores."""
Entry = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
"""The number of a journal entry."""

CellKind = Literal["code", "markdown", "raw"]

Wait = Annotated[float, Field(ge=0, le=3600, description="seconds")]
Timeout = Annotated[float | None, Field(gt=0, description="seconds, then interrupt")]
CellTimeout = Annotated[float | None, Field(gt=0, description="seconds per cell")]
