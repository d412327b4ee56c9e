"""What a person sends: the message, what they look at, and what goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from tk_ai_extension.model.callers import Mode
from tk_ai_extension.tools.schemas import parsed

MAX_MESSAGE = 200_000
"""Characters of a message."""
MAX_ATTACHMENTS = 20
"""How many attachments go with one message."""
MAX_SELECTED = 100
"""How many selected cells go with one message."""
MAX_IMAGE = 7_000_000
"""Characters of an attached image, as base64: about 5 MB."""

APPROVED = "The plan is approved: carry it out."
"""What Claude is told of a plan that a person approves."""

_Address = Annotated[str, Field(min_length=1, max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CellAttachment(_Strict):
    """A cell of the notebook, with its outputs and their pictures."""

    kind: Literal["cell"]
    cell: _Address

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        return f"cell {self.cell}"


class OutputAttachment(_Strict):
    """One output of a cell, with its picture where it is one."""

    kind: Literal["output"]
    cell: _Address
    output: Annotated[int, Field(ge=0, le=100_000)]
    """Its number among the cell's outputs, from 0."""

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        return f"output {self.output} of cell {self.cell}"


class FileAttachment(_Strict):
    """A text file below the root."""

    kind: Literal["file"]
    path: Annotated[str, Field(min_length=1, max_length=4096)]

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        return self.path


class ImageAttachment(_Strict):
    """A picture."""

    kind: Literal["image"]
    mime: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: Annotated[str, Field(min_length=1, max_length=MAX_IMAGE, pattern=r"^[A-Za-z0-9+/=\s]+$")]

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        return "picture"


Attachment = CellAttachment | OutputAttachment | FileAttachment | ImageAttachment


class ChatRequest(_Strict):
    """The body of ``POST /api/tk-ai/mcp/chat``."""

    message: Annotated[str, Field(min_length=1, max_length=MAX_MESSAGE)]
    """What the person writes."""
    chat: Annotated[str, Field(max_length=100)] | None = None
    """The chat that it belongs to; a new one where left out."""
    notebook: Annotated[str, Field(max_length=4096)] | None = None
    """The notebook that the person looks at: its path. The whole turn is about it."""
    active_cell: _Address | None = None
    """The cell that they are in."""
    selected_cells: Annotated[list[_Address], Field(max_length=MAX_SELECTED)] = []
    """The cells that they have selected."""
    attachments: Annotated[
        list[Annotated[Attachment, Field(discriminator="kind")]], Field(max_length=MAX_ATTACHMENTS)
    ] = []
    """What goes with it."""
    mode: Mode = "ask"
    """The permission mode of this turn."""
    model: Annotated[str, Field(max_length=200)] | None = None
    """The model that answers; the server's usual one where left out."""
    replaces: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """The turn of the chat that it takes the place of: Claude goes on from before it. What goes on in
    the chat is stopped; what the replaced turns changed in notebooks stays."""
    latest: bool = False
    """Where no chat is named: go on with the newest one that was last about this notebook (or, where
    none is named, about none), if there is one."""
    on_disconnect: Literal["continue", "stop"] = "continue"
    """What becomes of the turn when the line is cut."""

    @model_validator(mode="after")
    def _check(self) -> ChatRequest:
        if not self.message.strip():
            raise PydanticCustomError("empty_message", "Write something in `message`")
        if self.replaces is not None and self.chat is None:
            raise PydanticCustomError("no_chat", "`replaces` is a turn of a `chat`: name it, too")
        return self


class PlanAnswer(_Strict):
    """The body of ``POST /api/tk-ai/chats/{id}/plan``."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"answer": {"const": "reject"}}, "required": ["answer"]},
            "then": {"properties": {"words": {"pattern": r"\S"}}, "required": ["words"]},
        }
    )

    plan: Annotated[str, Field(min_length=1, max_length=100)]
    """The turn that made the plan."""
    answer: Literal["approve", "reject"]
    mode: Literal["ask", "edit", "auto"] = "ask"
    """The permission mode in which an approved plan is carried out."""
    words: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""
    """What Claude is told besides; required when rejecting a plan."""
    model: Annotated[str, Field(max_length=200)] | None = None
    """The model that goes on; the one that made the plan where left out."""
    on_disconnect: Literal["continue", "stop"] = "continue"
    """What becomes of the turn when the line is cut."""

    @model_validator(mode="after")
    def _check(self) -> PlanAnswer:
        if not self.message:
            raise PydanticCustomError("no_words", "`words` is required when rejecting a plan")
        return self

    @property
    def message(self) -> str:
        """What Claude is told."""
        words = self.words.strip()
        if self.answer == "reject":
            return words
        return f"{APPROVED} {words}".rstrip()


@dataclass(frozen=True, slots=True)
class AskingCell:
    """A running cell that asks, and waits for the answer (`%tk`).

    Attributes:
        kernel_id: The kernel that it runs in, which runs nothing else meanwhile.
        error: The error that it asks about, with its traceback; empty where it asks about none.
    """

    kernel_id: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is ready to be sent.

    Attributes:
        request: What the person sent.
        notebook: The path below the root that it is about, or None.
        model: The model that answers.
        asking: The running cell that sends it, or None.
        replaces: The turns that it takes the place of, the first first.
    """

    request: ChatRequest
    notebook: str | None
    model: str
    asking: AskingCell | None = None
    replaces: tuple[str, ...] = ()


def parse_request(body: dict[str, Any]) -> ChatRequest:
    """The request of a JSON body.

    Raises:
        InvalidArguments: names each field that is wrong, and why.
    """
    return parsed(ChatRequest, body, "The message cannot be sent")


def parse_plan_answer(body: dict[str, Any]) -> PlanAnswer:
    """The answer to a plan of a JSON body.

    Raises:
        InvalidArguments: names each field that is wrong, and why.
    """
    return parsed(PlanAnswer, body, "This does not answer a plan")
