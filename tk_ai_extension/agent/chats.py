"""The chats of a server: which there are, which are used just now, and who follows them.

Several servers may share the transcripts. A chat is one server's from a message to the end of the
last turn that waits, and each goes on where the other ended.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from tk_ai_extension.agent.events import Done, Event, Failed, PlanSettled
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.requests import Asking, ChatRequest, Message, PlanAnswer
from tk_ai_extension.agent.session import ChatServices, ChatSession
from tk_ai_extension.agent.transcripts import MAX_CHAT, Chat, storable
from tk_ai_extension.model.agent_errors import (
    AgentDied,
    AgentUnavailable,
    ChatElsewhere,
    PlanNotFound,
)
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, PermissionDenied, ToolError
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.workspace.journal import Touched
from tk_ai_extension.workspace.undo_entries import TakenBack, undo_entries

logger = logging.getLogger(__name__)

MAX_TITLE = 80
"""Characters of a title."""


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A turn that was queued, and how its events are followed."""

    chat: str
    turn: str
    events: AsyncIterator[Event]


class Chats:
    """Every chat of a server, by user.

    Chats are kept in the transcripts; those that are used are sessions besides, each with an agent at
    most, and bounded in number.

    Args:
        services: What all chats share.
    """

    def __init__(self, services: ChatServices) -> None:
        self._services = services
        self._transcripts = services.transcripts
        self._live: dict[str, ChatSession] = {}
        # What happens in a chat, as long as somebody answers in it or follows it.
        self._logs: WeakValueDictionary[str, ChatLog] = WeakValueDictionary()
        # Held by those who open or end a chat just now, and by nobody afterwards.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Sessions that are ending: what happens in them last has to be written down first.
        self._ending: dict[str, asyncio.Task[None]] = {}
        # Chats in which nothing goes on any more: they are released to other servers.
        self._releasing = BackgroundTasks(logger)
        self._closing: asyncio.Task[None] | None = None
        # Held by those who replace a turn just now, and by nobody afterwards.
        self._replacing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def send(
        self, user: str, request: ChatRequest, *, asking: Asking | None = None
    ) -> StartedTurn:
        """Queues a turn in a chat of the user's, or in a new one.

        Args:
            user: Whose chat.
            request: What is sent.
            asking: The running cell that sends it.

        Raises:
            ChatNotFound, ChatElsewhere, NoModel, PathRefused, NotANotebook, NotebookNotFound,
            LimitReached.
            InvalidArguments: what it is to take the place of is no turn of the chat.
        """
        workspace = self._services.workspace
        model = await self._services.model(request.model)
        notebook = None if request.notebook is None else workspace.contain(request.notebook)
        if notebook is not None:
            await (await workspace.store.open(notebook)).read()
        message = Message(request, notebook, model, asking)
        known = await self._known(user, request, notebook)
        if known is not None and request.replaces is not None:
            return await self._replace(known, request.replaces, message)
        if known is not None:
            return await self._send(known, message)
        title = storable(" ".join(request.message.split()))[:MAX_TITLE]
        chat = await self._transcripts.create(user, secrets.token_hex(12), title, notebook)
        try:
            begun = await self._send(chat, message)
        except LimitReached:
            await self._transcripts.delete(chat)
            raise
        for old in await self._transcripts.over(user):
            with suppress(ChatElsewhere):
                await self._remove(old)
        return begun

    async def answer_plan(self, user: str, chat_id: str, answer: PlanAnswer) -> StartedTurn:
        """Has the plan of a chat carried out, or made anew; queues the turn that does so.

        Raises:
            ChatNotFound, ChatElsewhere.
            PlanNotFound: that plan does not wait: it was answered, or another message was sent.
            PermissionDenied: the server allows no more than plans.
            NoModel, NotebookNotFound, LimitReached.
        """
        services = self._services
        chat = await self.get(user, chat_id)
        await self._saved(chat.id)
        plan = await self._transcripts.plan(chat.id)
        if plan is None or plan.turn != answer.plan:
            raise PlanNotFound(Sentence("plan_missing"))
        approved = answer.answer == "approve"
        mode = answer.mode if approved else "plan"
        if approved and services.workspace.policy.mode(Caller(user, mode=mode)) == "plan":
            raise PermissionDenied(
                "This server only lets plans be made.",
                hint="Its administrator has set `mode_cap` to `plan`.",
            )
        model = await self._services.model(answer.model, usual=str(plan.data["model"]))
        if chat.notebook is not None:
            await (await services.workspace.store.open(chat.notebook)).read()
        request = ChatRequest.model_construct(message=answer.message, mode=mode)
        message = Message(request, chat.notebook, model)
        settled = PlanSettled(plan.turn, "approved" if approved else "rejected")
        return await self._send(chat, message, settled)

    async def list(self, user: str) -> list[tuple[Chat, bool]]:
        """The user's chats, the one used last first, and whether each is busy."""
        chats = await self._transcripts.list(user)
        elsewhere = await self._transcripts.elsewhere()
        return [(chat, chat.id in elsewhere or self._busy(chat.id)) for chat in chats]

    @property
    def working(self) -> int:
        """In how many chats a turn goes on or waits here."""
        return sum(live.busy for live in self._live.values())

    async def busy(self, chat: Chat) -> bool:
        """Whether a turn of a chat goes on or waits, here or in another server."""
        return self._busy(chat.id) or chat.id in await self._transcripts.elsewhere()

    async def get(self, user: str, chat_id: str) -> Chat:
        """One of the user's chats.

        Raises:
            ChatNotFound.
        """
        return await self._transcripts.get(user, chat_id)

    async def events(self, user: str, chat_id: str, after: int = 0) -> list[Event]:
        """What happened in a chat so far.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        await self._saved(chat.id)
        return await self._transcripts.events(chat.id, after)

    async def page(self, user: str, chat_id: str, after: int = 0) -> tuple[list[Event], bool]:
        """The first events after one, of about `PAGE_BYTES`, and whether more are there.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        await self._saved(chat.id)
        events = await self._transcripts.page(chat.id, after)
        return events, bool(events) and events[-1].id < await self._transcripts.last(chat.id)

    async def follow(self, user: str, chat_id: str, after: int = 0) -> AsyncIterator[Event]:
        """What happens in a chat after an event, until it is deleted or the server ends.

        Who follows takes no place among the chats that are answered.

        Raises:
            ChatNotFound.
            InvalidArguments: no event of that number has happened.
        """
        chat = await self.get(user, chat_id)
        async with self._lock(chat.id):
            await self._until_ended(chat.id)
            log = await self._log(chat.id)
            if chat.id not in self._live:
                await self._close_interrupted_turns(chat, log)
        if not 0 <= after <= log.last:
            raise InvalidArguments(
                f"{after} is no event's number of this chat.",
                hint="Leave Last-Event-ID out to be told everything.",
            )
        return log.after(after)

    async def stop(self, user: str, chat_id: str, turn: str | None = None) -> bool:
        """Stops the turn that goes on and those that wait, or one of them; whether there were any.

        Raises:
            ChatNotFound.
            ChatElsewhere: they are another server's.
        """
        chat = await self.get(user, chat_id)
        if (live := self._live.get(chat.id)) is not None and live.busy:
            return await live.stop(turn)
        if chat.id in await self._transcripts.elsewhere():
            raise ChatElsewhere(Sentence("chat_elsewhere"))
        return False

    async def rename(self, user: str, chat_id: str, title: str) -> None:
        """Gives a chat another title.

        Raises:
            ChatNotFound.
        """
        await self._transcripts.rename(await self.get(user, chat_id), storable(title)[:MAX_TITLE])

    async def delete(self, user: str, chat_id: str) -> None:
        """Ends a chat and removes its transcript; what it did in notebooks stays.

        Raises:
            ChatNotFound, ChatElsewhere.
        """
        await self._remove(await self.get(user, chat_id))

    async def take_back(
        self,
        user: str,
        chat_id: str,
        *,
        turn: str,
        cells: frozenset[str] | None = None,
        onwards: bool = False,
    ) -> list[TakenBack]:
        """Undo what a turn changed, in each notebook all or none, where nobody has worked on since.

        Args:
            user: Whose chat.
            chat_id: The chat.
            turn: The turn.
            cells: Only the changes of these cells, by their keys; None for all.
            onwards: What the chat changed after that turn as well.

        Raises:
            ChatNotFound, NothingToUndo, and whatever a notebook refuses.
        """
        caller = _caller(await self.get(user, chat_id))
        workspace = self._services.workspace
        entries = await workspace.journal.undoable(caller, None, turn=turn)
        if entries and onwards:
            entries = await workspace.journal.undoable(caller, None, since=entries[-1].id - 1)
        return await undo_entries(workspace, caller, entries, cells=cells, of="of a turn")

    async def standing(self, user: str, chat_id: str) -> list[Touched]:
        """The cells that a chat changed and nobody has taken back, the newest first.

        Raises:
            ChatNotFound.
        """
        caller = _caller(await self.get(user, chat_id))
        return await self._services.workspace.journal.touched(caller)

    async def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        await self._transcripts.renamed(old, new)

    async def close(self) -> None:
        """Ends all sessions; transcripts are complete then. A second time changes nothing."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="tk-ai chats end")
        await asyncio.shield(self._closing)

    async def _known(self, user: str, request: ChatRequest, notebook: str | None) -> Chat | None:
        """The chat that a message belongs to; None for a new one."""
        if request.chat is not None:
            return await self.get(user, request.chat)
        chats = await self._transcripts.list(user) if request.latest else []
        return next((chat for chat in chats if chat.notebook == notebook), None)

    async def _replace(self, chat: Chat, turn: str, message: Message) -> StartedTurn:
        """Sends a message that takes the place of a turn and of those after it.

        They are stopped, where the message can be sent.

        Raises:
            InvalidArguments: the chat has no such turn, or another one has taken its place.
            ChatNotFound, ChatElsewhere, LimitReached.
        """
        # Of two that would take the place of one, the second finds it taken.
        async with self._replacing.setdefault(chat.id, asyncio.Lock()):
            await self._saved(chat.id)
            turns = await self._transcripts.turns(chat.id)
            if turn not in turns:
                raise InvalidArguments(
                    f"The chat has no turn `{turn[:80]}` to take the place of.",
                    hint="Another message may have taken it: look at the chat again.",
                )
            replaced = tuple(turns[turns.index(turn) :])
            session = await self._open(chat, message.notebook)
            for each in replaced:
                await session.stop(each)
            return await self._send(chat, replace(message, replaces=replaced))

    async def _send(
        self, chat: Chat, message: Message, answer: PlanSettled | None = None
    ) -> StartedTurn:
        if await self._transcripts.size(chat.id) > MAX_CHAT:
            raise LimitReached(
                Sentence("chat_large", size=MAX_CHAT // 1_000_000), hint=Sentence("chat_large_hint")
            )
        session = await self._open(chat, message.notebook)
        # From here on nothing waits: the session may be let go whenever it is idle.
        before = session.log.last
        try:
            turn = session.send(message, answer)
        except ToolError:
            self._on_idle(session)
            raise
        return StartedTurn(chat.id, turn, session.log.after(before, turn=turn))

    async def _remove(self, chat: Chat) -> None:
        """Ends a chat, and removes all that is kept of it."""
        async with self._lock(chat.id):
            await self._transcripts.claim(chat)
            if (live := self._live.pop(chat.id, None)) is not None:
                await live.close("The chat was deleted.")
            await self._until_ended(chat.id)
            # The agent's session may have got its id since the chat was looked up.
            chat = await self._transcripts.get(chat.user, chat.id)
            await self._transcripts.delete(chat)
            if (log := self._logs.pop(chat.id, None)) is not None:
                await log.close()
        if chat.session is not None:
            await self._services.backend.forget(chat.session)
        self._services.workspace.forget(_caller(chat))

    async def _open(self, chat: Chat, notebook: str | None) -> ChatSession:
        """The session of a chat to which a message about a notebook is sent now, without waiting.

        One that is idle may be let go later: `_on_idle` where nothing is sent after all.

        Raises:
            ChatNotFound: it was deleted meanwhile.
            ChatElsewhere: another server answers in it.
            LimitReached: too many chats are answered.
        """
        async with self._lock(chat.id):
            await self._until_ended(chat.id)
            chat = await self._transcripts.claim(chat)
            try:
                await self._transcripts.used(chat.id, notebook)
                live = await self._current(chat)
            except ToolError:
                if not self._busy(chat.id):
                    await self._transcripts.release(chat.id)
                raise
            # The one used last goes last.
            self._live.pop(chat.id, None)
            self._live[chat.id] = live
            return live

    def _busy(self, chat_id: str) -> bool:
        """Whether a turn of a chat goes on or waits here."""
        return (live := self._live.get(chat_id)) is not None and live.busy

    async def _saved(self, chat_id: str) -> None:
        """Waits until the transcript has all that happened here."""
        if (log := self._logs.get(chat_id)) is not None:
            await log.save()

    def _on_idle(self, session: ChatSession) -> None:
        """Releases the chat of a session in which nothing goes on any more to other servers."""
        self._releasing.spawn(self._release(session), "tk-ai chat rests")

    async def _close(self) -> None:
        sessions, self._live = list(self._live.values()), {}
        await asyncio.gather(
            *(session.close("The server stopped.") for session in sessions), *self._ending.values()
        )
        await self._releasing.join()
        await asyncio.gather(*(log.close() for log in list(self._logs.values())))
        await self._transcripts.close()

    async def _current(self, chat: Chat) -> ChatSession:
        """The session of a chat that is this server's: the one that there is, or a new one."""
        last = await self._transcripts.last(chat.id)
        live = self._live.get(chat.id)
        if live is not None and last <= live.log.last:
            return live
        if live is not None:
            # Another server went on with the chat since: its history is another one now.
            self._detach(live)
        await self._until_ended(chat.id)
        # The agent's session may have got its id since the chat was looked up.
        chat = await self._transcripts.get(chat.user, chat.id)
        log = await self._log(chat.id)
        await self._end_interrupted_turns(chat.id, log)
        plan = await self._transcripts.plan(chat.id)
        forgotten = await self._transcripts.forgotten(chat.id)
        if self._closing is not None:
            raise AgentUnavailable(Sentence("stopping"), hint=Sentence("stopping_hint"))
        self._make_room()
        return ChatSession(
            self._services,
            chat,
            log,
            plan=None if plan is None else plan.turn,
            forgotten=forgotten,
            on_idle=self._on_idle,
            on_expired=self._detach,
        )

    async def _release(self, session: ChatSession) -> None:
        try:
            async with self._lock(session.id):
                if not session.busy and not self._busy(session.id):
                    await session.log.save()
                    await self._transcripts.release(session.id)
        except ToolError as error:
            # Nobody waits for it: it is this server's until the next turn, or until the server ends.
            logger.warning("A chat was not released: %s", error.message)

    def _lock(self, chat_id: str) -> asyncio.Lock:
        return self._locks.setdefault(chat_id, asyncio.Lock())

    async def _log(self, chat_id: str) -> ChatLog:
        """What happens in a chat, for whoever holds its lock."""
        last = await self._transcripts.last(chat_id)
        if (log := self._logs.get(chat_id)) is None:
            self._logs[chat_id] = log = ChatLog(chat_id, self._transcripts, last)
        log.catch_up(last)
        return log

    async def _until_ended(self, chat_id: str) -> None:
        """Waits until a session of a chat that is ending has ended."""
        if (ending := self._ending.get(chat_id)) is not None:
            await asyncio.wait((ending,))

    async def _close_interrupted_turns(self, chat: Chat, log: ChatLog) -> None:
        """Ends what was cut in a chat in which nobody answers."""
        if not await self._transcripts.unended(chat.id):
            return
        try:
            await self._transcripts.claim(chat)
        except ChatElsewhere:
            # What has no end goes on there.
            return
        await self._end_interrupted_turns(chat.id, log)
        await log.save()
        await self._transcripts.release(chat.id)

    async def _end_interrupted_turns(self, chat_id: str, log: ChatLog) -> None:
        """A server that was killed left turns without an end: they get one."""
        await log.save()
        for turn in await self._transcripts.unended(chat_id):
            log.add(turn, Failed.of(AgentDied(Sentence("server_stopped_turn"))))
            log.add(turn, Done("failed"))

    def _make_room(self) -> None:
        if len(self._live) < self._services.settings.max_live:
            return
        idle = next((session for session in self._live.values() if not session.busy), None)
        if idle is None:
            raise LimitReached(
                Sentence("chats_many", count=len(self._live)),
                hint=Sentence("chats_many_hint"),
            )
        self._detach(idle)

    def _detach(self, session: ChatSession) -> None:
        if self._live.get(session.id) is session:
            del self._live[session.id]
        task = asyncio.create_task(session.close("The chat ended."), name="tk-ai chat ends")
        self._ending[session.id] = task

        def left(_: asyncio.Task[None]) -> None:
            if self._ending.get(session.id) is task:
                del self._ending[session.id]

        task.add_done_callback(left)


def _caller(chat: Chat) -> Caller:
    """A chat as a caller, in no turn: what a person does with its changes needs no approval."""
    return Caller(user=chat.user, key=chat.id, interface="chat", name=chat.user)
