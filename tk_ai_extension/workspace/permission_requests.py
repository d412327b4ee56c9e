"""Permission requests, a feed of their events for clients that show them, and approvals of calls."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import source_hash
from tk_ai_extension.model.errors import ApprovalOutdated, Conflict
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.proposals import Proposal, visible
from tk_ai_extension.notebooks.notebook import Notebook

Effect = Literal["READ", "WRITE", "EXECUTE"]
"""The effect of a tool call."""

Answer = Literal["once", "chat", "chat_tool", "notebook", "notebook_tool", "deny"]
"""A person's answer: approve once, in this chat, or in this notebook; or deny. Approvals in a chat or a
notebook apply to all tools with the effect of the call; with ``_tool`` only to the tool of the call."""

ApprovalScope = Literal["any", "effect", "tool"]
"""Which standing approvals apply to a call: any, only those for all tools, or only those for the tool."""


@dataclass(frozen=True, slots=True)
class PermissionReply:
    """A person's answer to a request.

    Attributes:
        answer: The answer.
        message: A message for the caller; only with ``deny``.
    """

    answer: Answer
    message: str = ""


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A call that needs a person's approval.

    Attributes:
        id: A random id, which grants nothing.
        caller: The caller.
        tool: The tool's name.
        effect: The effect of the call.
        notebook: The path of the notebook that it concerns, or None.
        about: That notebook.
        proposal: What the call will do: the whole diff or code.
        arguments_hash: A hash over the tool, its exact arguments, and the whole proposal with its
            notebook, kernel, cells and sources. An approval applies only to this.
        created: The time in seconds since the epoch.
        within_call: Whether a person is asked during the call, in its chat or by its client.
        scope: Which standing approvals apply. ``effect`` for actions without a lasting name, ``tool``
            for tools of other servers, which an approval of notebook tools must not include.
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
    scope: ApprovalScope = "any"
    about: Notebook | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether its notebook was renamed or deleted since: another notebook may have its path."""
        return not is_at(self.about, self.notebook)

    @property
    def preview(self) -> str:
        """The proposal as plain text."""
        return self.proposal.as_text()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The valid answers: ``chat`` requires a caller with a key, ``notebook`` a notebook."""
        answers: list[Answer] = ["once"]
        if self.caller.key is not None:
            answers += _scoped(self.scope, "chat", "chat_tool")
        if self.notebook is not None:
            answers += _scoped(self.scope, "notebook", "notebook_tool")
        return (*answers, "deny")

    def as_dict(self) -> Json:
        """Return the request as JSON for a person, with hidden characters written out."""
        return {
            "id": self.id,
            "author": visible(self.caller.author),
            # A caller without a name is identified by its key.
            "caller": None if self.caller.name else self.caller.key and visible(self.caller.key),
            "chat": self.caller.key if self.caller.interface == "chat" else None,
            "interface": self.caller.interface,
            "tool": self.tool,
            "effect": self.effect,
            "notebook": self.notebook and visible(self.notebook),
            "proposal": self.proposal.as_dict(),
            "preview": self.preview,
            "answers": list(self.answers),
            "created": self.created,
            "within_call": self.within_call,
        }


def is_at(notebook: Notebook | None, path: str | None) -> bool:
    """Return whether a notebook is still at the path that a request was about."""
    return notebook is None or (notebook.path == path and not notebook.is_deleted)


def _scoped(scope: ApprovalScope, effect: Answer, tool: Answer) -> list[Answer]:
    return [*([effect] if scope != "tool" else []), *([tool] if scope != "effect" else [])]


Outcome = Literal[
    "once", "chat", "chat_tool", "notebook", "notebook_tool", "deny", "expired", "withdrawn"
]
"""Why a request is no longer pending: the user answered, it expired, or the call was cancelled."""


@dataclass(frozen=True, slots=True)
class PendingRequests:
    """The pending requests, oldest first. It is the first event of a stream."""

    kind: ClassVar[Literal["waiting"]] = "waiting"
    requests: tuple[PermissionRequest, ...]

    def as_dict(self) -> Json:
        """Return the event as JSON."""
        return {"kind": self.kind, "permissions": [each.as_dict() for each in self.requests]}


@dataclass(frozen=True, slots=True)
class RequestAdded:
    """A request was added."""

    kind: ClassVar[Literal["asked"]] = "asked"
    request: PermissionRequest

    def as_dict(self) -> Json:
        """Return the event as JSON."""
        return {"kind": self.kind, "permission": self.request.as_dict()}


@dataclass(frozen=True, slots=True)
class RequestSettled:
    """A request is no longer pending."""

    kind: ClassVar[Literal["settled"]] = "settled"
    id: str
    outcome: Outcome

    def as_dict(self) -> Json:
        """Return the event as JSON."""
        return {"kind": self.kind, "id": self.id, "outcome": self.outcome}


PermissionEvent = PendingRequests | RequestAdded | RequestSettled


class _Subscriber:
    """A subscriber and its undelivered events.

    Events are coalesced: a request that was added and settled before delivery is dropped. So the
    number of undelivered events is bounded by the number of pending requests.
    """

    def __init__(self, user: str) -> None:
        self.user = user
        self.events: OrderedDict[str, RequestAdded | RequestSettled] = OrderedDict()
        self.changed = asyncio.Event()

    def put(self, key: str, event: RequestAdded | RequestSettled) -> None:
        if isinstance(self.events.pop(key, None), RequestAdded):
            return
        self.events[key] = event
        self.changed.set()


class PermissionFeed:
    """Publishes events of a user's permission requests to subscribers."""

    def __init__(self) -> None:
        self._subscribers: set[_Subscriber] = set()

    def asked(self, request: PermissionRequest) -> None:
        """Publish that a request was added."""
        self._publish(request, RequestAdded(request))

    def settled(self, request: PermissionRequest, outcome: Outcome) -> None:
        """Publish that a request is no longer pending."""
        self._publish(request, RequestSettled(request.id, outcome))

    async def follow(
        self, user: str, waiting: Callable[[], list[PermissionRequest]]
    ) -> AsyncGenerator[PermissionEvent]:
        """Yield the events of a user's requests, beginning with the pending ones.

        Args:
            user: The user.
            waiting: Returns the pending requests.
        """
        subscriber = _Subscriber(user)
        requests = tuple(waiting())
        self._subscribers.add(subscriber)
        try:
            yield PendingRequests(requests)
            while True:
                while subscriber.events:
                    yield subscriber.events.popitem(last=False)[1]
                subscriber.changed.clear()
                await subscriber.changed.wait()
        finally:
            self._subscribers.discard(subscriber)

    def _publish(self, request: PermissionRequest, event: RequestAdded | RequestSettled) -> None:
        for subscriber in self._subscribers:
            if subscriber.user == request.caller.user:
                subscriber.put(request.id, event)


