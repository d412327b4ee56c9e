"""Models of the routes: requests (pydantic models), responses and events (typed dictionaries).

Handlers use them in their signatures: the type checker checks responses, bodies are validated, and
`server.openapi` describes the routes with them. Imported lazily, like pydantic. Times are in seconds
since the epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Union, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, create_model
from typing_extensions import TypedDict, get_type_hints

from tk_ai_extension.agent import chat_events
from tk_ai_extension.agent.chat_requests import (
    Attachment,
    ChatRequest,
    ConnectRequest,
    QuestionAnswer,
    RequestBody,
)
from tk_ai_extension.agent.chat_setup import ChatSetupInfo
from tk_ai_extension.agent.claude.providers import ConnectionInfo, ModelsInfo
from tk_ai_extension.agent.code_assistant import (
    CompletedCode,
    CompletionRequest,
    EditedCell,
    EditRequest,
)
from tk_ai_extension.model.callers import Mode
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.proposals import Proposal
from tk_ai_extension.tools.default.variables import VariableList
from tk_ai_extension.tools.registry import parsed
from tk_ai_extension.workspace.activity import ActivityEvent
from tk_ai_extension.workspace.permission_requests import Answer, Effect, Outcome
from tk_ai_extension.workspace.permissions import MAX_MESSAGE, StandingApprovalInfo
from tk_ai_extension.workspace.undo import CombinedChange, UndoResult

__all__ = [
    "ActivityEvent",
    "Attachment",
    "ChatRequest",
    "ChatSetupInfo",
    "CompletedCode",
    "CompletionRequest",
    "ConnectRequest",
    "ConnectionInfo",
    "EditRequest",
    "EditedCell",
    "ModelsInfo",
    "QuestionAnswer",
    "StandingApprovalInfo",
    "VariableList",
    "parsed",
]

# --- requests

_Name = Annotated[str, Field(min_length=1)]
_Number = Annotated[str, Field(pattern="^[0-9]{1,18}$")]


class StopRequest(RequestBody):
    """The turns to stop: the running and queued ones, or one turn."""

    turn: str | None = None


class UndoTurnRequest(RequestBody):
    """The changes to undo: a turn's, of some cells or all."""

    turn: str
    cells: list[str] | None = None


class ChosenTurn(RequestBody):
    """A turn of the chat."""

    turn: Annotated[str, Field(min_length=1, max_length=100)]


class ChatTitleRequest(RequestBody):
    """The new title of a chat."""

    title: Annotated[str, Field(pattern=r"\S")]


class ChosenChanges(RequestBody):
    """Changes by their numbers in a notebook, with the cells of each, or all of its cells."""

    notebook: _Name
    entries: (
        Annotated[
            list[Annotated[int, Field(ge=0, lt=2**63)]], Field(min_length=1, max_length=10_000)
        ]
        | Annotated[dict[_Number, list[str]], Field(min_length=1, max_length=10_000)]
    )

    def cells(self) -> dict[int, frozenset[str] | None]:
        """Return the keys of the cells by number; None for all."""
        if isinstance(self.entries, list):
            return dict.fromkeys(self.entries)
        return {int(number): frozenset(cells) for number, cells in self.entries.items()}


# --- answers: the server and its tools


class ErrorInfo(TypedDict):
    """An error: its cause and what to do.

    Attributes:
        code: Stable code of the kind of error.
        retryable: Whether the same request can succeed later.
    """

    code: str
    message: str
    hint: str
    retryable: bool
    details: NotRequired[Json]


ErrorAnswer = TypedDict("ErrorAnswer", {"error": ErrorInfo})


class SaveRequest(RequestBody):
    """A notebook to save; the caller's current one for null."""

    notebook: str | None = None


class SavedNotebook(TypedDict):
    """A notebook after its changes and outputs are saved."""

    notebook: str
    revision: str


