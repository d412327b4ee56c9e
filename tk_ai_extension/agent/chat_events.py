"""Events of a chat: plain data, numbered within the chat, JSON-serializable.

Clients receive these and nothing else; the transcript stores them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.workspace.undo import UndoResult

End = Literal["done", "planned", "stopped", "failed"]
"""How a turn ended; ``planned`` if its final text is a plan.

A message with ``approves`` carries out the plan; after any other message it no longer can."""


@dataclass(frozen=True, slots=True)
class MessageSent:
    """A person's message; begins a turn.

    Attributes:
        chat: The chat's id.
        text: As the person wrote it.
        notebook: The path of the notebook that the turn is bound to, or None.
        mode: The permission mode of the turn.
        model: The model that answers.
        attachments: One line for each attachment.
        waits: Number of turns of this chat that are ahead of it.
        active_cell: The active cell when it was sent.
        replaces: The turn that it replaces, with all later turns; None for none.
        message: The id that the sender chose for the message; None for none.
    """

    kind: ClassVar[str] = "message"

    chat: str
    text: str
    notebook: str | None
    mode: str
    model: str
    attachments: list[str] = field(default_factory=list[str])
    waits: int = 0
    active_cell: str | None = None
    replaces: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The turn started: the agent gets the message."""

    kind: ClassVar[str] = "began"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of Claude's text.

    Attributes:
        block: Number of the block in this turn, from 0, counting thinking blocks.
        text: The piece, which follows the block's earlier ones.
    """

    kind: ClassVar[str] = "text"

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of Claude's thinking; see `TextDelta`."""

    kind: ClassVar[str] = "thinking"

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class BlocksDiscarded:
    """The model's stream was interrupted and restarts: discard the blocks from this number on."""

    kind: ClassVar[str] = "discarded"

    block: int


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Claude calls a tool.

    Attributes:
        call: The call's id; progress, permission, changes and the result name it.
        tool: The tool's name in the registry.
        arguments: The arguments, unchanged.
    """

    kind: ClassVar[str] = "tool_call"

    call: str
    tool: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """Progress of a running call, one line."""

    kind: ClassVar[str] = "tool_progress"

    call: str
    message: str


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A call has ended.

    Attributes:
        call: The call.
        tool: The tool's name.
        ok: Whether it succeeded.
        text: The text that Claude reads.
        structured: The structured result, or ``{"error": …}``.
        images: Images, ``{"data": base64, "mime": …}``.
        seconds: Duration, without the time that a person took to approve it.
    """

    kind: ClassVar[str] = "tool_result"

    call: str
    tool: str
    ok: bool
    text: str
    structured: Json
    images: list[Json] = field(default_factory=list[Json])
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """A call needs the person's approval; ``POST /api/tk-ai/permissions/{id}`` answers.

    Attributes:
        call: The call that waits.
        id: The request's.
        tool: The tool's name.
        effect: The tool's effect: WRITE or EXECUTE.
        notebook: The notebook's path, or None.
        preview: The proposal as plain text.
        proposal: The diff or the code (`model.proposals.Proposal.as_dict`).
        answers: The possible answers.
    """

    kind: ClassVar[str] = "permission"

    call: str
    id: str
    tool: str
    effect: str
    notebook: str | None
    preview: str
    proposal: Json
    answers: list[str]


@dataclass(frozen=True, slots=True)
class PermissionSettled:
    """A permission request is no longer pending: it was answered, or its call was stopped.

    Attributes:
        call: The call that waited; its result has the outcome.
        id: The request's.
    """

    kind: ClassVar[str] = "permission_settled"

    call: str
    id: str


@dataclass(frozen=True, slots=True)
class QuestionOption:
    """An answer that an agent offers."""

    label: str
    description: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question of an agent. The person may also answer with other text. ``header`` names its subject."""

    text: str
    header: str
    options: list[QuestionOption]
    multiple: bool


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A call asks the person questions; ``POST /api/tk-ai/chats/{id}/answer`` answers them."""

    kind: ClassVar[str] = "question"

    call: str
    tool: str
    questions: list[Question]


@dataclass(frozen=True, slots=True)
class QuestionSettled:
    """Questions are no longer pending; ``given`` has the answers to each, and is empty without answers."""

    kind: ClassVar[str] = "question_settled"

    call: str
    given: list[list[str]]


