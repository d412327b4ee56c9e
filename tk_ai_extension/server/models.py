"""Models of the routes: what they take (pydantic models), answer and stream (typed dictionaries).

Times are in seconds since the epoch.

A handler names them in its signature: the type checker holds what it answers against them, the body
is validated by them, and `server.openapi` describes the routes with them. Imported late, like pydantic.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Discriminator, Field, create_model
from typing_extensions import TypedDict

from tk_ai_extension.agent import events
from tk_ai_extension.agent.models import ModelsInfo
from tk_ai_extension.agent.requests import Attachment, ChatRequest, PlanAnswer
from tk_ai_extension.model.callers import Mode
from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.proposals import Proposal
from tk_ai_extension.model.sentences import SentenceInfo
from tk_ai_extension.tools.schemas import parsed
from tk_ai_extension.workspace.activity import Activity
from tk_ai_extension.workspace.permission_requests import Answer, Effect, Outcome
from tk_ai_extension.workspace.permissions import MAX_MESSAGE
from tk_ai_extension.workspace.undo_entries import TakenBack

__all__ = ["Activity", "Attachment", "ChatRequest", "PlanAnswer", "parsed"]

# --- requests

_Name = Annotated[str, Field(min_length=1)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ChatTitle(_Body):
    """The new title of a chat."""

    title: Annotated[str, Field(pattern=r"\S")]


class StopRequest(_Body):
    """What is stopped: the turn that goes on and those that wait, or one turn."""

    turn: str | None = None


class UndoTurn(_Body):
    """What is undone: a turn's changes, of some cells or all, with those of the turns after it or not."""

    turn: str
    cells: list[str] | None = None
    onwards: bool = False


class UndoChanges(_Body):
    """What is undone: changes to a notebook by their numbers, of some cells or all."""

    notebook: _Name
    entries: Annotated[list[Annotated[int, Field(ge=0, lt=2**63)]], Field(min_length=1)]
    cells: Annotated[list[str], Field(min_length=1)] | None = None


class PermissionAnswer(_Body):
    """A person's answer; with `deny` a message, which the caller reads."""

    answer: Answer
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""


class TrustRequest(_Body):
    """Trust in the root folder's file of keys."""

    trusted: Literal[True]


# --- answers: the server and its tools


class ErrorInfo(TypedDict):
    """What went wrong, and what to do next.

    Attributes:
        code: Stable; names the kind of error.
        retryable: Whether the same request can succeed later.
        sentence: The message by its code; None where it has none.
        hint_sentence: The hint by its code; None where it has none.
    """

    code: str
    message: str
    hint: str
    retryable: bool
    details: NotRequired[Json]
    sentence: NotRequired[SentenceInfo | None]
    hint_sentence: NotRequired[SentenceInfo | None]


ErrorAnswer = TypedDict("ErrorAnswer", {"error": ErrorInfo})


class Health(TypedDict):
    """Whether the extension is up.

    Attributes:
        problems: The errors that a call would get.
        missing_parts: By library, what it lacks of what the extension uses.
    """

    status: Literal["ok", "degraded"]
    problems: list[ErrorInfo]
    version: str
    features: list[str]
    toolsets: list[str]
    backends: dict[str, str]
    missing_parts: dict[str, list[str]]
    chat: ModelsInfo


class ToolInfo(TypedDict):
    """A tool."""

    name: str
    description: str
    effect: Effect
    destructive: bool
    idempotent: bool
    input_schema: Json
    output_schema: Json


ToolList = TypedDict("ToolList", {"tools": list[ToolInfo]})

# --- answers: chats


class ChatInfo(TypedDict):
    """A chat.

    Attributes:
        busy: Whether a turn goes on or waits.
    """

    id: str
    title: str
    notebook: str | None
    created: float
    updated: float
    busy: bool


ChatList = TypedDict("ChatList", {"chats": list[ChatInfo]})


class EventHead(BaseModel):
    """What each event of a chat has.

    Attributes:
        id: The number; of `permission` and `permission_settled` the request's id.
        number: Rises within the chat: what Last-Event-ID takes.
    """

    model_config = ConfigDict(extra="forbid")

    id: int
    number: int
    turn: str
    time: float


class Picture(TypedDict):
    """A picture, for a person to see.

    Attributes:
        data: Base64.
    """

    data: str
    mime: str


_PARTS: dict[str, Any] = {
    "action": Literal["insert", "replace", "delete", "move", "outputs"],
    "answers": list[Answer],
    "effect": Effect,
    "error": ErrorInfo,
    "images": list[Picture],
    "mode": Mode,
    "proposal": Proposal,
}
"""What fields of events hold that are plain JSON or text in the payloads."""


def _event_model(payload: type[Any]) -> Any:
    hints = get_type_hints(payload)
    hints |= {name: part for name, part in _PARTS.items() if name in hints}
    hints["kind"] = Literal[payload.kind]
    fields: Json = {name: (hint, ...) for name, hint in hints.items()}
    return create_model(
        f"{payload.__name__}Event", __base__=EventHead, __doc__=payload.__doc__, **fields
    )


CHAT_EVENTS = tuple(_event_model(payload) for payload in get_args(events.EventPayload))
"""A model of each kind of event in a chat, made of the class of its payload."""
if TYPE_CHECKING:
    ChatEvent = Json
else:
    ChatEvent = Annotated[Union[CHAT_EVENTS], Discriminator("kind")]  # noqa: UP007


class ChatPage(TypedDict):
    """A part of what happened in a chat.

    Attributes:
        next: Where it goes on: the `after` of the next request.
    """

    chat: ChatInfo
    events: list[ChatEvent]
    next: int | None


