"""Models of the routes of a chat's turns; `server.models` has them, too."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from tk_ai_extension.workspace.undo import NetChange, TakenBack


class RequestBody(BaseModel):
    """A body of a request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class StopRequest(RequestBody):
    """The turns to stop: the running and queued ones, or one turn."""

    turn: str | None = None


class UndoTurn(RequestBody):
    """The changes to undo: a turn's, of some cells or all."""

    turn: str
    cells: list[str] | None = None


class TurnRequest(RequestBody):
    """A turn of the chat."""

    turn: Annotated[str, Field(min_length=1, max_length=100)]


class Stopped(TypedDict):
    """Whether there was a turn to stop."""

    stopped: bool


class ChatChange(TypedDict):
    """A change of a chat that was not undone.

    Attributes:
        entry: As the event `cell_change` names it.
        notebook: Its path now.
        cells: The cells whose change was not undone.
    """

    entry: int
    turn: str | None
    notebook: str
    time: float
    cells: list[str]


class ChatChanges(TypedDict):
    """The changes of a chat that were not undone.

    Attributes:
        since: Earlier changes are not listed.
    """

    changes: list[ChatChange]
    since: float


class UndoneTurn(TypedDict):
    """What was undone in each notebook, and what stays."""

    notebooks: list[TakenBack]


class NetChanges(TypedDict):
    """What a turn changed, by cell."""

    changes: list[NetChange]
