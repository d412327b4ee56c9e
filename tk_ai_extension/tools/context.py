"""What a tool takes and gives: its context, types of parameters, plans and results.

Descriptions of parameters are short: each one costs the model tokens.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from pydantic_core import PydanticSerializationError

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.encoding import encodable, encodable_text
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.proposals import Proposal
from tk_ai_extension.workspace.permission_requests import Approval
from tk_ai_extension.workspace.permissions import Approver
from tk_ai_extension.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Image:
    """An image for a model: base64 data and its MIME type (image/png or image/jpeg)."""

    data: str
    mime: str


class Result(BaseModel):
    """Base class of every tool's result.

    The fields are the structured result; their JSON schema is the tool's output schema. `as_text`
    renders the same result compactly, with all that a model needs.

    >>> class Greeting(Result):
    ...     name: str
    ...
    ...     def as_text(self) -> str:
    ...         return f"Hello, {self.name}."
    >>> greeting = Greeting(name="Ada", notices=["The kernel was restarted."])
    >>> print(greeting.full_text())
    Note: The kernel was restarted.
    Hello, Ada.
    >>> Greeting(name="Ada").structured()
    {'name': 'Ada'}
    """

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")

    notices: list[str] = Field(default_factory=list[str])
    """Notes for the caller, for example that a kernel's variables are lost."""

    _images: tuple[Image, ...] = PrivateAttr(default=())

    def as_text(self) -> str:
        """Return the result as compact text, without the notices."""
        raise TypeError(f"{type(self).__name__} has no text")

    @property
    def is_error(self) -> bool:
        """Whether the result reports a failure, for example an execution that did not end ok."""
        return False

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of the result."""
        return self._images

    def with_images(self, images: tuple[Image, ...]) -> Result:
        """Set the images and return the same result."""
        self._images = images
        return self

    def full_text(self) -> str:
        """Return the compact text, after the notices."""
        notes = (f"Note: {notice}" for notice in self.notices)
        return encodable_text("\n".join([*notes, self.as_text()]))

    def structured(self) -> Json:
        """Return the result as JSON values, without None values and empty notices."""
        try:
            data: Json = json.loads(self.model_dump_json(exclude_none=True))
        except (PydanticSerializationError, UnicodeError):  # A text with a lone surrogate.
            data = encodable(self.model_dump(mode="json", exclude_none=True))
        if not self.notices:
            del data["notices"]
        return data


ProgressSink = Callable[[str], Awaitable[None]]
"""Receives a line of text that describes the progress of a call."""


class ToolCalls(Protocol):
    """Calls tools by name; implemented by `Registry`."""

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Call a tool; see `Registry.call`."""
        ...


async def _no_progress(_message: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of one tool call: the workspace, the caller, and ways to reach the caller.

    Attributes:
        workspace: The notebooks, kernels, journal and permissions of this server.
        caller: The caller.
        progress: Reports progress to the caller; does nothing if the interface has no progress.
        approver: Asks a person during the call; None if nobody can be asked.
        gone: Set when the client has disconnected. The call continues, but its result counts as
            not received.
        approval: The approval of this call; None if none was needed. Code that changed after the
            approval does not run.
        tools: The registry that the call came through, for tools whose code calls other tools.
    """

    workspace: Workspace
    caller: Caller
    progress: ProgressSink = _no_progress
    approver: Approver | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    approval: Approval | None = None
    tools: ToolCalls | None = None

    def current_path(self, notebook: str | None) -> str | None:
        """Return the path of the named or current notebook, which may not exist; None if there is none.

        Raises:
            PathRefused: The path is outside the root or hidden.
            InvalidArguments: The path does not end in ``.ipynb``.
        """
        workspace = self.workspace
        managed = workspace.notebooks.resolve(self.caller, notebook)
        if managed is not None:
            return managed.path
        return None if notebook is None else workspace.contain(notebook)


Notebook = Annotated[
    str | None, Field(min_length=1, description="path or name (default: the current one)")
]
"""A path below the root, a managed name, or None for the caller's current notebook."""

_CELL = "id or its prefix, index, or `id.version`"

Address = Annotated[str | int, Field(union_mode="left_to_right", description=_CELL)]
"""A cell: id, ``cell-N``, index, unique prefix of an id, or a versioned address."""

MaybeAddress = Annotated[str | int | None, Field(union_mode="left_to_right")]

MaybeRanges = Annotated[str | None, Field(description="such as `0-3,7,@318a,-1`")]

MAX_INTEGER = 2**63 - 1
"""The largest integer that SQLite stores."""
Entry = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
"""The number of a journal entry."""

CellKind = Literal["code", "markdown", "raw"]

Wait = Annotated[float, Field(ge=0, le=3600, description="seconds to wait for the end")]
Timeout = Annotated[float | None, Field(gt=0, description="seconds until the code is interrupted")]


class Plan(Protocol):
    """What a call will do, computed before it changes anything.

    A tool with ``carry_out`` returns a plan. If the mode requires approval, a person is shown its
    proposal; then the same plan is executed. A plan is bound to the sources that it was made for, so it
    fails with a conflict instead of changing other sources.

    >>> from tk_ai_extension.model.proposals import ProposalStep
    >>> class Greet:
    ...     def proposal(self) -> Proposal:
    ...         return Proposal("Greet Ada", (ProposalStep("arguments", "Greet Ada"),))
    >>> plan: Plan = Greet()
    >>> plan.proposal().as_text()
    'Greet Ada'
    """

    def proposal(self) -> Proposal:
        """Return everything that the call will do, for the person who approves it.

        `tools.registry` adds the kernel of the notebook.
        """
        ...
