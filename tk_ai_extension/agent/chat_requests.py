"""Messages to a chat, with their context and attachments, and answers to an agent's questions and plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from tk_ai_extension.model.callers import Mode
from tk_ai_extension.notebooks.notebook import Notebook

MAX_MESSAGE = 200_000
"""Maximum length of a message, in characters."""
MAX_ATTACHMENTS = 20
"""Maximum number of attachments of a message."""
MAX_SELECTED = 100
"""Maximum number of selected cells of a message."""
MAX_SELECTION = 100_000
"""Maximum length of an attached selection of text, in characters."""
MAX_IMAGE = 7_000_000
"""Maximum length of an attached image, in characters of base64: about 5 MB."""

APPROVED = "The plan is approved: carry it out."
"""Message to Claude when a plan is approved."""

_Address = Annotated[str, Field(min_length=1, max_length=200)]


class RequestBody(BaseModel):
    """A body of a request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


_Short = Annotated[str, Field(max_length=2_000)]


class ConnectRequest(RequestBody):
    """A connection to a model, as a user enters it.

    Attributes:
        secret: A key or a token; null keeps the stored one, for the same provider and address only.
    """

    provider: Literal["anthropic", "oauth", "compatible"]
    secret: Annotated[str | None, Field(max_length=8_000, repr=False)] = None
    base_url: _Short = ""
    model: _Short = ""


class _Attachment(RequestBody):
    title: Annotated[str | None, Field(max_length=200)] = None
    """Its name on the page; the server's label if omitted."""


class CellAttachment(_Attachment):
    """A cell of the notebook, with its outputs and their pictures."""

    kind: Literal["cell"]
    cell: _Address


class OutputAttachment(_Attachment):
    """One output of a cell, or all, with its images."""

    kind: Literal["output"]
    cell: _Address
    output: Annotated[int | None, Field(ge=0, le=100_000)] = None
    """Index among the cell's outputs, from 0; all outputs if omitted."""


class ErrorAttachment(_Attachment):
    """The error of a cell, with its traceback."""

    kind: Literal["error"]
    cell: _Address


