"""Types of parameters that several tools share; descriptions are kept short, a model pays for each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Notebook = Annotated[
    str | None, Field(min_length=1, description="path or name; the current one if left out")
]
"""A path below the root, a managed name, or None for the caller's current notebook."""

_CELL = "id, its beginning, index, or `id.version`"

Address = Annotated[str | int, Field(union_mode="left_to_right", description=_CELL)]
"""A cell: id, ``cell-N``, index, prefix of an id, or a versioned address."""

MaybeAddress = Annotated[str | int | None, Field(union_mode="left_to_right")]

MaybeRanges = Annotated[str | None, Field(description="such as `0-3,7,@318a,-1`")]

MAX_INTEGER = 2**63 - 1
"""The largest number that the journal's database counts to."""
Entry = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
"""A history number."""

CellKind = Literal["code", "markdown", "raw"]

Wait = Annotated[float, Field(ge=0, le=3600, description="seconds to wait for the end")]
Timeout = Annotated[float | None, Field(gt=0, description="interrupt after so many seconds")]
