"""The history that the agent keeps of a chat: where it is resumed, and what of it is left out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from tk_ai_extension.agent.backend import (
    AgentBackend,
    AgentSession,
    Checkpoint,
    History,
    HistoryMissing,
    SessionConfig,
)
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.services import ChatServices
from tk_ai_extension.agent.transcripts import Chat
from tk_ai_extension.agent.turns import Turn
from tk_ai_extension.model.agent_errors import AgentDied
from tk_ai_extension.model.errors import ToolError

logger = logging.getLogger(__name__)

MAX_RESUMES = 4
"""How often an agent may fail to resume a history, twice in a turn, before it is given up."""


class ChatHistory:
    """The agent's history of an active chat.

    Args:
        services: Services that all chats share.
        chat: The stored chat.
        log: The event log of the chat.
        replaced: Turns to leave out of the history.

    Attributes:
        replaced: Turns to leave out, until the agent has been started without them.
    """

    def __init__(
        self, services: ChatServices, chat: Chat, log: ChatLog, replaced: Sequence[str]
    ) -> None:
        self._services = services
        self._chat_id = chat.id
        self._log = log
        self._session = chat.session
        self.replaced = tuple(replaced)
        # Sessions whose history continues in another one, until that one has answered.
        self._left: set[str] = set()

    def leave_out(self, turns: Sequence[str]) -> None:
        """Leave turns out when the agent is started again."""
        self.replaced += tuple(turns)

    async def start(self, backend: AgentBackend, turn: Turn, config: SessionConfig) -> AgentSession:
        """Start the agent with the history up to the last turn before the replaced ones.

        Args:
            backend: The agent.
            turn: The running turn, in which the person is notified of what is lost.
            config: Settings of the session; `history` and `cost` are replaced.

        Raises:
            AgentUnavailable, AgentDied.
        """
        if self._session is not None and self._services.owner_of(self._session) is not backend:
            # The history is another agent's.
            self._session = None
            turn.notify(_forgotten(turn))
        history = await self._found(turn)
        if history.session is not None:
            config = replace(config, history=history, cost=await self._cost())
            if (agent := await self._resumed(backend, config, history.session)) is not None:
                return agent
        agent = await backend.start(replace(config, history=History(), cost=0.0))
        if history.session is not None:
            # Its data stay until the chat is deleted.
            self._session = None
            turn.notify(_forgotten(turn))
        return agent

    async def remember(self, turn: Turn, checkpoint: Checkpoint) -> None:
        """Store where the agent's history of the chat ends."""
        left, self._session = self._session, checkpoint.session
        if left is not None and left != self._session:
            self._left.add(left)
        elif left == self._session and checkpoint.position is None:
            return
        try:
            await self._services.transcripts.session(
                self._chat_id, checkpoint.session, turn.id, checkpoint.position
            )
        except ToolError as error:
            # Not fatal for the turn: a later restart reports the missing history.
            logger.warning("Cannot save the position in a chat's history: %s", error.message)
            return
        if checkpoint.position is not None:
            # The agent has answered: the new session has all that is kept of the others.
            for each in self._left - {self._session}:
                await self._services.forget(each)
            self._left.clear()

    async def _resumed(
        self, backend: AgentBackend, config: SessionConfig, session: str
    ) -> AgentSession | None:
        """Start the agent with its history; return None if that is lost.

        Raises:
            AgentDied: It failed, which does not mean that the history is lost.
        """
        # The count outlives this object, which an idle chat releases.
        failures = self._services.failed_resumes
        for is_last in (False, True):
            try:
                agent = await backend.start(config)
            except HistoryMissing as error:
                logger.warning("The history of a chat is lost: %s", error.message)
                return None
            except AgentDied as error:
                logger.warning("Cannot resume the history of a chat: %s", error.message)
                failures[session] += 1
                if failures[session] < MAX_RESUMES and is_last:
                    raise
            else:
                failures.pop(session, None)
                return agent
        return None

    async def _found(self, turn: Turn) -> History:
        """Return the history to resume."""
        if self._session is None or not self.replaced:
            return History(self._session)
        await self._log.save()
        transcripts = self._services.transcripts
        turns = await transcripts.turns(self._chat_id)
        kept = turns[: turns.index(turn.id)] if turn.id in turns else turns
        kept = [each for each in kept if each not in self.replaced]
        found = await transcripts.position(self._chat_id, self._session, kept)
        history = History()
        if found is not None:
            last, position = found
            kept = kept[kept.index(last) + 1 :]
            history = History(self._session, position)
        if await transcripts.answered(self._chat_id, kept):
            # Written by a version without positions, or the agent ended during these turns.
            turn.notify(_forgotten(turn) if found is None else _forgotten_partly(turn))
        return history

    async def _cost(self) -> float | None:
        """Return the cost of the agent's session so far, in US dollars."""
        await self._log.save()
        usage = await self._services.transcripts.usage(self._chat_id)
        # Older transcripts have the total in the field of the turn's cost.
        return None if usage is None else usage.get("session_cost_usd", usage["cost_usd"])


def _forgotten(turn: Turn) -> str:
    return f"{turn.caller.name} has lost the earlier messages of this chat."


def _forgotten_partly(turn: Turn) -> str:
    return f"{turn.caller.name} has lost a message before this one, whose answer ended early."
