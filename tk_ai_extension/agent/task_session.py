"""Base class of agents that answer in an asyncio task of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence

from tk_ai_extension.agent.backend import AgentEvent, ContentBlock, TurnEnded
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.errors import InternalError
from tk_ai_extension.workspace.turn_credentials import TurnCredential


class TaskSession:
    """An `AgentSession` without `send`, which calls `begin`.

    Attributes:
        alive: See `AgentSession.alive`.
        events: Queue of the events that `receive` returns.
    """

    def __init__(self) -> None:
        self.alive = True
        self.events: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._answering: asyncio.Task[None] | None = None

    def begin(self, answer: Coroutine[None, None, None]) -> None:
        """Answer in a task. `TurnEnded` follows, even if the task is cancelled before it starts."""
        self._answering = asyncio.create_task(answer, name="tk-ai agent")
        self._answering.add_done_callback(self._on_end)

    async def compact(self, *, model: str, credential: TurnCredential) -> None:
        """Refuse: there is no history to compact."""
        del model, credential
        raise AgentUnavailable("This agent cannot compact a chat.", hint="Start another chat.")

    async def receive(self) -> AgentEvent:
        """Return the next event."""
        return await self.events.get()

    async def steer(self, content: Sequence[ContentBlock]) -> bool:
        """Take no message into a running turn."""
        del content
        return False

    async def interrupt(self) -> None:
        """End the running turn."""
        if self._answering is not None:
            self._answering.cancel()

    async def close(self) -> None:
        """End the agent."""
        self.alive = False
        await self.interrupt()
        if self._answering is not None:
            await asyncio.wait((self._answering,))

    def _on_end(self, answering: asyncio.Task[None]) -> None:
        error = None if answering.cancelled() else answering.exception()
        failed = None if error is None else InternalError(f"The agent failed: {error!r}")
        self.events.put_nowait(TurnEnded(failed))