class Health(TypedDict):
    """Status of the extension.

    Attributes:
        problems: The errors that a call would return.
    """

    status: Literal["ok", "degraded"]
    problems: list[ErrorInfo]
    version: str
    features: list[str]
    toolsets: list[str]
    backends: dict[str, str]
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
        busy: Whether a turn is running or queued.
    """

    id: str
    title: str
    notebook: str | None
    created: float
    updated: float
    busy: bool


ChatList = TypedDict("ChatList", {"chats": list[ChatInfo]})


class EventHead(BaseModel):
    """Fields of every event of a chat.

    Attributes:
        id: The event's number; for `permission` and `permission_settled` the request's id.
        number: Increasing number within the chat, for Last-Event-ID.
    """

    model_config = ConfigDict(extra="forbid")

    id: int
    number: int
    turn: str
    time: float


class ToolResultImage(TypedDict):
    """An image in a tool's result.

    Attributes:
        data: Base64.
    """

    data: str
    mime: str


_PARTS: Json = {
    "action": Literal["insert", "replace", "delete", "move", "outputs"],
    "answers": list[Answer],
    "effect": Effect,
    "error": ErrorInfo,
    "images": list[ToolResultImage],
    "mode": Mode,
    "proposal": Proposal,
}
"""Types of event fields that are plain JSON or text in the payloads."""


def _event_model(payload: type[Any]) -> Any:
    hints = get_type_hints(payload)
    hints |= {name: part for name, part in _PARTS.items() if name in hints}
    hints["kind"] = Literal[payload.kind]  # pyrefly: ignore[invalid-literal]
    fields: Json = {name: (hint, ...) for name, hint in hints.items()}
    return create_model(
        f"{payload.__name__}Event", __base__=EventHead, __doc__=payload.__doc__, **fields
    )


CHAT_EVENTS = tuple(_event_model(payload) for payload in get_args(chat_events.EventPayload))
"""Create the model of an event from the class of its payload."""
if TYPE_CHECKING:
    ChatEvent = Json
else:
    ChatEvent = Annotated[Union[CHAT_EVENTS], Discriminator("kind")]  # noqa: UP007


class ChatEventsPage(TypedDict):
    """A page of the events of a chat.

    Attributes:
        next: The `after` of the next request; null at the end.
    """

    chat: ChatInfo
    events: list[ChatEvent]
    next: int | None


class ToolCallInfo(TypedDict):
    """A tool call of a turn with the result that Claude read."""

    tool: str
    ok: bool
    text: str


class TurnInfo(TypedDict):
    """A turn that is queued or runs."""

    chat: str
    turn: str


class TurnAnswer(TypedDict):
    """The result of a turn.

    Attributes:
        chat: Send it with the next message.
        turn: The turn's id, for undo.
        text: Claude's final text.
        changes: Changed cells with their diffs.
        plan: Whether the text is a pending plan.
        usage: Tokens, seconds, and the cost of the chat's session in dollars.
        last_event: Number of the turn's last event.
    """

    chat: str
    turn: str
    end: chat_events.End
    text: str
    calls: list[ToolCallInfo]
    changes: list[Json]
    plan: bool
    usage: Json | None
    last_event: int


class FailedTurn(TurnAnswer):
    """The result of a failed turn; the HTTP status is the error's."""

    error: ErrorInfo


Deleted = TypedDict("Deleted", {"deleted": str})


AnsweredQuestion = TypedDict("AnsweredQuestion", {"answered": bool})


class StopResult(TypedDict):
    """Whether there was a turn to stop."""

    stopped: bool


# --- answers: changes to a notebook


class UndoneTurn(TypedDict):
    """The undone changes and those that stay, by notebook."""

    notebooks: list[UndoResult]


class CombinedChanges(TypedDict):
    """The combined effect of changes, by cell."""

    changes: list[CombinedChange]


class KeptChanges(TypedDict):
    """The numbers of the entries with kept changes."""

    kept: list[int]


class UndoneChanges(TypedDict):
    """The result of an undo.

    Attributes:
        missing: Numbers of entries without changes that can be undone in this notebook (any more).
    """

    undone: list[UndoResult]
    missing: list[int]


# --- permissions, and the setup of chats


class PermissionAnswer(RequestBody):
    """A person's answer; with `deny` an optional message to the caller."""

    answer: Answer
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""


class PermissionInfo(TypedDict):
    """A permission request.

    Attributes:
        author: Name of the caller.
        caller: Key of a caller without a name.
        chat: Id of the chat that makes the call, also by code in its kernel.
        interface: The interface of the call.
        proposal: The diff or the code.
        preview: The proposal as plain text.
        created: Seconds since the epoch.
        within_call: Whether the call's chat or client asks a person.
    """

    id: str
    author: str
    caller: str | None
    chat: str | None
    interface: str
    tool: str
    effect: Effect
    notebook: str | None
    proposal: Proposal
    preview: str
    answers: list[Answer]
    created: float
    within_call: bool


class PermissionList(TypedDict):
    """The pending requests."""

    permissions: list[PermissionInfo]


class StandingApprovalList(TypedDict):
    """The standing approvals."""

    approvals: list[StandingApprovalInfo]


class AnsweredPermission(TypedDict):
    """A request that was answered."""

    id: str
    answer: Answer


class PendingPermissionRequests(TypedDict):
    """The pending requests; first event of a stream."""

    kind: Literal["waiting"]
    permissions: list[PermissionInfo]


class PermissionRequestAdded(TypedDict):
    """A new pending request."""

    kind: Literal["asked"]
    permission: PermissionInfo


class PermissionRequestSettled(TypedDict):
    """A request is no longer pending.

    Attributes:
        outcome: The user's answer, over any interface; or that it expired or its caller disconnected.
    """

    kind: Literal["settled"]
    id: str
    outcome: Outcome


PermissionEvent = Annotated[
    PendingPermissionRequests | PermissionRequestAdded | PermissionRequestSettled,
    Discriminator("kind"),
]