@dataclass(frozen=True)
class CallApproval:
    """A person's approval of one call, bound to its notebook, kernel and sources.

    Attributes:
        proposal: The whole proposal that the person approved.
    """

    proposal: Proposal

    @cached_property
    def _sources(self) -> frozenset[str]:
        return frozenset(source_hash(step.code) for step in self.proposal.steps if step.runs)

    def check_kernel(self, kernel_id: str, *, started: bool) -> None:
        """Check that a call will use the approved kernel, before it changes anything.

        Args:
            kernel_id: The kernel that the call will use.
            started: Whether the kernel was started for this call.

        Raises:
            ApprovalOutdated: The person approved another kernel.
        """
        kernel = self.proposal.kernel
        shown = None if kernel is None else kernel.id
        if shown != (None if started else kernel_id):
            raise ApprovalOutdated("The kernel was replaced before the user answered.")

    def check_run(self, path: str | None, sources: Iterable[str]) -> None:
        """Check that only the approved code will run, in the approved notebook.

        Raises:
            Conflict: The code or the notebook is not the approved one.
        """
        if path != self.proposal.notebook or not self._sources.issuperset(
            map(source_hash, sources)
        ):
            raise Conflict(
                "The code changed after the user approved it. It did not run.",
                hint="Read it, then call again.",
            )
