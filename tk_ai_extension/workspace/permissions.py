"""Permissions: what a mode lets run, asking a person, and the approvals they gave."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from enum import Enum
from typing import Any, Protocol

from tk_ai_extension.model.callers import Caller, Mode
from tk_ai_extension.model.errors import (
    InvalidArguments,
    LimitReached,
    PermissionDenied,
    PermissionNotFound,
    PermissionRequired,
)
from tk_ai_extension.model.paths import moved
from tk_ai_extension.model.proposals import Proposal
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.workspace.permission_requests import (
    Answer,
    Effect,
    Outcome,
    PermissionEvent,
    PermissionFeed,
    PermissionRequest,
    Reply,
)

MODES: tuple[Mode, ...] = ("plan", "ask", "edit", "auto")
"""The modes, the strictest first."""

MAX_PREVIEW = 20_000
"""Characters of a proposal that a person is shown; the approval is bound to the whole."""
MAX_MESSAGE = 2_000
"""Characters of what a person may say with a denial."""
MAX_PENDING = 100
"""How many requests of one user may wait for an answer."""
KEEP_SECONDS = 3600.0
"""How long a request waits for an answer."""
MAX_APPROVALS = 10_000
"""How many approvals are remembered; the oldest goes first, and is asked for again."""


class Decision(Enum):
    """What becomes of a call under a mode."""

    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


_DECISIONS: Mapping[tuple[Mode, Effect], Decision] = {
    ("plan", "READ"): Decision.RUN,
    ("plan", "WRITE"): Decision.REFUSE,
    ("plan", "EXECUTE"): Decision.REFUSE,
    ("ask", "READ"): Decision.RUN,
    ("ask", "WRITE"): Decision.ASK,
    ("ask", "EXECUTE"): Decision.ASK,
    ("edit", "READ"): Decision.RUN,
    ("edit", "WRITE"): Decision.RUN,
    ("edit", "EXECUTE"): Decision.ASK,
    ("auto", "READ"): Decision.RUN,
    ("auto", "WRITE"): Decision.RUN,
    ("auto", "EXECUTE"): Decision.RUN,
}


def decide(mode: Mode, effect: Effect) -> Decision:
    """What becomes of a tool of this effect in this mode."""
    return _DECISIONS[mode, effect]


def capped(mode: Mode, cap: Mode) -> Mode:
    """The stricter of two modes: what an administrator's cap leaves of a caller's mode."""
    return MODES[min(MODES.index(mode), MODES.index(cap))]


class Approver(Protocol):
    """Asks a person within the call; a composition root fills it in for the faces that can."""

    async def ask(self, request: PermissionRequest) -> Reply | None:
        """Shows the request and waits for the answer.

        It is cancelled when the request is answered elsewhere meanwhile
        (`PermissionPolicy.answer`), so an approver may show it and wait for that. None: nobody can
        be asked within this call.
        """
        ...


class PermissionPolicy:
    """Says whether a call may run, where the tool runs; whatever the model's side asked before.

    Held in memory: after a restart people are asked again.

    Args:
        cap: The most permissive mode that any caller gets.
        max_pending: The bound on unanswered requests of one user.
        max_approvals: The bound on remembered approvals, of each kind.
        keep_seconds: How long a request waits for an answer.
        where: Where people answer, as callers are told it; ``{id}`` stands for the request's id.
    """

    def __init__(
        self,
        cap: Mode = "auto",
        *,
        where: str = "in the panel",
        max_pending: int = MAX_PENDING,
        max_approvals: int = MAX_APPROVALS,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        self._cap: Mode = cap
        self._max_pending = max_pending
        self._max_approvals = max_approvals
        self._keep = keep_seconds
        self._where = where
        self._pending: dict[str, PermissionRequest] = {}
        # Those of them that an approver asks within the call, and the answer by another interface.
        self._asking: dict[str, asyncio.Future[Reply]] = {}
        # Answers to one exact call (identity, hash), used up by it when it comes again.
        self._once: OrderedDict[tuple[str, str], Reply] = OrderedDict()
        # Standing approvals: of a caller (identity), and of a user in a notebook (user, path).
        self._chats: OrderedDict[tuple[str, Effect], None] = OrderedDict()
        self._notebooks: OrderedDict[tuple[str, str, Effect], None] = OrderedDict()
        self._feed = PermissionFeed()
        self._alarm: asyncio.TimerHandle | None = None

    def mode(self, caller: Caller) -> Mode:
        """The mode that holds for a caller: their own under the administrator's cap."""
        return capped(caller.mode, self._cap)

    def decision(self, caller: Caller, effect: Effect, notebook: str | None) -> Decision:
        """What becomes of a call, standing approvals counted in; only ASK needs `check` to ask."""
        decision = decide(self.mode(caller), effect)
        asks = decision is Decision.ASK and not self._stands(caller, effect, notebook)
        return decision if asks or decision is Decision.REFUSE else Decision.RUN

    async def check(
        self,
        caller: Caller,
        tool: str,
        effect: Effect,
        *,
        arguments: Mapping[str, Any],
        proposal: Proposal,
        approver: Approver | None = None,
    ) -> None:
        """Returns if the call may run now.

        Args:
            caller: Who acts.
            tool: The tool's name.
            effect: What it does.
            arguments: Exactly what the tool was given.
            proposal: What it will do, whole, and in which notebook: standing approvals count for
                that one.
            approver: Asks a person within the call, where the face can.

        Raises:
            PermissionDenied: the mode refuses it, or a person said no.
            PermissionRequired: a person has to be asked, and nobody was to be asked within the
                call; ``details["permission_id"]`` names the request. The same call, repeated,
                names the same one until it is answered.
            LimitReached: too many requests of this user are unanswered.
        """
        mode = self.mode(caller)
        decision = self.decision(caller, effect, proposal.notebook)
        if decision is Decision.RUN:
            return
        if decision is Decision.REFUSE:
            raise PermissionDenied(
                f"{tool} is refused in {mode} mode, which only reads.",
                hint="Describe what you would do, or ask the user to leave this mode.",
                mode=mode,
            )
        digest = _arguments_hash(tool, effect, arguments, proposal)
        reply = self._once.pop((caller.identity, digest), None)
        if reply is None:
            request = self._request(
                caller,
                tool=tool,
                effect=effect,
                proposal=proposal,
                digest=digest,
                within_call=approver is not None,
            )
            reply = None if approver is None else await self._ask(approver, request)
            if reply is None:
                raise PermissionRequired(
                    f"{tool} needs the user's approval in {mode} mode.",
                    hint=f"Ask the user to answer the request {self._where.format(id=request.id)}, "
                    "then call again unchanged.",
                    permission_id=request.id,
                    mode=mode,
                )
        if reply.answer == "deny":
            raise _denied(tool, mode, reply.message)

    def pending(self, user: str) -> list[PermissionRequest]:
        """The requests that wait for this user's answer, the oldest first."""
        self._expire()
        return [request for request in self._pending.values() if request.caller.user == user]

    def follow(self, user: str) -> AsyncGenerator[PermissionEvent]:
        """What becomes of this user's requests, until nobody asks any more.

        It begins with those that wait. Whoever listens slowly, or not at all, costs no more than the
        requests that wait.
        """
        return self._feed.follow(user, lambda: self.pending(user))

    def answer(self, user: str, permission_id: str, answer: Answer, message: str = "") -> None:
        """Record a person's answer to one of their own requests.

        Raises:
            PermissionNotFound: nothing of that id waits for this user, or it was answered before.
            InvalidArguments: the answer means nothing for this request
                (`PermissionRequest.answers`), or the message is too long or goes with no denial.
        """
        self._expire()
        request = self._pending.get(permission_id)
        if request is None or request.caller.user != user:
            raise PermissionNotFound(Sentence("answered_already", request=permission_id))
        reply = Reply(answer, message)
        self._settle(request, reply)
        asking = self._asking.get(permission_id)
        if asking is not None and not asking.done():
            asking.set_result(reply)
        elif answer in ("once", "deny"):
            self._once[request.caller.identity, request.arguments_hash] = reply
            self._bound(self._once)

    def forget(self, caller: Caller) -> None:
        """The caller's session is over: its requests and approvals go. Those for notebooks stay."""
        for request in list(self._pending.values()):
            if request.caller.identity == caller.identity and request.id not in self._asking:
                self._end(request, "withdrawn")
        for identity, digest in list(self._once):
            if identity == caller.identity:
                del self._once[identity, digest]
        for identity, effect in list(self._chats):
            if identity == caller.identity:
                del self._chats[identity, effect]

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now; approvals for it follow."""
        for user, path, effect in list(self._notebooks):
            if (now := moved(path, old, new)) is not None:
                del self._notebooks[user, path, effect]
                self._notebooks[user, now, effect] = None

    def _stands(self, caller: Caller, effect: Effect, notebook: str | None) -> bool:
        if caller.key is not None and (caller.identity, effect) in self._chats:
            return True
        return notebook is not None and (caller.user, notebook, effect) in self._notebooks

    def _request(
        self,
        caller: Caller,
        *,
        tool: str,
        effect: Effect,
        proposal: Proposal,
        digest: str,
        within_call: bool,
    ) -> PermissionRequest:
        """The request that waits for this very call already, or a new one."""
        mine = self.pending(caller.user)
        for request in mine:
            # One that is being asked within a call answers that call alone.
            if (
                request.caller.identity == caller.identity
                and request.arguments_hash == digest
                and request.id not in self._asking
            ):
                return request
        if len(mine) >= self._max_pending:
            raise LimitReached(
                f"{len(mine)} requests for permission wait for {caller.user}'s answer already.",
                hint=f"Ask the user to answer them {self._where.format(id='ID')}.",
            )
        request = PermissionRequest(
            # Hexadecimal: it is typed on command lines, where a dash would begin an option.
            id=secrets.token_hex(8),
            caller=caller,
            tool=tool,
            effect=effect,
            notebook=proposal.notebook,
            proposal=proposal.bounded(MAX_PREVIEW),
            arguments_hash=digest,
            created=time.time(),
            within_call=within_call,
        )
        self._pending[request.id] = request
        self._feed.asked(request)
        self._set_alarm()
        return request

    async def _ask(self, approver: Approver, request: PermissionRequest) -> Reply | None:
        """Return the first answer: the approver's, or one by `answer`."""
        answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asking[request.id] = answered
        asking = asyncio.ensure_future(approver.ask(request))
        try:
            await asyncio.wait((asking, answered), return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return answered.result()
            reply = asking.result()
            if reply is not None:
                self._settle(request, reply)
            return reply
        except BaseException:
            # Nobody waits for it any more.
            self._end(request, "withdrawn")
            raise
        finally:
            del self._asking[request.id]
            self._set_alarm()
            asking.cancel()
            await asyncio.wait((asking,))

    def _settle(self, request: PermissionRequest, reply: Reply) -> None:
        answer = reply.answer
        if answer not in request.answers:
            raise InvalidArguments(
                f"Invalid answer `{answer}`; expected one of {', '.join(request.answers)}."
            )
        if reply.message and answer != "deny":
            raise InvalidArguments("A message goes with `deny` only.")
        if len(reply.message) > MAX_MESSAGE:
            raise InvalidArguments(f"The message is longer than {MAX_MESSAGE:,} characters.")
        self._end(request, answer)
        if answer == "chat":
            self._chats[request.caller.identity, request.effect] = None
            self._bound(self._chats)
        elif answer == "notebook" and request.notebook is not None:
            self._notebooks[request.caller.user, request.notebook, request.effect] = None
            self._bound(self._notebooks)

    def _bound(self, approvals: OrderedDict[Any, Any]) -> None:
        while len(approvals) > self._max_approvals:
            approvals.popitem(last=False)

    def _end(self, request: PermissionRequest, outcome: Outcome) -> None:
        """The request waits no more, where it did."""
        if self._pending.pop(request.id, None) is not None:
            self._feed.settled(request, outcome)

    def _expire(self) -> None:
        oldest = time.time() - self._keep
        for request in list(self._pending.values()):
            if request.created < oldest and request.id not in self._asking:
                self._end(request, "expired")

    def _set_alarm(self) -> None:
        """Has what waits expire when its time has come, so that those who show it hear of it."""
        created = [each.created for each in self._pending.values() if each.id not in self._asking]
        if not created:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(0.0, min(created) + self._keep - time.time())
        # One that was asked about in the meantime may be older than what it is set for.
        if self._alarm is None or due < self._alarm.when():
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._expire()
        self._set_alarm()


def _denied(tool: str, mode: Mode, message: str) -> PermissionDenied:
    if not message.strip():
        return PermissionDenied(f"The user denied {tool}.", mode=mode)
    return PermissionDenied(
        f"The user denied {tool}: {message.strip()}",
        hint="Follow what the user says.",
        mode=mode,
        user_message=message.strip(),
    )


def _arguments_hash(
    tool: str, effect: Effect, arguments: Mapping[str, Any], proposal: Proposal
) -> str:
    # Imported when first asked for: it would cost a server's start a tenth of what it may take.
    from pydantic_core import to_jsonable_python

    exact = json.dumps(
        [tool, effect, to_jsonable_python(dict(arguments)), proposal.digest()], sort_keys=True
    )
    return hashlib.blake2b(exact.encode(), digest_size=16).hexdigest()
