"""Requests for permission, and what becomes of them as it happens, for those who show them to a person."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.proposals import Proposal

Effect = Literal["READ", "WRITE", "EXECUTE"]
"""What a tool does to the world."""

Answer = Literal["once", "chat", "notebook", "deny"]
"""What a person says to a request: this once, from this chat, in this notebook, or no."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A person's answer to a request.

    Attributes:
        answer: The answer.
        message: What they say besides; only with ``deny``. The caller reads it.
    """

    answer: Answer
    message: str = ""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call that needs a person's approval.

    Attributes:
        id: Random; names the request, and is no authority.
        caller: Who wants to act.
        tool: The tool's name.
        effect: What it does.
        notebook: The path it concerns, or None.
        proposal: What will happen, as the person is shown it: the diff, or the code. Cut, and
            saying so (`Proposal.omitted`), where it is very long.
        arguments_hash: Over the tool, its exact arguments, and the whole proposal with its
            notebook, kernel, cells and sources: an approval allows this and nothing else.
        created: Seconds since the epoch.
        within_call: Whether somebody is asked within the call: in its chat, or by its client.
    """

    id: str
    caller: Caller
    tool: str
    effect: Effect
    notebook: str | None
    proposal: Proposal
    arguments_hash: str
    created: float
    within_call: bool = False

    @property
    def preview(self) -> str:
        """The proposal as plain text."""
        return self.proposal.as_text()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers that mean something here: a chat takes a key, a notebook takes a path."""
        chat: tuple[Answer, ...] = () if self.caller.key is None else ("chat",)
        notebook: tuple[Answer, ...] = () if self.notebook is None else ("notebook",)
        return ("once", *chat, *notebook, "deny")

    def as_dict(self) -> dict[str, Any]:
        """The request as JSON, for whoever shows it to a person."""
        return {
            "id": self.id,
            "author": self.caller.author,
            # Of one without a name that is all there is to know them by.
            "caller": None if self.caller.name else self.caller.key,
            "face": self.caller.interface,
            "tool": self.tool,
            "effect": self.effect,
            "notebook": self.notebook,
            "proposal": self.proposal.as_dict(),
            "preview": self.preview,
            "answers": list(self.answers),
            "created": self.created,
            "within_call": self.within_call,
        }


Outcome = Literal["once", "chat", "notebook", "deny", "expired", "withdrawn"]
"""Why a request waits no more: its user's answer, nobody's for too long, or its caller is gone."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The requests that wait just now, the oldest first: what a stream begins with."""

    kind: ClassVar[Literal["waiting"]] = "waiting"
    requests: tuple[PermissionRequest, ...]

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON."""
        return {"kind": self.kind, "permissions": [each.as_dict() for each in self.requests]}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request waits from now on."""

    kind: ClassVar[Literal["asked"]] = "asked"
    request: PermissionRequest

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON."""
        return {"kind": self.kind, "permission": self.request.as_dict()}


@dataclass(frozen=True, slots=True)
class Settled:
    """A request waits no more."""

    kind: ClassVar[Literal["settled"]] = "settled"
    id: str
    outcome: Outcome

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON."""
        return {"kind": self.kind, "id": self.id, "outcome": self.outcome}


PermissionEvent = Waiting | Asked | Settled


class _Follower:
    """One who listens, and what they have not heard yet.

    That is bounded by how many requests may wait: of one that came and went meanwhile they hear
    nothing, so all that is kept is what waits, and the end of what they were told of.
    """

    def __init__(self, user: str) -> None:
        self.user = user
        self.unheard: OrderedDict[str, Asked | Settled] = OrderedDict()
        self.stirred = asyncio.Event()

    def put(self, key: str, event: Asked | Settled) -> None:
        if isinstance(self.unheard.pop(key, None), Asked):
            return
        self.unheard[key] = event
        self.stirred.set()


class PermissionFeed:
    """Tells those who follow a user's requests what becomes of them."""

    def __init__(self) -> None:
        self._followers: set[_Follower] = set()

    def asked(self, request: PermissionRequest) -> None:
        """A request waits from now on."""
        self._tell(request, Asked(request))

    def settled(self, request: PermissionRequest, outcome: Outcome) -> None:
        """A request waits no more."""
        self._tell(request, Settled(request.id, outcome))

    async def follow(
        self, user: str, waiting: Callable[[], list[PermissionRequest]]
    ) -> AsyncGenerator[PermissionEvent]:
        """What becomes of a user's requests, until nobody asks any more.

        Args:
            user: Whose requests.
            waiting: Lists those that wait now, with which it begins.
        """
        follower = _Follower(user)
        requests = tuple(waiting())
        self._followers.add(follower)
        try:
            yield Waiting(requests)
            while True:
                while follower.unheard:
                    yield follower.unheard.popitem(last=False)[1]
                follower.stirred.clear()
                await follower.stirred.wait()
        finally:
            self._followers.discard(follower)

    def _tell(self, request: PermissionRequest, event: Asked | Settled) -> None:
        for follower in self._followers:
            if follower.user == request.caller.user:
                follower.put(request.id, event)
