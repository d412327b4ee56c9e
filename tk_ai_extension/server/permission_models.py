"""Models of permission requests and standing approvals; part of `server.models`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field
from typing_extensions import TypedDict

from tk_ai_extension.model.proposals import Proposal
from tk_ai_extension.workspace.permission_requests import Answer, Effect, Outcome
from tk_ai_extension.workspace.permissions import MAX_MESSAGE, StandingInfo


class PermissionAnswer(BaseModel):
    """A person's answer; with `deny` an optional message to the caller."""

    model_config = ConfigDict(extra="forbid", strict=True)

    answer: Answer
    message: Annotated[str, Field(max_length=MAX_MESSAGE)] = ""


class PermissionInfo(TypedDict):
    """A permission request.

    Attributes:
        author: Name of the caller.
        caller: Key of a caller without a name.
        chat: Id of the chat whose call it is, also if code in its kernel calls.
        interface: The interface of the call.
        proposal: The diff or the code.
        preview: The proposal as plain text.
        created: Seconds since the epoch.
        within_call: Whether somebody is asked in the call's chat or by its client.
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


class StandingList(TypedDict):
    """The standing approvals."""

    approvals: list[StandingInfo]


class Answered(TypedDict):
    """A request that was answered."""

    id: str
    answer: Answer


class PermissionsWaiting(TypedDict):
    """The pending requests; first event of a stream."""

    kind: Literal["waiting"]
    permissions: list[PermissionInfo]


class PermissionRequested(TypedDict):
    """A new pending request."""

    kind: Literal["asked"]
    permission: PermissionInfo


class PermissionSettled(TypedDict):
    """A request is no longer pending.

    Attributes:
        outcome: The user's answer, over any interface; or it expired; or its caller disconnected.
    """

    kind: Literal["settled"]
    id: str
    outcome: Outcome


PermissionEvent = Annotated[
    PermissionsWaiting | PermissionRequested | PermissionSettled, Discriminator("kind")
]
