"""Requests for code: the completion at a cursor, and the edit of one cell by a prompt."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

CellType = Literal["code", "markdown", "raw"]

MAX_SOURCE = 200_000
"""Maximum length of a source in a request, in characters."""
MAX_ABOVE = 50
"""Maximum number of cells above in a request."""
MAX_PROMPT = 10_000
"""Maximum length of a prompt, in characters."""
MAX_ROUNDS = 20
"""Maximum number of earlier prompts of one edit."""
MAX_ERROR = 50_000
"""Maximum length of the cell's error, in characters."""

_Source = Annotated[str, Field(max_length=MAX_SOURCE)]
_Prompt = Annotated[str, Field(max_length=MAX_PROMPT, pattern=r"\S")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CellAbove(_Strict):
    """A cell above the one that is edited."""

    type: CellType
    source: _Source


class CodeContext(_Strict):
    """Where code is wanted."""

    notebook: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """The notebook, whose kernel is asked for the names and types of variables."""
    language: Annotated[str, Field(max_length=100)] = ""
    """The language of the cell, such as ``python``."""
    cell_type: CellType = "code"
    above: Annotated[list[CellAbove], Field(max_length=MAX_ABOVE)] = []
    """The cells above, in the notebook's order."""


class CompletionRequest(CodeContext):
    """The body of ``POST /api/tk-ai/code/completion``."""

    prefix: _Source
    """The cell's source before the cursor."""
    suffix: _Source = ""
    """The cell's source after the cursor."""


class EditRound(_Strict):
    """An earlier prompt of the same edit."""

    prompt: _Prompt
    source: _Source
    """The source that was proposed."""


class EditRequest(CodeContext):
    """The body of ``POST /api/tk-ai/code/edit``."""

    prompt: _Prompt
    """What to change."""
    source: _Source = ""
    """The cell's source; each proposal of the edit is one for this source."""
    error: Annotated[str, Field(max_length=MAX_ERROR)] = ""
    """The error of the cell's last run."""
    earlier: Annotated[list[EditRound], Field(max_length=MAX_ROUNDS)] = []
    """The earlier prompts with their proposals, which the person refines."""


class CompletedCode(TypedDict):
    """A completion.

    Attributes:
        text: To insert at the cursor; empty if there is nothing useful.
    """

    text: str


class EditedCell(TypedDict):
    """A proposal for a cell. Nothing was written.

    Attributes:
        source: The whole new source.
    """

    source: str
