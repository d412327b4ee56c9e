"""The chats of a server: begun, found again, let go."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from tk_ai_extension.agent.checkpoints import TakenBack, take_back
from tk_ai_extension.agent.claude import forget
from tk_ai_extension.agent.events import Done, Event, Failed
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.requests import Asking, ChatRequest, Message
from tk_ai_extension.agent.session import ChatSession, Office
from tk_ai_extension.agent.transcripts import Chat
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import AgentDied, InvalidArguments, LimitReached, NoModel

MAX_TITLE = 80
"""Characters of a title."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn that was queued, and how its events are followed."""

    chat: str
    turn: str
    events: AsyncIterator[Event]


class Chats:
    """Every chat of a server, by user.

    Chats are kept in the transcripts; those that are used are sessions besides, each with a process
    of Claude at most, and their number is bounded.

    Args:
        office: What all chats share.
    """

    def __init__(self, office: Office) -> None:
        self._office = office
        self._live: dict[str, ChatSession] = {}
        # Held by those who open a chat just now, and by nobody afterwards.
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Sessions that are ending: what happens in them last has to be written down first.
        self._leaving: dict[str, asyncio.Task[None]] = {}

    async def send(
        self, user: str, request: ChatRequest, *, asking: Asking | None = None
    ) -> Begun:
        """Queues a turn in a chat of the user's, or in a new one.

        Args:
            user: Whose chat.
            request: What is sent.
            asking: The running cell that sends it.

        Raises:
            ChatNotFound, NoModel, PathRefused, NotANotebook, NotebookNotFound, LimitReached.
        """
        workspace = self._office.workspace
        model = await self._model(request.model)
        notebook = None if request.notebook is None else workspace.contain(request.notebook)
        if notebook is not None:
            await (await workspace.store.open(notebook)).read()
        message = Message(
            request.message,
            notebook,
            model,
            request.mode,
            request.active_cell,
            tuple(request.selected_cells),
            tuple(request.attachments),
            asking,
        )
        known = await self._known(user, request, notebook)
        if known is not None:
            return await self._send(known, message)
        title = storable(" ".join(message.text.split()))[:MAX_TITLE]
        chat = await self._office.transcripts.create(user, secrets.token_hex(12), title, notebook)
        try:
            begun = await self._send(chat, message)
        except LimitReached:
            await self._office.transcripts.delete(chat)
            raise
        for old in await self._office.transcripts.over(user):
            await self._remove(old)
        return begun

    async def list(self, user: str) -> list[tuple[Chat, bool]]:
        """The user's chats, the one used last first, and whether each is busy."""
        return [(chat, self.busy(chat)) for chat in await self._office.transcripts.list(user)]

    def busy(self, chat: Chat) -> bool:
        """Whether a turn of a chat goes on or waits."""
        live = self._live.get(chat.id)
        return live is not None and live.busy

    async def get(self, user: str, chat_id: str) -> Chat:
        """One of the user's chats.

        Raises:
            ChatNotFound.
        """
        return await self._office.transcripts.get(user, chat_id)

    async def events(self, user: str, chat_id: str, after: int = 0) -> list[Event]:
        """What happened in a chat so far.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        live = self._live.get(chat.id)
        if live is not None:
            await live.log.save()
        return await self._office.transcripts.events(chat.id, after)

    async def follow(self, user: str, chat_id: str, after: int = 0) -> AsyncIterator[Event]:
        """What happens in a chat after an event, until it is let go.

        Raises:
            ChatNotFound.
            InvalidArguments: no event of that number has happened.
        """
        log = (await self._session(await self.get(user, chat_id))).log
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
        """
        live = self._live.get((await self.get(user, chat_id)).id)
        return False if live is None else await live.stop(turn)

    async def rename(self, user: str, chat_id: str, title: str) -> None:
        """Gives a chat another title.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        await self._office.transcripts.rename(chat, storable(title)[:MAX_TITLE])

    async def delete(self, user: str, chat_id: str) -> None:
        """Ends a chat and removes its transcript; what it did in notebooks stays.

        Raises:
            ChatNotFound.
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
        """Takes back what a turn changed, where nobody has worked on since.

        Args:
            user: Whose chat.
            chat_id: The chat.
            turn: The turn.
            cells: Only these cells, by their keys; None for all.
            onwards: The turns after it as well.

        Raises:
            ChatNotFound, NothingToUndo.
        """
        chat = await self.get(user, chat_id)
        return await take_back(
            self._office.workspace, _caller(chat), turn=turn, cells=cells, onwards=onwards
        )

    async def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        await self._office.transcripts.renamed(old, new)

    async def close(self) -> None:
        """Ends all sessions; transcripts are complete then."""
        sessions, self._live = list(self._live.values()), {}
        await asyncio.gather(*(session.close() for session in sessions), *self._leaving.values())
        await self._office.transcripts.close()

    async def _known(
        self, user: str, request: ChatRequest, notebook: str | None
    ) -> Chat | None:
        """The chat that a message belongs to; None for a new one."""
        if request.chat is not None:
            return await self.get(user, request.chat)
        chats = await self._office.transcripts.list(user) if request.latest else []
        return next((chat for chat in chats if chat.notebook == notebook), None)

    async def _send(self, chat: Chat, message: Message) -> Begun:
        await self._office.transcripts.used(chat.id, message.notebook)
        session = await self._session(chat)
        # From here on nothing waits: the session may be let go whenever it is idle.
        before = session.log.last
        turn = session.send(message)
        return Begun(chat.id, turn, session.log.after(before, turn=turn))

    async def _remove(self, chat: Chat) -> None:
        """Ends a chat, and removes all that is kept of it."""
        live = self._live.pop(chat.id, None)
        if live is not None:
            await live.close()
        await self._left(chat.id)
        # Claude's session may have got its name since the chat was looked up.
        chat = await self.get(chat.user, chat.id)
        await self._office.transcripts.delete(chat)
        if chat.session is not None:
            await asyncio.to_thread(forget, self._office.surroundings, chat.session)
        self._office.workspace.forget(_caller(chat))

    async def _model(self, asked: str | None) -> str:
        """The model that answers.

        Raises:
            NoModel: none is connected, or none of that name.
        """
        provider = await self._office.provider()
        if not provider.ready:
            raise NoModel(f"{provider.label} cannot be asked yet.", hint=provider.hint)
        model = asked or provider.model
        if model not in provider.models:
            raise NoModel(
                f"There is no model `{model[:80]}` here.",
                hint=f"Choose among: {', '.join(provider.models)}.",
            )
        return model

    async def _session(self, chat: Chat) -> ChatSession:
        """The session of a chat, opened where there is none."""
        async with self._opening.setdefault(chat.id, asyncio.Lock()):
            live = self._live.pop(chat.id, None)
            if live is None:
                await self._left(chat.id)
                chat = await self.get(chat.user, chat.id)
                log = ChatLog(
                    chat.id, self._office.transcripts, await self._office.transcripts.last(chat.id)
                )
                self._make_room()
                await self._end_what_was_cut(chat, log)
                live = ChatSession(self._office, chat, log, self._let_go)
            # The one used last goes last.
            self._live[chat.id] = live
            return live

    async def _left(self, chat_id: str) -> None:
        """Waits until a session of a chat that is ending has ended."""
        if (leaving := self._leaving.get(chat_id)) is not None:
            await asyncio.wait((leaving,))

    async def _end_what_was_cut(self, chat: Chat, log: ChatLog) -> None:
        """A server that was killed left its last turn without an end: it gets one."""
        events = await self._office.transcripts.events(chat.id, log.last - 1)
        if events and events[-1].kind != "done":
            error = AgentDied("The server stopped in the middle of this turn.")
            log.add(events[-1].turn, Failed(error.as_dict()))
            log.add(events[-1].turn, Done("failed"))

    def _make_room(self) -> None:
        if len(self._live) < self._office.settings.max_live:
            return
        idle = next((session for session in self._live.values() if not session.busy), None)
        if idle is None:
            raise LimitReached(
                f"{len(self._live)} chats are answered just now.",
                hint="Wait until one has ended, or stop one.",
            )
        self._let_go(idle)

    def _let_go(self, session: ChatSession) -> None:
        if self._live.get(session.id) is session:
            del self._live[session.id]
        task = asyncio.create_task(session.close(), name="tk-ai chat ends")
        self._leaving[session.id] = task

        def left(_: asyncio.Task[None]) -> None:
            if self._leaving.get(session.id) is task:
                del self._leaving[session.id]

        task.add_done_callback(left)


def _caller(chat: Chat) -> Caller:
    """A chat as a caller, in no turn: what a person does with its changes needs nobody's leave."""
    return Caller(user=chat.user, key=chat.id, face="chat", name=chat.user)


def storable(text: str) -> str:
    """The text as SQLite can hold it: half a surrogate pair becomes a question mark."""
    return text.encode(errors="replace").decode()
