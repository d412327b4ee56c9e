"""The chats that are used just now: which has a session here, which is another server's, who follows.

Several servers may share the transcripts. A chat is one server's from a message to the end of the
last turn that waits, and each goes on where the other ended.
"""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakValueDictionary

from tk_ai_extension.agent.events import Done, Failed
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.session import ChatServices, ChatSession
from tk_ai_extension.agent.transcripts import Chat
from tk_ai_extension.model.agent_errors import AgentDied, AgentUnavailable, ChatElsewhere
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import LimitReached, ToolError

logger = logging.getLogger(__name__)


class Sessions:
    """The sessions of a server's chats, each with an agent at most; bounded in number.

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

    def busy(self, chat_id: str) -> bool:
        """Whether a turn of a chat goes on or waits here."""
        live = self._live.get(chat_id)
        return live is not None and live.busy

    @property
    def working(self) -> int:
        """In how many chats a turn goes on or waits here."""
        return sum(live.busy for live in self._live.values())

    async def open(self, chat: Chat, notebook: str | None) -> ChatSession:
        """The session of a chat to which a message about a notebook is sent now, without waiting.

        One that is idle may be let go later: `on_idle` where nothing is sent after all.

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
                if not self.busy(chat.id):
                    await self._transcripts.release(chat.id)
                raise
            # The one used last goes last.
            self._live.pop(chat.id, None)
            self._live[chat.id] = live
            return live

    async def follow(self, chat: Chat) -> ChatLog:
        """What happens in a chat; who follows takes no place among the sessions."""
        async with self._lock(chat.id):
            await self._until_ended(chat.id)
            log = await self._log(chat.id)
            if chat.id not in self._live:
                await self._close_interrupted_turns(chat, log)
            return log

    async def saved(self, chat_id: str) -> None:
        """Waits until the transcript has all that happened here."""
        log = self._logs.get(chat_id)
        if log is not None:
            await log.save()

    async def stop(self, chat: Chat, turn: str | None) -> bool:
        """Stops the turn that goes on and those that wait, or one of them; whether there were any.

        Raises:
            ChatElsewhere: they are another server's.
        """
        live = self._live.get(chat.id)
        if live is not None and live.busy:
            return await live.stop(turn)
        if chat.id in await self._transcripts.elsewhere():
            raise ChatElsewhere("Another server of this folder answers in this chat just now.")
        return False

    async def remove(self, chat: Chat) -> Chat:
        """Ends a chat, and removes it from the transcripts; what it was at last.

        Raises:
            ChatNotFound, ChatElsewhere.
        """
        async with self._lock(chat.id):
            await self._transcripts.claim(chat)
            live = self._live.pop(chat.id, None)
            if live is not None:
                await live.close("The chat was deleted.")
            await self._until_ended(chat.id)
            # The agent's session may have got its id since the chat was looked up.
            chat = await self._transcripts.get(chat.user, chat.id)
            await self._transcripts.delete(chat)
            log = self._logs.pop(chat.id, None)
            if log is not None:
                await log.close()
            return chat

    def on_idle(self, session: ChatSession) -> None:
        """Releases the chat of a session in which nothing goes on any more to other servers."""
        self._releasing.spawn(self._release(session), "tk-ai chat rests")

    async def close(self) -> None:
        """Ends all sessions; transcripts are complete then. A second time changes nothing."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="tk-ai chats end")
        await asyncio.shield(self._closing)

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
            raise AgentUnavailable("The server is stopping.", hint="Start it again.")
        self._make_room()
        return ChatSession(
            self._services,
            chat,
            log,
            plan=None if plan is None else plan.turn,
            forgotten=forgotten,
            on_idle=self.on_idle,
            on_expired=self._detach,
        )

    async def _release(self, session: ChatSession) -> None:
        try:
            async with self._lock(session.id):
                if not session.busy and not self.busy(session.id):
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
        log = self._logs.get(chat_id)
        if log is None:
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
            error = AgentDied("The server stopped in the middle of this turn.")
            log.add(turn, Failed(error.as_dict()))
            log.add(turn, Done("failed"))

    def _make_room(self) -> None:
        if len(self._live) < self._services.settings.max_live:
            return
        idle = next((session for session in self._live.values() if not session.busy), None)
        if idle is None:
            raise LimitReached(
                f"{len(self._live)} chats are answered just now.",
                hint="Wait until one has ended, or stop one.",
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