class VariableAttachment(_Attachment):
    """A variable of the notebook's kernel: its type and value; for a table, its columns and first rows."""

    kind: Literal["variable"]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Its name, with dots for attributes."""


class FolderAttachment(_Attachment):
    """The list of a folder's files, without its subfolders' files."""

    kind: Literal["folder"]
    path: Annotated[str, Field(max_length=4096)]
    """The path below the root; empty for the root."""


class SelectionAttachment(_Attachment):
    """Text that the person selected in a cell or a file, as it was at that time."""

    kind: Literal["selection"]
    text: Annotated[str, Field(min_length=1, max_length=MAX_SELECTION)]
    cell: _Address | None = None
    """The cell of the notebook that it is in."""
    path: Annotated[str | None, Field(min_length=1, max_length=4096)] = None
    """The file that it is in, if it is in no cell."""
    first_line: Annotated[int, Field(ge=1, le=10_000_000)]
    """Number of its first line, from 1."""
    last_line: Annotated[int, Field(ge=1, le=10_000_000)]
    """Number of its last line."""

    @model_validator(mode="after")
    def _check(self) -> SelectionAttachment:
        if (self.cell is None) == (self.path is None):
            raise PydanticCustomError("no_place", "A selection requires either `cell` or `path`")
        return self

    @property
    def lines(self) -> str:
        """The numbers of its lines, for a person."""
        first, last = self.first_line, self.last_line
        return f"line {first}" if first == last else f"lines {first} to {last}"


class FileAttachment(_Attachment):
    """A text file below the root."""

    kind: Literal["file"]
    path: Annotated[str, Field(min_length=1, max_length=4096)]


class ImageAttachment(_Attachment):
    """An image."""

    kind: Literal["image"]
    mime: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: Annotated[str, Field(min_length=1, max_length=MAX_IMAGE, pattern=r"^[A-Za-z0-9+/=\s]+$")]


Attachment = (
    CellAttachment
    | OutputAttachment
    | ErrorAttachment
    | VariableAttachment
    | FileAttachment
    | FolderAttachment
    | SelectionAttachment
    | ImageAttachment
)


def label_of(attachment: Attachment) -> str:
    """Return a short label, with addresses that tools accept."""
    match attachment:
        case CellAttachment(cell=cell):
            return f"cell {cell}"
        case OutputAttachment(cell=cell, output=number):
            return f"output{'' if number is None else f' {number}'} of cell {cell}"
        case ErrorAttachment(cell=cell):
            return f"error of cell {cell}"
        case VariableAttachment(name=name):
            return name
        case FileAttachment(path=path):
            return path
        case FolderAttachment(path=path):
            return f"{path.rstrip('/')}/"
        case SelectionAttachment():
            return f"{attachment.lines} of {attachment.path or f'cell {attachment.cell}'}"
        case ImageAttachment():
            return "picture"


def shown(attachment: Attachment) -> str:
    """Return what a person sees of an attachment."""
    return attachment.title or label_of(attachment)


_Words = Annotated[str, Field(min_length=1, max_length=2_000)]


class QuestionAnswer(RequestBody):
    """For each question of a call, labels of its options or other text; without answers, all are skipped."""

    call: _Address
    answers: Annotated[list[Annotated[list[_Words], Field(max_length=20)]], Field(max_length=20)]


class ChatRequest(RequestBody):
    """The body of ``POST /api/tk-ai/mcp/chat``."""

    message: Annotated[str, Field(max_length=MAX_MESSAGE)]
    """The text of the message; with `approves` it may be empty."""
    id: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Idempotency key: a message that is sent again, for example after a lost response, returns the
    turn of the first one and begins no second turn."""
    chat: Annotated[str, Field(max_length=100)] | None = None
    """The chat; a new one if omitted."""
    notebook: Annotated[str, Field(max_length=4096)] | None = None
    """Path of the notebook that the person has open; the turn's current notebook."""
    notebook_of: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """A turn of `chat`: the message is about the same notebook, even if that was renamed since. `notebook`
    counts if the chat has no such turn."""
    active_cell: _Address | None = None
    """The active cell."""
    selected_cells: Annotated[list[_Address], Field(max_length=MAX_SELECTED)] = []
    """The selected cells."""
    attachments: Annotated[
        list[Annotated[Attachment, Field(discriminator="kind")]], Field(max_length=MAX_ATTACHMENTS)
    ] = []
    """Attachments."""
    mode: Mode = "ask"
    """The permission mode of this turn."""
    model: Annotated[str, Field(max_length=200)] | None = None
    """The model that answers; the server's default if omitted."""
    options: Annotated[dict[_Address, _Address], Field(max_length=20)] = {}
    """Values of the agent's settings by id, from its event `offer`. The agent keeps them and ignores
    unknown ones."""
    replaces: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """The turn of the chat that it replaces: Claude continues from before it. Running turns of
    the chat are stopped; changes of the replaced turns to notebooks are kept."""
    undo_replaced: bool = False
    """With `replaces`: undo what the replaced turns changed, as a restore does."""
    approves: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """The turn with the plan that it approves. The plan is carried out in `mode`, for the notebook of the
    chat, by the model that made it unless `model` names another."""
    latest: bool = False
    """Without `chat`: continue the newest chat with a last message about this notebook (without
    `notebook`: about none), if there is one."""

    @model_validator(mode="after")
    def _check(self) -> ChatRequest:
        if not self.message.strip() and self.approves is None:
            raise PydanticCustomError("empty_message", "`message` is empty")
        if (self.replaces or self.approves) and self.chat is None:
            raise PydanticCustomError("no_chat", "`replaces` and `approves` require `chat`")
        if self.approves is not None and (self.replaces is not None or self.mode == "plan"):
            raise PydanticCustomError("no_plan", "`approves` excludes `replaces` and mode `plan`")
        return self


@dataclass(eq=False)
class ChatMessage:
    """A validated message.

    Attributes:
        request: The person's request.
        about: The notebook that it is about, or None.
        model: The model that answers.
    """

    request: ChatRequest
    about: Notebook | None
    model: str

    @property
    def notebook(self) -> str | None:
        """The present path of its notebook, as it is stored."""
        return None if self.about is None else self.about.stored_path
