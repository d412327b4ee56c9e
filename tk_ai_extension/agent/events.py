"""What happens in a chat, as plain data: each event is numbered within its chat, and is JSON.

A client is shown these and nothing else; the transcript keeps them. Deltas name the block that they
belong to and where in it they begin, so that one who reconnects in the middle of a block, or reads
it from the transcript as one piece, puts it where it belongs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.error_info import error_info
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.sentences import SentenceInfo

End = Literal["done", "stopped", "failed"]
"""How a turn ended: by itself, because somebody stopped it, or with an error."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A person's message: the beginning of a turn.

    Attributes:
        chat: The chat's id.
        text: As the person wrote it.
        notebook: The path of the notebook that the turn is bound to, or None.
        mode: The permission mode that holds in it.
        model: The model that answers.
        attachments: What went with it, a line each.
        waits: How many turns of this chat come first.
        active_cell: The cell that the person was in, as it was sent.
        replaces: The turn whose place it takes, with all that came after that turn; None for none.
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


@dataclass(frozen=True, slots=True)
class Began:
    """The turn's time has come: Claude is asked."""

    kind: ClassVar[str] = "began"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of what Claude writes.

    Attributes:
        block: The block's number in this turn, from 0; thinking counts, too.
        start: Characters of the block before this piece.
        text: The piece.
    """

    kind: ClassVar[str] = "text"

    block: int
    start: int
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of what Claude thinks; as `TextDelta`."""

    kind: ClassVar[str] = "thinking"

    block: int
    start: int
    text: str


@dataclass(frozen=True, slots=True)
class Discarded:
    """The model's stream was cut and begins anew: blocks from this number on are void."""

    kind: ClassVar[str] = "discarded"

    block: int


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Claude calls a tool.

    Attributes:
        call: The call's id; progress, permission, changes and the result name it.
        tool: The tool's name in the registry.
        arguments: Exactly what it was given.
    """

    kind: ClassVar[str] = "tool_call"

    call: str
    tool: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """A line that says what a running call is doing; by its code in ``sentence``, where it has one."""

    kind: ClassVar[str] = "tool_progress"

    call: str
    message: str
    sentence: SentenceInfo | None = None


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A call has ended.

    Attributes:
        call: The call.
        tool: The tool's name.
        ok: Whether it did what was asked.
        text: What Claude reads.
        structured: The structured answer, or ``{"error": …}``.
        images: Pictures: ``{"data": base64, "mime": …}``.
        seconds: How long it took; a person's thinking about a permission counts.
        notices: Of each of the answer's notices its code, where it has one.
    """

    kind: ClassVar[str] = "tool_result"

    call: str
    tool: str
    ok: bool
    text: str
    structured: Json
    images: list[Json] = field(default_factory=list[Json])
    seconds: float = 0.0
    notices: list[SentenceInfo | None] = field(default_factory=list[SentenceInfo | None])


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """A call needs the person's approval; ``POST /api/tk-ai/permissions/{id}`` answers.

    Attributes:
        call: The call that waits.
        id: The request's.
        tool: The tool's name.
        effect: What it does: WRITE or EXECUTE.
        notebook: The path it concerns, or None.
        preview: The proposal as plain text.
        proposal: What will happen: the diff or the code (`model.proposals.Proposal.as_dict`).
        answers: The answers that mean something here.
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
    """A request for permission waits no more: it was answered, or its call was stopped.

    Attributes:
        call: The call that waited; its result says what came of it.
        id: The request's.
    """

    kind: ClassVar[str] = "permission_settled"

    call: str
    id: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A turn in the mode `plan` has made a plan; ``POST /api/tk-ai/chats/{id}/plan`` answers it.

    It waits until it is answered, or until another message is sent. Its turn names it.

    Attributes:
        text: The plan.
        notebook: The notebook that it is about: the turn that carries it out is bound to it.
        model: The model that made it.
    """

    kind: ClassVar[str] = "plan"

    text: str
    notebook: str | None
    model: str


@dataclass(frozen=True, slots=True)
class PlanSettled:
    """A plan waits no more; the message of this turn says what comes of it.

    Attributes:
        plan: The turn that made the plan.
        answer: ``approved``, ``rejected``, or ``passed`` where another message was sent instead.
    """

    kind: ClassVar[str] = "plan_settled"

    plan: str
    answer: Literal["approved", "rejected", "passed"]


@dataclass(frozen=True, slots=True)
class CellChanged:
    """A call changed a cell.

    Attributes:
        call: The call.
        notebook: The path.
        action: insert, replace, delete, move or outputs.
        cell: The cell's key.
        index: Its index after the change; before it, where it was deleted.
        cell_type: code, markdown or raw.
        diff: The lines that went and came, with ``-`` and ``+`` before them.
        entry: The journal's number of the change.
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
class Used:
    """What the turn took.

    Attributes:
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens: Of the turn.
        cost_usd: Of the turn, as the model's prices say; None where they are not known.
        session_cost_usd: Of Claude's session up to the end of the turn, as its process reports it.
        seconds: From the question to the end.
        requests: How often the model was asked.
    """

    kind: ClassVar[str] = "usage"

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None
    session_cost_usd: float | None
    seconds: float
    requests: int


@dataclass(frozen=True, slots=True)
class Retried:
    """The model could not be asked and is asked again.

    Attributes:
        attempt: The number of this attempt, from 1.
        attempts: How many there will be at most.
        seconds: Until the next one.
        status: The HTTP status that the model's server answered with, where it answered.
        reason: What it said, in a word.
    """

    kind: ClassVar[str] = "retry"

    attempt: int
    attempts: int
    seconds: float
    status: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something that the person has to know besides; by its code in ``sentence``, where it has one."""

    kind: ClassVar[str] = "notice"

    text: str
    sentence: SentenceInfo | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn cannot go on; ``error`` is `error_info`."""

    kind: ClassVar[str] = "error"

    error: Json

    @classmethod
    def of(cls, error: ToolError) -> Failed:
        """Return the event that an error ends a turn with."""
        return cls(error_info(error))


@dataclass(frozen=True, slots=True)
class Done:
    """The last event of a turn.

    Attributes:
        end: How it ended.
        text: Claude's last words: all text after the last call.
    """

    kind: ClassVar[str] = "done"

    end: End
    text: str = ""


EventPayload = (
    Sent
    | Began
    | TextDelta
    | ThinkingDelta
    | Discarded
    | ToolCalled
    | ToolProgressed
    | ToolAnswered
    | PermissionAsked
    | PermissionSettled
    | Planned
    | PlanSettled
    | CellChanged
    | Used
    | Retried
    | Noticed
    | Failed
    | Done
)
"""Everything that can happen."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a chat.

    Attributes:
        id: Rises by one within the chat.
        turn: The turn that it belongs to.
        time: Seconds since the epoch.
        kind: Which of the kinds (`EventPayload`).
        data: Its attributes as JSON.
    """

    id: int
    turn: str
    time: float
    kind: str
    data: Json

    @classmethod
    def of(cls, number: int, turn: str, time: float, what: EventPayload) -> Event:
        """The event of something that happened."""
        return cls(number, turn, time, what.kind, asdict(what))

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON; ``number`` is the event's also where ``id`` is a request's."""
        head = {"id": self.id, "number": self.id, "turn": self.turn, "time": self.time}
        return {**head, "kind": self.kind, **self.data}