@dataclass(frozen=True, slots=True)
class CellChanged:
    """A call changed a cell.

    Attributes:
        call: The call.
        notebook: The path.
        action: insert, replace, delete, move or outputs.
        cell: The cell's key.
        index: Its index after the change; before it, if it was deleted.
        cell_type: code, markdown or raw.
        diff: The removed and added lines, with ``-`` and ``+`` before them.
        entry: Number of the change in the journal.
    """

    kind: ClassVar[str] = "cell_change"

    call: str
    notebook: str
    action: str
    cell: str
    index: int
    cell_type: str
    diff: str
    entry: int


@dataclass(frozen=True, slots=True)
class ChatRestored:
    """The chat was restored to before this turn: this turn and all later ones are replaced.

    Attributes:
        notebooks: The changes that were undone in each notebook, and those that stay.
    """

    kind: ClassVar[str] = "restored"

    notebooks: list[UndoResult]


@dataclass(frozen=True, slots=True)
class TodoItem:
    """An item of the agent's to-do list."""

    text: str
    status: Literal["pending", "in_progress", "completed"]


@dataclass(frozen=True, slots=True)
class TodoListed:
    """The agent's to-do list of the turn, as it is now.

    Attributes:
        items: All items, in order.
    """

    kind: ClassVar[str] = "todo_list"

    items: list[TodoItem]


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """A value of a setting, with its name for people."""

    value: str
    name: str


@dataclass(frozen=True, slots=True)
class AgentSetting:
    """A setting of the agent, such as its effort; a message chooses another value by its ``options``."""

    id: str
    name: str
    value: str
    choices: list[AgentChoice]


@dataclass(frozen=True, slots=True)
class AgentSlashCommand:
    """A command of the agent; a person sends ``/name`` to run it."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class OptionsOffered:
    """The agent's settings and commands from now on, until the next such event."""

    kind: ClassVar[str] = "offer"

    settings: list[AgentSetting]
    commands: list[AgentSlashCommand]


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Usage of the turn.

    Attributes:
        session_cost_usd: Cost of the agent's session up to the end of the turn, in US dollars, as the
            agent reports it; None if unknown.
        seconds: Duration from the message to the end.
    """

    kind: ClassVar[str] = "usage"

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    session_cost_usd: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class RequestRetried:
    """A request to the model failed and is retried.

    Attributes:
        attempt: The number of this attempt, from 1.
        attempts: Maximum number of attempts.
        reason: The reason, in a few words.
    """

    kind: ClassVar[str] = "retry"

    attempt: int
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True)
class NoticeAdded:
    """A notice for the person."""

    kind: ClassVar[str] = "notice"

    text: str


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn failed; ``error`` is `ToolError.as_dict`."""

    kind: ClassVar[str] = "error"

    error: Json


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The last event of a turn.

    Attributes:
        end: How it ended.
        text: Claude's final text: all text after the last call.
    """

    kind: ClassVar[str] = "done"

    end: End
    text: str = ""


EventPayload = (
    MessageSent
    | TurnStarted
    | TextDelta
    | ThinkingDelta
    | BlocksDiscarded
    | ToolCalled
    | ToolProgressed
    | ToolAnswered
    | PermissionAsked
    | PermissionSettled
    | QuestionAsked
    | QuestionSettled
    | CellChanged
    | ChatRestored
    | TodoListed
    | OptionsOffered
    | UsageReported
    | RequestRetried
    | NoticeAdded
    | TurnFailed
    | TurnEnded
)
"""Payload of an event."""


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """An event of a chat.

    Attributes:
        id: Sequence number within the chat.
        turn: The turn that it belongs to.
        time: Seconds since the epoch.
        kind: Kind of the payload (`EventPayload`).
        data: Attributes of the payload as JSON.
    """

    id: int
    turn: str
    time: float
    kind: str
    data: Json

    def as_dict(self) -> Json:
        """Return the event as JSON. ``number`` is the event's id, also if the payload has another ``id``."""
        head = {"id": self.id, "number": self.id, "turn": self.turn, "time": self.time}
        return {**head, "kind": self.kind, **self.data}
