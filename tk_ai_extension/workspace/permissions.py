"""Permissions: the permission modes, asking a person, and remembered approvals."""

from __future__ import annotations

import asyncio
import builtins
import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from typing_extensions import TypedDict

from tk_ai_extension.model.callers import Caller, EmitEvent, Mode
from tk_ai_extension.model.errors import (
    Conflict,
    InvalidArguments,
    LimitReached,
    NotFound,
    PermissionDenied,
    PermissionRequired,
)
from tk_ai_extension.model.proposals import MAX_SHOWN, Proposal
from tk_ai_extension.notebooks.notebook import Notebook, Notebooks
from tk_ai_extension.workspace.permission_requests import (
    Answer,
    ApprovalScope,
    Effect,
    Outcome,
    PermissionEvent,
    PermissionFeed,
    PermissionReply,
    PermissionRequest,
    is_at,
)

MAX_APPROVALS = 1_000
"""Maximum remembered approvals. The oldest is forgotten first; then the person is asked again."""


class StandingApprovalInfo(TypedDict):
    """A standing approval.

    Attributes:
        tool: The only tool that it applies to; None for all tools of the effect.
        notebook: The notebook that it applies to; None if it applies to a caller.
        caller: The key of the caller that it applies to, for a chat its id; None for a notebook.
        author: The display name of the caller that asked.
        interface: The interface of that caller.
        created: Seconds since the epoch.
    """

    id: str
    effect: Effect
    tool: str | None
    notebook: str | None
    caller: str | None
    author: str
    interface: str
    created: float


@dataclass(frozen=True, slots=True)
class _Given:
    """An approval for a notebook, or, without a notebook, for the session of a caller."""

    caller: Caller
    effect: Effect
    notebook: Notebook | None
    tool: str | None
    id: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)
    created: float = field(default_factory=time.time, compare=False)

    def is_of(self, caller: Caller) -> bool:
        """Return whether it is for the session of a caller."""
        if self.notebook is not None or caller.key is None:
            return False
        return self.caller.identity == caller.identity


class StandingApprovals:
    """Approvals for a caller's session or for a notebook, kept in memory.

    Each applies to one effect, and to all tools or to one.
    """

    def __init__(self) -> None:
        self._given: list[_Given] = []

    def add(
        self,
        caller: Caller,
        effect: Effect,
        *,
        notebook: Notebook | None,
        tool: str | None,
    ) -> None:
        """Add an approval.

        Args:
            caller: The caller that asked.
            effect: The effect of the calls.
            notebook: The notebook that it applies to; None for the caller's session.
            tool: The only tool that it applies to; None for all.
        """
        given = _Given(caller, effect, notebook, tool)
        self._given = [each for each in self._given if each != given][1 - MAX_APPROVALS :]
        self._given.append(given)

    def applies(
        self,
        caller: Caller,
        effect: Effect,
        *,
        notebook: Notebook | None,
        tool: str | None,
        scope: ApprovalScope,
    ) -> bool:
        """Return whether a call is approved.

        Args:
            caller: The caller.
            effect: The effect of the call.
            notebook: The notebook that it concerns; None for none or several.
            tool: The tool; None if it is not known, so that no approval of one tool applies.
            scope: Which approvals count; see `PermissionRequest.scope`.
        """
        tools: list[str | None] = [None] if scope != "tool" else []
        if tool is not None and scope != "effect":
            tools.append(tool)
        return any(
            given.tool in tools
            and (given.caller.user, given.effect) == (caller.user, effect)
            and (given.is_of(caller) or (notebook is not None and given.notebook is notebook))
            for given in self._given
        )

    def list(self, user: str) -> builtins.list[StandingApprovalInfo]:
        """Return a user's approvals, oldest first."""
        return [
            {
                "id": given.id,
                "effect": given.effect,
                "tool": given.tool,
                "notebook": None if given.notebook is None else given.notebook.path,
                "caller": given.caller.key if given.notebook is None else None,
                "author": given.caller.author,
                "interface": given.caller.interface,
                "created": given.created,
            }
            for given in self._given
            if given.caller.user == user
            and not (given.notebook is not None and given.notebook.is_deleted)
        ]

    def remove(self, user: str, approval_id: str) -> None:
        """Remove one of a user's approvals.

        Raises:
            NotFound: The user has no approval of that id.
        """
        for given in self._given:
            if (given.caller.user, given.id) == (user, approval_id):
                self._given.remove(given)
                return
        raise NotFound(f"You have no standing approval `{approval_id[:80]}`.")

    def forget(self, caller: Caller) -> None:
        """Remove a caller's approvals after its session has ended."""
        self._given = [given for given in self._given if not given.is_of(caller)]

    def forget_notebook(self, notebook: Notebook) -> None:
        """Remove the approvals for a notebook."""
        self._given = [given for given in self._given if given.notebook is not notebook]


