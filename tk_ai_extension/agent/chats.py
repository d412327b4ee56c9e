"""The chats of a server.

Several servers may share the store. One server owns a chat from a message to the end of the last queued
turn; another server can then continue it.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from weakref import WeakValueDictionary

from tk_ai_extension.agent.chat import ChatServices, LiveChat
from tk_ai_extension.agent.events import Done, Event, Failed, PlanSettled, Restored
from tk_ai_extension.agent.requests import ChatRequest, Message, PlanAnswer
from tk_ai_extension.agent.store import MAX_CHAT, Chat, ChatLog
from tk_ai_extension.model.agent_errors import (
    AgentDied,
    AgentUnavailable,
    ChatElsewhere,
    ChatNotFound,
)
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    InvalidArguments,
    LimitReached,
    NotFound,
    PermissionDenied,
    ToolError,
)
from tk_ai_extension.model.paths import is_deleted
from tk_ai_extension.notebooks.notebook import Notebook, deleted_error
from tk_ai_extension.workspace.database import storable
from tk_ai_extension.workspace.journal import JournalEntry, Touched
from tk_ai_extension.workspace.undo import NetChange, TakenBack, net_changes, undo_entries

logger = logging.getLogger(__name__)

MAX_TITLE = 80
"""Maximum length of a title, in characters."""


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A queued turn and the stream of its events."""

    chat: str
    turn: str
    events: AsyncIterator[Event]