class CallInfo(TypedDict):
    """A tool call of a turn, and what Claude read."""

    tool: str
    ok: bool
    text: str


class TurnAnswer(TypedDict):
    """What came of a turn.

    Attributes:
        chat: Send it with the next message.
        turn: What is undone as one.
        text: Claude's last words.
        changes: Each cell that was changed, with its diff.
        plan: Whether the text is a plan that waits for an answer.
        usage: Tokens, cost in dollars, seconds.
        last_event: The number of the turn's last event.
    """

    chat: str
    turn: str
    end: events.End
    text: str
    calls: list[CallInfo]
    changes: list[Json]
    plan: bool
    usage: Json | None
    last_event: int


class FailedTurn(TurnAnswer):
    """What came of a turn that failed; its status is the error's."""

    error: ErrorInfo


Deleted = TypedDict("Deleted", {"deleted": str})
Stopped = TypedDict("Stopped", {"stopped": bool})


class ChatChange(TypedDict):
    """A change of a chat that stands.

    Attributes:
        entry: As the event `cell_change` names it.
        notebook: Its path now.
        cells: The cells of which the change stands.
    """

    entry: int
    turn: str | None
    notebook: str
    time: float
    cells: list[str]


class ChatChanges(TypedDict):
    """The changes of a chat that stand.

    Attributes:
        since: Earlier changes may stand without being listed.
    """

    changes: list[ChatChange]
    since: float


UndoneTurn = TypedDict("UndoneTurn", {"notebooks": list[TakenBack]})

# --- answers: changes to a notebook


class ChangedCell(TypedDict):
    """A cell of a change.

    Attributes:
        diff: What its source became, as a unified diff.
    """

    cell: str
    action: Literal["insert", "replace", "delete", "move", "outputs"]
    diff: str
    truncated: bool


class ChangeInfo(TypedDict):
    """A change to a notebook.

    Attributes:
        entry: The change's number, to undo it by.
        turn: Of a chat.
        yours: Whether an agent of yours made it.
    """

    entry: int
    time: float
    author: str
    tool: str
    turn: str | None
    yours: bool
    summary: str
    cells: list[ChangedCell]


ChangeList = TypedDict("ChangeList", {"changes": list[ChangeInfo]})


class ChangedCells(TypedDict):
    """Which cells hold what was written through tools.

    Attributes:
        cells: By the cell's key the time of its last change, in seconds since the epoch.
        unsettled: The time of the newest change of which is not known which cells it changed.
    """

    cells: dict[str, float]
    unsettled: float | None


UndoneChanges = TypedDict("UndoneChanges", {"undone": list[TakenBack]})


class LostTabs(TypedDict):
    """A notebook that waits for a tab with unsaved work.

    Attributes:
        seconds: For which it has waited.
    """

    notebook: str
    seconds: float


LostTabsList = TypedDict("LostTabsList", {"lost": list[LostTabs]})
GivenUp = TypedDict("GivenUp", {"given_up": str})

# --- answers: requests for permission


class PermissionInfo(TypedDict):
    """A request for permission.

    Attributes:
        author: Who wants to act.
        caller: The key of a caller that gives no name of its own.
        face: The interface by which the call came.
        proposal: What will happen: the diff or the code.
        preview: The proposal as plain text.
        created: Seconds since the epoch.
        within_call: Whether somebody is asked within the call: in its chat, or by its client.
    """

    id: str
    author: str
    caller: str | None
    face: str
    tool: str
    effect: Effect
    notebook: str | None
    proposal: Proposal
    preview: str
    answers: list[Answer]
    created: float
    within_call: bool


PermissionList = TypedDict("PermissionList", {"permissions": list[PermissionInfo]})
Answered = TypedDict("Answered", {"id": str, "answer": Answer})

# --- streams: each event is told by its kind


class PermissionsWaiting(TypedDict):
    """The requests that wait: what a stream begins with."""

    kind: Literal["waiting"]
    permissions: list[PermissionInfo]


class PermissionRequested(TypedDict):
    """A request waits from now on."""

    kind: Literal["asked"]
    permission: PermissionInfo


class PermissionSettled(TypedDict):
    """A request waits no more.

    Attributes:
        outcome: Its user's answer, through whichever interface; or it expired; or its caller is gone.
    """

    kind: Literal["settled"]
    id: str
    outcome: Outcome


PermissionEvent = Annotated[
    PermissionsWaiting | PermissionRequested | PermissionSettled, Discriminator("kind")
]


class Output(TypedDict):
    """One more output, as nbformat has it."""

    cell: str | None
    index: int
    output: Json


class OutputText(TypedDict):
    """More text of a stream output, from the character `start` on."""

    cell: str | None
    index: int
    name: str
    start: int
    text: str


class OutputCut(TypedDict):
    """Everything from there on is gone; what stands there now follows."""

    cell: str | None
    index: int
    start: int
    cut: Literal[True]


CellStarted = TypedDict("CellStarted", {"cell": str | None})
CellAsks = TypedDict("CellAsks", {"cell": str | None, "prompt": str})
CellEnded = TypedDict("CellEnded", {"cell": str | None, "status": str})
RunDone = TypedDict("RunDone", {"status": str})
ExecutionEvent = CellStarted | Output | OutputText | OutputCut | CellAsks | CellEnded | RunDone
EXECUTION_EVENTS: dict[str, Any] = {
    "started": CellStarted,
    "output": Output | OutputText | OutputCut,
    "input": CellAsks,
    "ended": CellEnded,
    "done": RunDone,
}
"""The data of the events of an execution, by the event's name, which is not in the data itself."""