MODES: tuple[Mode, ...] = ("plan", "ask", "edit", "auto")
"""The modes, strictest first."""

MAX_MESSAGE = 2_000
"""Maximum characters of a message with a denial."""
MAX_PENDING = 100
"""Maximum pending requests of one user."""
KEEP_SECONDS = 3600.0
"""Seconds until a pending request expires."""


class PermissionDecision(Enum):
    """The decision of a mode about a call."""

    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


_DECISIONS: Mapping[tuple[Mode, Effect], PermissionDecision] = {
    ("plan", "READ"): PermissionDecision.RUN,
    ("plan", "WRITE"): PermissionDecision.REFUSE,
    ("plan", "EXECUTE"): PermissionDecision.REFUSE,
    ("ask", "READ"): PermissionDecision.RUN,
    ("ask", "WRITE"): PermissionDecision.ASK,
    ("ask", "EXECUTE"): PermissionDecision.ASK,
    ("edit", "READ"): PermissionDecision.RUN,
    ("edit", "WRITE"): PermissionDecision.RUN,
    ("edit", "EXECUTE"): PermissionDecision.ASK,
    ("auto", "READ"): PermissionDecision.RUN,
    ("auto", "WRITE"): PermissionDecision.RUN,
    ("auto", "EXECUTE"): PermissionDecision.RUN,
}


def decide(mode: Mode, effect: Effect) -> PermissionDecision:
    """Return the decision of a mode about an effect.

    >>> decide("edit", "EXECUTE")
    <PermissionDecision.ASK: 'ask'>
    """
    return _DECISIONS[mode, effect]


def capped(mode: Mode, cap: Mode) -> Mode:
    """Return the stricter of a caller's mode and an administrator's cap.

    >>> capped("auto", "ask")
    'ask'
    """
    return MODES[min(MODES.index(mode), MODES.index(cap))]


class Approver(Protocol):
    """Asks a person during a call. The composition root provides it for interfaces that can ask."""

    async def ask(self, request: PermissionRequest) -> PermissionReply | None:
        """Show the request and return the answer; None if no person can be asked during this call.

        It is cancelled if the request is answered elsewhere (`PermissionPolicy.answer`), so an
        approver may just show the request and wait.
        """
        ...