class Chats:
    """Every chat of a server, by user.

    Args:
        services: What all chats share.
    """

    def __init__(self, services: ChatServices) -> None:
        self._services = services
        self._store = services.store
        self._workspace = services.workspace
        self.setup = services.setup
        self.agent_of = services.agent_of
        # Least recently used first.
        self._live: dict[str, LiveChat] = {}
        self._logs: WeakValueDictionary[str, ChatLog] = WeakValueDictionary()
        # Held while a message is queued in a chat, turns of it are replaced, or it is released.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Idle chats that are released, and old ones that are removed.
        self._background = BackgroundTasks(logger)
        self._closing: asyncio.Task[None] | None = None

    async def send(self, user: str, request: ChatRequest) -> StartedTurn:
        """Queue a turn in one of the user's chats, or in a new one.

        A message with the id of an earlier one of the user begins no second turn.

        Args:
            user: The owner of the chat.
            request: The message.

        Raises:
            ChatNotFound, ChatElsewhere, NoModel, PathRefused, InvalidArguments, NotebookNotFound,
            LimitReached.
            InvalidArguments: the chat has no turn `request.replaces`.
        """
        chat_id = request.chat
        if chat_id is None and request.latest:
            about = await self._notebook(user, request)
            path = None if about is None else about.stored_path
            found = await self._store.list(user)
            chat_id = next((chat.id for chat in found if chat.notebook == path), None)
        sent = None
        async with self._queueing(chat_id or f"new chats of {user}"):
            if request.id is not None:
                sent = await self._store.sent(user, request.id)
            if sent is None:
                return await self._send_new(user, request, chat_id)
        chat_id, turn = sent
        return StartedTurn(chat_id, turn, _of_turn(await self.follow(user, chat_id), turn))

    async def answer_plan(self, user: str, chat_id: str, answer: PlanAnswer) -> StartedTurn:
        """Approve or reject the plan of a chat, and queue the turn that follows from it.

        Raises:
            ChatNotFound, ChatElsewhere.
            NotFound: the plan was already answered, or another message was sent.
            PermissionDenied: the server only allows the mode `plan`.
            NoModel, NotebookNotFound, LimitReached.
        """
        async with self._queueing((await self.get(user, chat_id)).id):
            plan = await self._store.plan(chat_id)
            if plan is None or plan.turn != answer.plan:
                raise NotFound(
                    "This chat has no pending plan of that turn.",
                    hint="It was answered, or another message was sent since. Ask for a new plan.",
                )
            chat = await self.get(user, chat_id)
            approved = answer.answer == "approve"
            mode = answer.mode if approved else "plan"
            request = ChatRequest.model_construct(message=answer.message, mode=mode)
            # What is rejected is carried out nowhere.
            about = None
            if approved or not is_deleted(chat.notebook):
                about = self._at(chat.notebook)
            message = Message(request, about, "")
            if approved and self._workspace.policy.mode(Caller(user, mode=mode)) == "plan":
                raise PermissionDenied(
                    "This server only allows the permission mode `plan`.",
                    hint="Ask its administrator to raise `mode_cap`.",
                )
            usual = str(plan.data["model"])
            message.model = await self._services.model(answer.model, usual=usual)
            await self._check(message)
            settled = PlanSettled(plan.turn, "approved" if approved else "rejected")
            return await self._send(chat, message, settled)

    def move(self, old: str, new: str) -> Awaitable[None]:
        """Update stored paths after a rename; see `ChatStore.move`. Messages hold their notebooks."""
        return self._store.move(old, new)

    def detach(self, path: str) -> Awaitable[None]:
        """Mark stored paths after a deletion; see `ChatStore.detach`."""
        return self._store.detach(path)

    async def list(self, user: str) -> builtins.list[tuple[Chat, bool]]:
        """List the user's chats, most recently used first, and whether each is busy."""
        return [(chat, self.busy(chat)) for chat in await self._store.list(user)]

    @property
    def working(self) -> builtins.list[LiveChat]:
        """Chats with a running or queued turn in this server."""
        return [live for live in self._live.values() if live.busy]

    def busy(self, chat: Chat) -> bool:
        """Whether a turn of a chat is running or queued, in this server or another."""
        return chat.is_elsewhere or self._busy(chat.id)

    async def get(self, user: str, chat_id: str) -> Chat:
        """Return one of the user's chats.

        Raises:
            ChatNotFound.
        """
        return await self._store.get(user, chat_id)

    async def events(self, user: str, chat_id: str, after: int = 0) -> builtins.list[Event]:
        """Return the events of a chat so far.

        Raises:
            ChatNotFound.
        """
        await self.get(user, chat_id)
        await self._save(chat_id)
        return await self._store.events(chat_id, after)

    async def page(self, user: str, chat_id: str, after: int = 0) -> tuple[Sequence[Event], bool]:
        """Return a page of about `PAGE_BYTES` of the events after one, and whether more follow.

        Raises:
            ChatNotFound.
        """
        await self.get(user, chat_id)
        await self._save(chat_id)
        events = await self._store.page(chat_id, after)
        return events, bool(events) and events[-1].id < await self._store.last(chat_id)

    async def follow(self, user: str, chat_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events of a chat after one, until the chat is deleted or the server stops.

        Raises:
            ChatNotFound.
            InvalidArguments: there is no event of that number yet.
        """
        chat = await self.get(user, chat_id)
        log = await self._log(chat)
        await log.save()
        if not self.busy(chat) and await self._store.unended(chat_id):
            async with self._queueing(chat_id):
                with suppress(ChatElsewhere):
                    await self._open(chat)
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
        if chat.is_elsewhere:
            raise ChatElsewhere("Another server of this folder is running a turn in this chat.")
        live = self._live.get(chat_id)
        return live is not None and await live.stop(turn)

    async def rename(self, user: str, chat_id: str, title: str) -> None:
        """Rename a chat.

        Raises:
            ChatNotFound.
        """
        await self._store.rename(await self.get(user, chat_id), storable(title)[:MAX_TITLE])

    async def delete(self, user: str, chat_id: str) -> None:
        """End a chat and remove its events; its changes to notebooks are kept.

        Raises:
            ChatNotFound, ChatElsewhere.
        """
        await self._remove(await self.get(user, chat_id))

    async def standing(self, user: str, chat_id: str) -> builtins.list[Touched]:
        """List the changes of a chat that nobody has undone, newest first.

        Raises:
            ChatNotFound.
        """
        return await self._workspace.journal.touched(_caller_of(await self.get(user, chat_id)))

    async def net(self, user: str, chat_id: str, turn: str) -> builtins.list[NetChange]:
        """Return what a turn changed by cell, from before it to after it, without what was undone.

        Raises:
            ChatNotFound.
        """
        entries = await self._entries(await self.get(user, chat_id), [turn])
        # In a thread: the sources are long.
        return await asyncio.to_thread(net_changes, entries)

    async def undo_turn(
        self, user: str, chat_id: str, *, turn: str, cells: frozenset[str] | None = None
    ) -> builtins.list[TakenBack]:
        """Undo a turn's changes that nobody has edited since; in each notebook all or none.

        Args:
            user: The user.
            chat_id: The chat.
            turn: The turn.
            cells: Keys of the cells to undo; None for all.

        Raises:
            ChatNotFound, NothingToUndo, or the error of the only notebook.
        """
        chat = await self.get(user, chat_id)
        entries = await self._entries(chat, [turn])
        if cells is not None:
            entries = [entry.only(cells) for entry in entries]
        return await undo_entries(self._workspace, _caller_of(chat), entries, of="of a turn")

    async def restore(self, user: str, chat_id: str, turn: str) -> builtins.list[TakenBack]:
        """Restore a chat and its notebooks to before a turn.

        The turn and all later ones are stopped, their changes are undone unless somebody edited the
        cell since, and the agent forgets them. They stay in the chat as replaced turns.

        Raises:
            ChatNotFound, ChatElsewhere.
            InvalidArguments: the chat has no such turn, or it was already replaced or restored.
        """
        chat = await self.get(user, chat_id)
        async with self._queueing(chat.id):
            return await self._replace(chat, turn, undo=True)

    async def close(self) -> None:
        """End all chats and save their events; idempotent."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="tk-ai chats end")
        await asyncio.shield(self._closing)

    # -- messages

    async def _send_new(self, user: str, request: ChatRequest, chat_id: str | None) -> StartedTurn:
        """Queue a turn for a message that was not sent before; the caller holds the lock."""
        message = Message(request, await self._notebook(user, request), "")
        message.model = await self._services.model(request.model)
        await self._check(message)
        text = await self.setup.prompts.expand(user, request.message)
        message.request = request.model_copy(update={"message": text})
        if chat_id is not None:
            chat = await self.get(user, chat_id)
            if request.replaces is not None:
                await self._replace(chat, request.replaces, undo=request.undo_replaced)
            return await self._send(chat, message)
        title = storable(" ".join(request.message.split()))[:MAX_TITLE]
        chat = await self._store.create(user, secrets.token_hex(12), title, message.notebook)
        try:
            begun = await self._send(chat, message)
        except ToolError:
            self._live.pop(chat.id, None)
            await self._store.delete(chat)
            raise
        # The message is being answered, whatever becomes of old chats.
        self._background.spawn(self._remove_old(user), "Removing old chats")
        return begun

    async def _notebook(self, user: str, request: ChatRequest) -> Notebook | None:
        """Return the notebook that a message is about; None for none.

        With `notebook_of`, it is that turn's notebook, which may have been renamed since the sender got
        its path.

        Raises:
            ChatNotFound, NotebookNotFound, PathRefused, InvalidArguments.
        """
        if request.notebook is None:
            return None
        found = None
        if request.notebook_of is not None and request.chat is not None:
            await self.get(user, request.chat)
            await self._save(request.chat)
            found = await self._store.notebook_of(request.chat, request.notebook_of)
        if found is None and not is_deleted(request.notebook):
            found = self._workspace.contain(request.notebook)
        return self._at(found or request.notebook)

    def _at(self, path: str | None) -> Notebook | None:
        """Return the notebook at a stored path; None for no path.

        Raises:
            NotebookNotFound: It was deleted since the path was stored.
        """
        if path is not None and is_deleted(path):
            raise deleted_error(path)
        return None if path is None else self._workspace.by_path.at(path)

    async def _check(self, message: Message) -> None:
        """Check that a message's notebook can be read.

        Raises:
            InvalidArguments, NotebookNotFound.
        """
        if message.about is not None:
            message.about.check_present()
            await (await self._workspace.store.open(message.about.path)).read()

    async def _send(
        self, chat: Chat, message: Message, plan: PlanSettled | None = None
    ) -> StartedTurn:
        """Queue a turn; the caller holds the chat's lock."""
        if chat.size > MAX_CHAT:
            raise LimitReached(
                f"This chat has more than {MAX_CHAT // 1000000} MB.", hint="Start another chat."
            )
        live = await self._open(chat)
        await self._make_room(live)
        await self._store.used(chat.id, message.notebook)
        pending = None if plan else await self._store.plan(chat.id)
        if pending is not None:
            plan = PlanSettled(pending.turn, "passed")
        before = live.log.last
        turn = live.send(message, plan)
        # So that it is known if it is sent again.
        await live.log.save()
        return StartedTurn(chat.id, turn, live.log.after(before, turn=turn))

    async def _replace(self, chat: Chat, turn: str, *, undo: bool) -> builtins.list[TakenBack]:
        """Stop a turn and all later ones, which the agent is to forget, and undo what they changed.

        Raises:
            InvalidArguments: the chat has no such turn, or it was already replaced.
            ChatNotFound, ChatElsewhere, LimitReached.
        """
        turns = await self._store.turns(chat.id)
        if turn not in turns:
            raise InvalidArguments(
                f"The chat has no turn `{turn[:80]}` to replace.",
                hint="Another message may have replaced it: reload the chat.",
            )
        replaced = turns[turns.index(turn) :]
        live = await self._open(chat)
        for each in replaced:
            await live.stop(each)
        taken: list[TakenBack] = []
        if undo:
            for each in replaced:
                await live.until_ended(each)
            # With the turns that were replaced before.
            onwards = await self._store.onwards(chat.id, turn)
            if entries := await self._entries(chat, onwards):
                of = "of a turn and those after it"
                taken = await undo_entries(
                    self._workspace, _caller_of(chat), entries, of=of, raises=False
                )
        await live.log.save()
        await self._store.replace(chat.id, replaced)
        if undo:
            live.log.add(turn, Restored(taken))
            await live.log.save()
        return taken

    async def _entries(self, chat: Chat, turns: Sequence[str]) -> builtins.list[JournalEntry]:
        """Return the journal entries of turns that can be undone, newest first."""
        journal, caller = self._workspace.journal, _caller_of(chat)
        # By turn: one query returns all of a turn, and a bounded number of others.
        found = [await journal.undoable(caller, None, turn=each) for each in turns]
        entries = [entry for of_turn in found for entry in of_turn]
        return sorted(entries, key=lambda entry: entry.id, reverse=True)

    # -- open chats

    async def _open(self, chat: Chat) -> LiveChat:
        """Return a chat that this server owns now; the caller holds its lock.

        Raises:
            ChatNotFound: it was deleted in the meantime.
            ChatElsewhere: another server is running a turn in it.
        """
        if self._closing is not None:
            raise AgentUnavailable("The server is stopping.", hint="Start it again.")
        chat = await self._store.claim(chat)
        live = self._live.pop(chat.id, None)
        last = await self._store.last(chat.id)
        if live is None:
            log = await self._log(chat)
            for turn in await self._store.unended(chat.id):
                # Its server was killed.
                log.add(turn, Failed.of(AgentDied("The server stopped during this turn.")))
                log.add(turn, Done("failed"))
            live = LiveChat(self._services, chat, log, self._on_idle)
        elif last > live.log.last:
            # Another server continued the chat: its history has changed.
            live.log.catch_up(last)
            await live.rest()
        self._live[chat.id] = live
        return live

    @asynccontextmanager
    async def _queueing(self, chat_id: str) -> AsyncGenerator[None]:
        """Queue messages in a chat, or replace turns of it, whose events so far are stored."""
        async with self._lock(chat_id):
            await self._save(chat_id)
            try:
                yield
            finally:
                if (live := self._live.get(chat_id)) is not None and not live.busy:
                    self._on_idle(live)

    async def _make_room(self, live: LiveChat) -> None:
        """Close the agent of the chat that was idle the longest, if there are too many.

        Raises:
            LimitReached: all of them are busy.
        """
        others = [each for each in self._live.values() if each.has_agent or each.busy]
        if live.has_agent or live.busy or len(others) < self._services.settings.max_live:
            return
        idle = next((each for each in others if not each.busy), None)
        if idle is None:
            raise LimitReached(
                f"{len(others)} chats are running.", hint="Wait until one ends, or stop one."
            )
        await idle.rest()

    async def _log(self, chat: Chat) -> ChatLog:
        """Return the event log of a chat."""
        last = await self._store.last(chat.id)
        if (log := self._logs.get(chat.id)) is None:
            self._logs[chat.id] = log = ChatLog(chat.id, self._store, last)
        log.catch_up(last)
        return log

    async def _save(self, chat_id: str) -> None:
        """Wait until the store has all events of this server."""
        if (log := self._logs.get(chat_id)) is not None:
            await log.save()

    def _busy(self, chat_id: str) -> bool:
        """Whether a turn of a chat is running or queued in this server."""
        return (live := self._live.get(chat_id)) is not None and live.busy

    def _on_idle(self, live: LiveChat) -> None:
        """Release an idle chat to other servers."""
        self._background.spawn(self._release(live), "Releasing a chat")

    async def _release(self, live: LiveChat) -> None:
        # If it fails, the chat stays this server's until the next turn, or until the server stops.
        async with self._lock(live.id):
            # Another server must not number its events as those that are not stored yet.
            if not live.busy and await live.log.save():
                await self._store.release(live.id)

    async def _remove_old(self, user: str) -> None:
        """Remove a user's least recently used chats over the limits, but none with a turn."""
        for old in await self._store.over(user):
            with suppress(ChatElsewhere, ChatNotFound):
                await self._remove(old, busy=False)

    async def _remove(self, chat: Chat, *, busy: bool = True) -> None:
        """End a chat and remove all its data; one with a turn only if ``busy``."""
        async with self._lock(chat.id):
            if not busy and self._busy(chat.id):
                return
            await self._store.claim(chat)
            if (live := self._live.pop(chat.id, None)) is not None:
                await live.close("The chat was deleted.")
            sessions = await self._store.sessions(chat)
            await self._store.delete(chat)
            if (log := self._logs.pop(chat.id, None)) is not None:
                await log.close()
        for each in sessions:
            try:
                await self._services.owner_of(each).forget(each)
            except (ToolError, OSError) as error:
                logger.warning("Cannot remove the data of an agent's session: %s", error)
        self._workspace.forget(_caller_of(chat))

    async def _close(self) -> None:
        for live in self._live.values():
            self._background.spawn(live.close("The server stopped."), "Closing a chat")
        await self._background.join()
        self._live.clear()
        await asyncio.gather(*(log.close() for log in [*self._logs.values()]))
        await self._store.close()

    def _lock(self, chat_id: str) -> asyncio.Lock:
        return self._locks.setdefault(chat_id, asyncio.Lock())


def _caller_of(chat: Chat) -> Caller:
    """Return a chat as a caller outside of any turn, for a person's own actions on its changes."""
    return Caller(user=chat.user, key=chat.id, interface="chat", name=chat.user)


async def _of_turn(events: AsyncIterator[Event], turn: str) -> AsyncIterator[Event]:
    """Yield the events of a turn from its first to its last one."""
    async for event in events:
        if event.turn == turn:
            yield event
            if event.kind == "done":
                return
