"""Event logs of the chats of a server."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from tk_ai_extension.agent.events import Done, Failed
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.transcripts import Chat, Transcripts
from tk_ai_extension.model.agent_errors import AgentDied, ChatElsewhere


class ChatLogs:
    """Event logs of chats that have a session or a follower.

    Args:
        transcripts: Where events are stored.
    """

    def __init__(self, transcripts: Transcripts) -> None:
        self._transcripts = transcripts
        self._logs: WeakValueDictionary[str, ChatLog] = WeakValueDictionary()

    async def of(self, chat_id: str) -> ChatLog:
        """Return the event log of a chat; the caller holds its lock."""
        last = await self._transcripts.last(chat_id)
        if (log := self._logs.get(chat_id)) is None:
            self._logs[chat_id] = log = ChatLog(chat_id, self._transcripts, last)
        log.catch_up(last)
        return log

    async def save(self, chat_id: str) -> None:
        """Wait until the transcript has all events of this server."""
        if (log := self._logs.get(chat_id)) is not None:
            await log.save()

    async def remove(self, chat_id: str) -> None:
        """Close the log of a deleted chat."""
        if (log := self._logs.pop(chat_id, None)) is not None:
            await log.close()

    async def close(self) -> None:
        """Close all logs."""
        await asyncio.gather(*(log.close() for log in list(self._logs.values())))

    async def close_interrupted_turns(self, chat: Chat, log: ChatLog) -> None:
        """End interrupted turns of a chat in which no server is running a turn."""
        if not await self._transcripts.unended(chat.id):
            return
        try:
            await self._transcripts.claim(chat)
        except ChatElsewhere:
            # A turn without an end is running there.
            return
        await self.end_interrupted_turns(chat.id, log)
        await log.save()
        await self._transcripts.release(chat.id)

    async def end_interrupted_turns(self, chat_id: str, log: ChatLog) -> None:
        """Add the missing end to turns of a server that was killed."""
        if not await log.save():
            # What ended here looks like it until it is stored.
            return
        for turn in await self._transcripts.unended(chat_id):
            log.add(turn, Failed.of(AgentDied("The server stopped during this turn.")))
            log.add(turn, Done("failed"))
