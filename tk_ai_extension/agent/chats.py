"""The chats of a server.

Several servers may share the transcripts. One server owns a chat from a message to the end of the
last queued turn; another server can then continue it.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from tk_ai_extension.agent.chat_changes import ChatChanges, caller_of
from tk_ai_extension.agent.chat_logs import ChatLogs
from tk_ai_extension.agent.events import Event, PlanSettled
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.requests import ChatRequest, Message, PlanAnswer
from tk_ai_extension.agent.sent_messages import SentMessages, StartedTurn
from tk_ai_extension.agent.services import ChatServices
from tk_ai_extension.agent.session import ChatSession
from tk_ai_extension.agent.transcripts import Chat
from tk_ai_extension.model.agent_errors import AgentUnavailable, ChatElsewhere, ChatNotFound
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import (
    InvalidArguments,
    LimitReached,
    NotFound,
    ToolError,
)
from tk_ai_extension.model.paths import is_deleted
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.workspace.database import storable
from tk_ai_extension.workspace.undo import TakenBack

logger = logging.getLogger(__name__)

MAX_TITLE = 80
"""Maximum length of a title, in characters."""


class Chats:
    """Every chat of a server, by user.

    Active chats have a `ChatSession` with at most one agent; the number of sessions is bounded.

    Args:
        services: Services that all chats share.
    """

    def __init__(self, services: ChatServices) -> None:
        self._services = services
        self.setup = services.setup
        self.agent_of = services.agent_of
        self.sent = SentMessages(self.follow)
        self._transcripts = services.transcripts
        self.changes = ChatChanges(services.workspace, services.transcripts)
        self._live: dict[str, ChatSession] = {}
        self._logs = ChatLogs(services.transcripts)
        # Held while a chat is opened or closed.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Sessions that are closing: their last events have to be saved first.
        self._ending: dict[str, asyncio.Task[None]] = {}
        # Sessions that are closing, idle chats that are released, and old ones that are removed.
        self._background = BackgroundTasks(logger)
        self._closing: asyncio.Task[None] | None = None
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def send(self, user: str, request: ChatRequest) -> StartedTurn:
        """Queue a turn in one of the user's chats, or in a new one.

        Args:
            user: The owner of the chat.
            request: The message.

        Raises:
            ChatNotFound, ChatElsewhere, NoModel, PathRefused, InvalidArguments, NotebookNotFound,
            LimitReached.
            InvalidArguments: the chat has no turn `request.replaces`.
        """
        services = self._services
        message = Message(request, await self._notebook(user, request), "")
        message.model = await services.model(request.model)
        await services.check(message)
        message.request = await services.expanded(user, request)
        if (known := await self._known(user, message)) is not None:
            async with self._queueing(known):
                if request.replaces is not None:
                    await self._replace(known, request.replaces, message)
                return await self._send(known, message)
        title = storable(" ".join(request.message.split()))[:MAX_TITLE]
        chat = await self._transcripts.create(user, secrets.token_hex(12), title, message.notebook)
        try:
            begun = await self._send(chat, message)
        except ToolError:
            await self._transcripts.delete(chat)
            raise
        # The message is being answered, whatever becomes of old chats.
        self._background.spawn(self._remove_old(user), "Removing old chats")
        return begun

    async def answer_plan(self, user: str, chat_id: str, answer: PlanAnswer) -> StartedTurn:
        """Approve or reject the plan of a chat, and queue the turn that follows from it.

        Raises:
            ChatNotFound, ChatElsewhere.
            NotFound: the plan was already answered, or another message was sent.
            PermissionDenied: the server only allows the mode `plan`.
            NoModel, NotebookNotFound, LimitReached.
        """
        chat = await self.get(user, chat_id)
        async with self._queueing(chat):
            await self._logs.save(chat.id)
            plan = await self._transcripts.plan(chat.id)
            if plan is None or plan.turn != answer.plan:
                raise NotFound(
                    "This chat has no pending plan of that turn.",
                    hint="It was answered, or another message was sent since. Ask for a new plan.",
                )
            chat = await self.get(user, chat_id)
            message, settled = await self._services.answer_to_plan(chat, plan, answer)
            return await self._send(chat, message, settled)

    def move(self, old: str, new: str) -> Awaitable[None]:
        """Update stored paths after a rename; see `Transcripts.move`. Messages hold their notebooks."""
        return self._transcripts.move(old, new)

    def detach(self, path: str) -> Awaitable[None]:
        """Mark stored paths after a deletion; see `Transcripts.detach`."""
        return self._transcripts.detach(path)

    async def list(self, user: str) -> builtins.list[tuple[Chat, bool]]:
        """List the user's chats, most recently used first, and whether each is busy."""
        chats = await self._transcripts.list(user)
        elsewhere = await self._transcripts.elsewhere()
        return [(chat, chat.id in elsewhere or self._busy(chat.id)) for chat in chats]

    @property
    def working(self) -> builtins.list[ChatSession]:
        """Chats with a running or queued turn in this server."""
        return [live for live in self._live.values() if live.busy]

    async def busy(self, chat: Chat) -> bool:
        """Whether a turn of a chat is running or queued, in this server or another."""
        return self._busy(chat.id) or chat.id in await self._transcripts.elsewhere()

    async def get(self, user: str, chat_id: str) -> Chat:
        """Return one of the user's chats.

        Raises:
            ChatNotFound.
        """
        return await self._transcripts.get(user, chat_id)

    async def events(self, user: str, chat_id: str, after: int = 0) -> builtins.list[Event]:
        """Return the events of a chat so far.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        await self._logs.save(chat.id)
        return await self._transcripts.events(chat.id, after)

    async def page(self, user: str, chat_id: str, after: int = 0) -> tuple[Sequence[Event], bool]:
        """Return a page of about `PAGE_BYTES` of the events after one, and whether more follow.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        await self._logs.save(chat.id)
        events = await self._transcripts.page(chat.id, after)
        return events, bool(events) and events[-1].id < await self._transcripts.last(chat.id)

    async def follow(self, user: str, chat_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events of a chat after one, until the chat is deleted or the server stops.

        A follower does not count towards `max_chats`.

        Raises:
            ChatNotFound.
            InvalidArguments: there is no event of that number yet.
        """
        chat = await self.get(user, chat_id)
        async with self._lock(chat.id):
            log = await self._log(chat.id)
            if chat.id not in self._live:
                await self._logs.close_interrupted_turns(chat, log)
        if not 0 <= after <= log.last:
            raise InvalidArguments(
                f"This chat has no event {after} yet.",
                hint="Omit Last-Event-ID to receive all events.",
            )
        return log.after(after)

    async def stop(self, user: str, chat_id: str, turn: str | None = None) -> bool:
        """Stop the running and queued turns, or one of them; return whether there were any.

        Raises:
            ChatNotFound.
            ChatElsewhere: another server runs them.
        """
        chat = await self.get(user, chat_id)
        if (live := self._live.get(chat.id)) is not None and live.busy:
            return await live.stop(turn)
        if chat.id in await self._transcripts.elsewhere():
            raise ChatElsewhere("Another server of this folder is running a turn in this chat.")
        return False

    async def rename(self, user: str, chat_id: str, title: str) -> None:
        """Rename a chat.

        Raises:
            ChatNotFound.
        """
        await self._transcripts.rename(await self.get(user, chat_id), storable(title)[:MAX_TITLE])

    async def delete(self, user: str, chat_id: str) -> None:
        """End a chat and remove its transcript; its changes to notebooks are kept.

        Raises:
            ChatNotFound, ChatElsewhere.
        """
        await self._remove(await self.get(user, chat_id))

    async def undo_turn(
        self,
        user: str,
        chat_id: str,
        *,
        turn: str,
        cells: frozenset[str] | None = None,
        onwards: bool = False,
    ) -> builtins.list[TakenBack]:
        """Undo a turn's changes; see `ChatChanges.undo_turn`.

        Raises:
            ChatNotFound, NothingToUndo, or an error of the notebook.
        """
        chat = await self.get(user, chat_id)
        await self._logs.save(chat.id)
        return await self.changes.undo_turn(chat, turn, cells=cells, onwards=onwards)

    async def restore(self, user: str, chat_id: str, turn: str) -> builtins.list[TakenBack]:
        """Restore a chat and its notebooks to before a turn.

        The turn and all later ones are stopped, their changes are undone unless somebody edited the
        cell since, and the agent forgets them. They stay in the chat as replaced turns.

        Raises:
            ChatNotFound, ChatElsewhere.
            InvalidArguments: the chat has no such turn, or it was already replaced or restored.
        """
        chat = await self.get(user, chat_id)
        async with self._queueing(chat):
            replaced = await self._replaced(chat, turn)
            session = await self._stop_all(chat, replaced)
            return await self._undo_from(chat, session, replaced)

    async def steer(self, user: str, chat_id: str, turn: str) -> bool:
        """Give a queued message to the running turn; return whether the agent took it.

        A message that it does not take stays queued.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        live = self._live.get(chat.id)
        return live is not None and await live.steer(turn)

    async def close(self) -> None:
        """End all sessions and save their transcripts; idempotent."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="tk-ai chats end")
        await asyncio.shield(self._closing)

    async def _known(self, user: str, message: Message) -> Chat | None:
        """Return the chat that a message belongs to; None for a new one."""
        request = message.request
        if request.chat is not None:
            return await self.get(user, request.chat)
        chats = await self._transcripts.list(user) if request.latest else ()
        return next((chat for chat in chats if chat.notebook == message.notebook), None)

    async def _notebook(self, user: str, request: ChatRequest) -> Notebook | None:
        """Return the notebook that a message is about; None for none.

        With `notebook_of`, it is that turn's notebook, which may have been renamed since the sender got
        its path.

        Raises:
            ChatNotFound, NotebookNotFound, PathRefused, InvalidArguments.
        """
        if request.notebook is None:
            return None
        found, turn = None, request.notebook_of
        if turn is not None and request.chat is not None:
            chat = await self.get(user, request.chat)
            await self._logs.save(chat.id)
            found = await self._transcripts.notebook_of(chat.id, turn)
        if found is None and not is_deleted(request.notebook):
            found = self._services.workspace.contain(request.notebook)
        return self._services.notebook(found or request.notebook)

    @asynccontextmanager
    async def _queueing(self, chat: Chat) -> AsyncGenerator[None]:
        """Queue messages in a chat, or replace turns of it: none is queued during a replacement."""
        async with self._queues.setdefault(chat.id, asyncio.Lock()):
            try:
                yield
            finally:
                if (live := self._live.get(chat.id)) is not None and not live.busy:
                    self._on_idle(live)

    async def _replace(self, chat: Chat, turn: str, message: Message) -> None:
        """Stop the turns that a message replaces, if it can be sent.

        Raises:
            InvalidArguments: the chat has no such turn, or it was already replaced.
            ChatNotFound, ChatElsewhere, LimitReached.
        """
        # Of two messages that replace one turn, the second fails.
        message.replaces = await self._replaced(chat, turn)
        await self._transcripts.check_size(chat.id)
        session = await self._stop_all(chat, message.replaces)
        if message.request.undo_replaced:
            await self._undo_from(chat, session, message.replaces)

    async def _replaced(self, chat: Chat, turn: str) -> tuple[str, ...]:
        """Return a turn and those after it.

        Raises:
            InvalidArguments: the chat has no such turn, or it was already replaced.
        """
        await self._logs.save(chat.id)
        turns = await self._transcripts.turns(chat.id)
        if turn not in turns:
            raise InvalidArguments(
                f"The chat has no turn `{turn[:80]}` to replace.",
                hint="Another message may have replaced it: reload the chat.",
            )
        return tuple(turns[turns.index(turn) :])

    async def _stop_all(self, chat: Chat, turns: Sequence[str]) -> ChatSession:
        """Stop turns, and return the chat's session.

        Raises:
            ChatNotFound, ChatElsewhere, LimitReached.
        """
        session = await self._open(chat)
        for each in turns:
            await session.stop(each)
        return session

    async def _undo_from(
        self, chat: Chat, session: ChatSession, replaced: tuple[str, ...]
    ) -> builtins.list[TakenBack]:
        """Undo what replaced turns changed, and publish it, so that they are forgotten."""
        for each in replaced:
            await session.until_ended(each)
        await session.log.save()
        taken = await self.changes.undo_from(chat, replaced[0])
        # The session may have been released when its last turn was stopped.
        session = await self._open(chat)
        session.restored(replaced, taken)
        return taken

    async def _send(
        self, chat: Chat, message: Message, answer: PlanSettled | None = None
    ) -> StartedTurn:
        await self._transcripts.check_size(chat.id)
        session = await self._open(chat, message)
        # No await from here on: an idle session may be released at any await.
        before = session.log.last
        turn = session.send(message, answer)
        return StartedTurn(chat.id, turn, session.log.after(before, turn=turn))

    async def _remove_old(self, user: str) -> None:
        """Remove a user's least recently used chats over the limits, but none with a turn."""
        for old in await self._transcripts.over(user):
            with suppress(ChatElsewhere, ChatNotFound):
                await self._remove(old, busy=False)

    async def _remove(self, chat: Chat, *, busy: bool = True) -> None:
        """End a chat and remove all its data; one with a turn only if ``busy``."""
        async with self._lock(chat.id):
            if not busy and self._busy(chat.id):
                return
            await self._transcripts.claim(chat)
            if (live := self._live.pop(chat.id, None)) is not None:
                await live.close("The chat was deleted.")
            await self._until_ended(chat.id)
            # The agent's session may have received its id after the chat was read.
            chat = await self._transcripts.get(chat.user, chat.id)
            sessions = await self._transcripts.sessions(chat)
            await self._transcripts.delete(chat)
            await self._logs.remove(chat.id)
        for each in sessions:
            await self._services.forget(each)
        self._services.workspace.forget(caller_of(chat))

    async def _open(self, chat: Chat, message: Message | None = None) -> ChatSession:
        """Return the session of a chat for a message that is sent without any await in between.

        Called within `_queueing`: an idle session may be released later. Without a message the chat's
        notebook stays as it is.

        Raises:
            ChatNotFound: it was deleted in the meantime.
            ChatElsewhere: another server is running a turn in it.
            LimitReached: too many chats are active.
        """
        async with self._lock(chat.id):
            await self._until_ended(chat.id)
            chat = await self._transcripts.claim(chat)
            try:
                if message is not None:
                    await self._transcripts.used(chat.id, message.notebook)
                live = await self._current(chat)
            except ToolError:
                if not self._busy(chat.id):
                    await self._transcripts.release(chat.id)
                raise
            # Least recently used first.
            self._live.pop(chat.id, None)
            self._live[chat.id] = live
            return live

    def _busy(self, chat_id: str) -> bool:
        """Whether a turn of a chat is running or queued in this server."""
        return (live := self._live.get(chat_id)) is not None and live.busy

    def _on_idle(self, session: ChatSession) -> None:
        """Release the chat of an idle session to other servers."""
        self._background.spawn(self._release(session), "Releasing a chat")

    async def _close(self) -> None:
        # They stay until they have ended: without a session here their turns would look interrupted.
        for session in self._live.values():
            self._background.spawn(session.close("The server stopped."), "Closing a chat")
        await self._background.join()
        self._live.clear()
        await self._logs.close()
        await self._transcripts.close()

    def _check_open(self) -> None:
        """Check that the server is not stopping. Raises AgentUnavailable."""
        if self._closing is not None:
            raise AgentUnavailable("The server is stopping.", hint="Start it again.")

    async def _current(self, chat: Chat) -> ChatSession:
        """Return the session of a chat that this server owns, creating it if needed."""
        log = await self._log(chat.id)
        if (live := self._live.get(chat.id)) is not None:
            self._check_open()
            return live
        # The agent's session may have got its id since the chat was looked up.
        chat = await self._transcripts.get(chat.user, chat.id)
        await self._logs.end_interrupted_turns(chat.id, log)
        plan = await self._transcripts.plan(chat.id)
        forgotten = await self._transcripts.forgotten(chat.id)
        self._check_open()
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

    async def _log(self, chat_id: str) -> ChatLog:
        """Return the event log of a chat; the caller holds its lock."""
        live = self._live.get(chat_id)
        if live is not None and await self._transcripts.last(chat_id) > live.log.last:
            # Another server continued the chat: its history has changed.
            self._detach(live)
        await self._until_ended(chat_id)
        return await self._logs.of(chat_id)

    async def _release(self, session: ChatSession) -> None:
        # If it fails, the chat stays this server's until the next turn, or until the server stops.
        async with self._lock(session.id):
            is_idle = not session.busy and not self._busy(session.id)
            # Another server must not number its events as those that are not stored yet.
            if is_idle and await session.log.save():
                await self._transcripts.release(session.id)

    def _lock(self, chat_id: str) -> asyncio.Lock:
        return self._locks.setdefault(chat_id, asyncio.Lock())

    async def _until_ended(self, chat_id: str) -> None:
        """Wait until a closing session of a chat has closed."""
        if (ending := self._ending.get(chat_id)) is not None:
            await asyncio.wait((ending,))

    def _make_room(self) -> None:
        if len(self._live) < self._services.settings.max_live:
            return
        idle = next((session for session in self._live.values() if not session.busy), None)
        if idle is None:
            raise LimitReached(
                (
                    f"{len(self._live)} chat is running."
                    if len(self._live) == 1
                    else f"{len(self._live)} chats are running."
                ),
                hint="Wait until one ends, or stop one.",
            )
        self._detach(idle)

    def _detach(self, session: ChatSession) -> None:
        if self._live.get(session.id) is session:
            del self._live[session.id]
        task = self._background.spawn(session.close("The chat ended."), "Closing a chat")
        self._ending[session.id] = task
        # There is no other session of the chat until then.
        task.add_done_callback(lambda _: self._ending.pop(session.id, None))