class PermissionPolicy:
    """Decides in the server whether a call may run, independent of checks by the client or the agent.

    Approvals are kept in memory. After a restart, people are asked again.

    Args:
        cap: The most permissive mode for any caller.
        notebooks: The notebooks by path.
        max_pending: Maximum pending requests of one user.
        keep_seconds: Seconds until a pending request expires.
        where: Where people answer, for the hint of the error; ``{id}`` is replaced by the request's
            id.
    """

    def __init__(
        self,
        cap: Mode = "auto",
        *,
        notebooks: Notebooks | None = None,
        where: str = "in the panel",
        max_pending: int = MAX_PENDING,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        self.emit: EmitEvent = lambda *_: None
        """Emits an event for each outcome; the composition root sets it."""
        self._cap: Mode = cap
        self._notebooks = Notebooks() if notebooks is None else notebooks
        self._max_pending = max_pending
        self._keep = keep_seconds
        self._where = where
        self._pending: dict[str, PermissionRequest] = {}
        # Requests that an approver asks during the call, with the answer from another interface.
        # The answer is None if the notebook is gone.
        self._asking: dict[str, asyncio.Future[PermissionReply | None]] = {}
        # Answers for one exact call (identity, hash), with its notebook, consumed when the call is
        # repeated.
        self._once: OrderedDict[tuple[str, str], tuple[PermissionReply, Notebook | None]] = (
            OrderedDict()
        )
        self.standing = StandingApprovals()
        self._feed = PermissionFeed()

    def mode(self, caller: Caller) -> Mode:
        """Return the effective mode of a caller: its mode, limited by the administrator's cap."""
        return capped(caller.mode, self._cap)

    def decision(
        self,
        caller: Caller,
        effect: Effect,
        notebook: str | None,
        *,
        tool: str | None = None,
        scope: ApprovalScope = "any",
    ) -> PermissionDecision:
        """Return the decision about a call, including standing approvals.

        Args:
            caller: The caller.
            effect: The effect of the call.
            notebook: The notebook that it concerns; None for none or several.
            tool: The tool; None if it is not known.
            scope: Which standing approvals apply.
        """
        mode = self.mode(caller)
        decision = decide(mode, effect)
        if decision is PermissionDecision.ASK and self.standing.applies(
            caller,
            effect,
            notebook=None if notebook is None else self._notebooks.find(notebook),
            tool=tool,
            scope=scope,
        ):
            return PermissionDecision.RUN
        return decision

    async def check(
        self,
        caller: Caller,
        tool: str,
        effect: Effect,
        *,
        arguments: Mapping[str, Any],
        proposal: Proposal,
        approver: Approver | None = None,
        scope: ApprovalScope = "any",
    ) -> None:
        """Check that a call may run now, and ask a person if the mode requires it.

        Args:
            caller: The caller.
            tool: The tool's name.
            effect: The effect of the call.
            arguments: The exact arguments of the call.
            proposal: The whole proposal. Standing approvals are looked up for its notebook.
            approver: Asks a person during the call; None if the interface cannot.
            scope: Which standing approvals apply, and can be given.

        Raises:
            PermissionDenied: The mode forbids the call, or a person denied it.
            PermissionRequired: A person must approve the call, and none could be asked during it.
                ``details["permission_id"]`` is the request's id. Repeating the call before the
                answer returns the same id.
            LimitReached: The call is too large to be shown whole, or the user has too many pending
                requests.
            Conflict: The notebook was renamed or deleted before the answer.
        """
        mode = self.mode(caller)
        decision = self.decision(
            caller,
            effect,
            proposal.notebook,
            tool=tool,
            scope=scope,
        )
        if decision is PermissionDecision.RUN:
            return
        if decision is PermissionDecision.REFUSE:
            raise PermissionDenied(
                f"{tool} is not allowed in {mode} mode, which only reads.",
                hint="Describe what you would do, or ask the user to change the mode.",
                mode=mode,
            )
        digest = _arguments_hash(tool, effect, arguments, proposal)
        reply, about = self._once.pop((caller.identity, digest), (None, None))
        if reply is None or not is_at(about, proposal.notebook):
            request = self._request(
                caller,
                tool=tool,
                effect=effect,
                proposal=proposal,
                digest=digest,
                within_call=approver is not None,
                scope=scope,
            )
            reply = None if approver is None else await self._ask(approver, request)
            if reply is None:
                raise PermissionRequired(
                    f"{tool} needs the user's approval in {mode} mode.",
                    hint=f"Ask the user to answer the request {self._where.format(id=request.id)}, "
                    "then repeat the call unchanged.",
                    permission_id=request.id,
                    mode=mode,
                )
        if reply.answer == "deny":
            raise _denied(tool, mode, reply.message)

    def pending(self, user: str) -> list[PermissionRequest]:
        """Return the pending requests of a user, oldest first."""
        self._expire()
        return [request for request in self._pending.values() if request.caller.user == user]

    def asking(self) -> list[PermissionRequest]:
        """Return the pending requests of all users for which a call waits."""
        return [each for id_, each in self._pending.items() if id_ in self._asking]

    def follow(self, user: str) -> AsyncGenerator[PermissionEvent]:
        """Yield the events of a user's requests, beginning with the pending ones.

        Events are coalesced, so a slow subscriber needs no more memory than the pending requests.
        """
        return self._feed.follow(user, lambda: self.pending(user))

    def answer(self, user: str, permission_id: str, answer: Answer, message: str = "") -> None:
        """Record a person's answer to one of their requests.

        Raises:
            NotFound: The user has no pending request of that id.
            InvalidArguments: The answer is not valid for this request
                (`PermissionRequest.answers`), or the message is too long or without a denial.
        """
        self._expire()
        request = self._pending.get(permission_id)
        if request is None or request.caller.user != user:
            raise NotFound(
                f"You have no pending request `{permission_id}`.",
                hint="It was answered, has expired, or was withdrawn. List the pending ones.",
            )
        reply = PermissionReply(answer, message)
        self._settle(request, reply)
        asking = self._asking.get(permission_id)
        if asking is not None and not asking.done():
            asking.set_result(reply)
        elif answer in ("once", "deny"):
            self._once[request.caller.identity, request.arguments_hash] = reply, request.about
            self._bound(self._once)

    def forget(self, caller: Caller) -> None:
        """Remove a caller's requests and approvals after its session has ended.

        Approvals for notebooks stay.
        """
        for request in list(self._pending.values()):
            if request.caller.identity == caller.identity and request.id not in self._asking:
                self._end(request, "withdrawn")
        for identity, digest in list(self._once):
            if identity == caller.identity:
                del self._once[identity, digest]
        self.standing.forget(caller)

    def withdraw_outdated(self) -> None:
        """End the requests about notebooks that were renamed or deleted. Call it after each such event."""
        for request in list(self._pending.values()):
            if request.is_outdated:
                self._end(request, "withdrawn")
                asking = self._asking.get(request.id)
                if asking is not None and not asking.done():
                    asking.set_result(None)

    def _request(
        self,
        caller: Caller,
        *,
        tool: str,
        effect: Effect,
        proposal: Proposal,
        digest: str,
        within_call: bool,
        scope: ApprovalScope,
    ) -> PermissionRequest:
        """Return the pending request for exactly this call, or a new one."""
        mine = self.pending(caller.user)
        for request in mine:
            # A request that is asked during a call applies only to that call.
            if (
                request.caller.identity == caller.identity
                and request.arguments_hash == digest
                and request.id not in self._asking
            ):
                return request
        if proposal.size > MAX_SHOWN:
            raise LimitReached(
                f"{tool} needs the user's approval, and {proposal.size:,} characters are more than "
                f"a person is asked to read at once ({MAX_SHOWN:,}).",
                hint="Split it into smaller calls.",
            )
        if len(mine) >= self._max_pending:
            raise LimitReached(
                f"{caller.user} already has {len(mine)} pending permission requests.",
                hint=f"Ask the user to answer them {self._where.format(id='ID')}.",
            )
        request = PermissionRequest(
            # Hexadecimal, because people type it on command lines, where `-` begins an option.
            id=secrets.token_hex(8),
            caller=caller,
            tool=tool,
            effect=effect,
            notebook=proposal.notebook,
            proposal=proposal,
            arguments_hash=digest,
            created=time.time(),
            within_call=within_call,
            scope=scope,
            about=None if proposal.notebook is None else self._notebooks.at(proposal.notebook),
        )
        self._pending[request.id] = request
        self._feed.asked(request)
        # Clients that show it get an event when it expires.
        asyncio.get_running_loop().call_later(self._keep, self._expire)
        return request

    async def _ask(self, approver: Approver, request: PermissionRequest) -> PermissionReply | None:
        """Return the first answer: the approver's, or one from `answer`."""
        answered: asyncio.Future[PermissionReply | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._asking[request.id] = answered
        asking = asyncio.ensure_future(approver.ask(request))
        try:
            await asyncio.wait((asking, answered), return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return _given(request, answered.result())
            reply = asking.result()
            if reply is not None:
                self._settle(request, reply)
            return reply
        except BaseException:
            # The call was cancelled.
            self._end(request, "withdrawn")
            raise
        finally:
            del self._asking[request.id]
            asking.cancel()
            await asyncio.wait((asking,))

    def _settle(self, request: PermissionRequest, reply: PermissionReply) -> None:
        answer = reply.answer
        if answer not in request.answers:
            raise InvalidArguments(
                f"Invalid answer `{answer}`; expected one of {', '.join(request.answers)}."
            )
        if reply.message and answer != "deny":
            raise InvalidArguments("A message is only allowed with `deny`.")
        if len(reply.message) > MAX_MESSAGE:
            raise InvalidArguments(f"The message is longer than {MAX_MESSAGE:,} characters.")
        self._end(request, answer)
        if answer not in ("once", "deny"):
            place, _, only = answer.partition("_")
            self.standing.add(
                request.caller,
                request.effect,
                notebook=request.about if place == "notebook" else None,
                tool=request.tool if only else None,
            )

    def _bound(self, approvals: OrderedDict[Any, Any]) -> None:
        while len(approvals) > MAX_APPROVALS:
            approvals.popitem(last=False)

    def _end(self, request: PermissionRequest, outcome: Outcome) -> None:
        """Remove a pending request and publish its outcome."""
        if self._pending.pop(request.id, None) is not None:
            self._feed.settled(request, outcome)
            self.emit("approval", request.caller, request.notebook or "", request.tool, outcome)

    def _expire(self) -> None:
        oldest = time.time() - self._keep
        for request in list(self._pending.values()):
            if request.created <= oldest and request.id not in self._asking:
                self._end(request, "expired")


def _given(request: PermissionRequest, reply: PermissionReply | None) -> PermissionReply:
    """Return the answer to a request of a call.

    Raises:
        Conflict: The notebook no longer exists.
    """
    if reply is None:
        raise Conflict(
            f"{request.notebook} was renamed or deleted before the answer.",
            hint="Nothing was done. See list_notebooks, then call again.",
        )
    return reply


def _denied(tool: str, mode: Mode, message: str) -> PermissionDenied:
    if not message.strip():
        return PermissionDenied(f"The user denied {tool}.", mode=mode)
    return PermissionDenied(
        f"The user denied {tool}: {message.strip()}",
        hint="Follow the user's message.",
        mode=mode,
        user_message=message.strip(),
    )


def _arguments_hash(
    tool: str, effect: Effect, arguments: Mapping[str, Any], proposal: Proposal
) -> str:
    # Imported late: it would take a tenth of the time budget of the server's start.
    from pydantic_core import to_jsonable_python

    exact = json.dumps(
        [tool, effect, to_jsonable_python(dict(arguments)), proposal.digest()], sort_keys=True
    )
    return hashlib.blake2b(exact.encode(), digest_size=16).hexdigest()
