"""How long a turn waits: until it is stopped, or its agent is silent for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tk_ai_extension.agent.backend import STOP_TIMEOUT
from tk_ai_extension.agent.turns import Turn
from tk_ai_extension.model.agent_errors import AgentDied, CallStopped, ModelFailed

T = TypeVar("T")


async def until_stopped(turn: Turn, work: Coroutine[Any, Any, T]) -> T:
    """Await what a turn requires before its agent answers. A stop of the turn cancels it.

    Raises:
        CallStopped: The turn was stopped.
    """
    limit = asyncio.timeout(None)

    def end_if_stopped() -> None:
        if turn.stopped is not None and not limit.expired():
            limit.reschedule(turn.stopped)

    try:
        async with limit:
            turn.on_change = end_if_stopped
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise CallStopped(turn.why_stopped) from None
    finally:
        turn.on_change = lambda: None


class SilenceLimit:
    """The limit of everything that a turn awaits from its agent.

    While a call is running, there is none; a stop shortens it to `STOP_TIMEOUT`.

    Args:
        turn: The turn.
        seconds: How long its agent may be silent.

    Attributes:
        more: How many seconds longer it may be silent now.
    """

    def __init__(self, turn: Turn, seconds: float) -> None:
        self._turn = turn
        self._seconds = seconds
        self._timeout: asyncio.Timeout | None = None
        self.more = 0.0
        turn.on_change = self._set

    async def limit(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something from the agent.

        Raises:
            AgentDied: It did not stop in time.
            ModelFailed: Nothing happened within the limit.
        """
        try:
            async with asyncio.timeout(None) as self._timeout:
                self._set()
                return await work
        except TimeoutError:
            if self._turn.stopped is not None:
                # It may have been interrupted before it received the turn, and continue.
                name = self._turn.caller.name
                raise AgentDied(f"{name} did not stop in time.") from None
            seconds = self._seconds + self.more
            raise ModelFailed(
                f"The model sent nothing for {seconds:.0f} s.",
                hint="Send the message again, or increase TkAIExtensionApp.chat_silence.",
            ) from None
        finally:
            self._timeout = None

    def _set(self) -> None:
        if self._timeout is None or self._timeout.expired():
            return
        if self._turn.stopped is not None:
            self._timeout.reschedule(self._turn.stopped + STOP_TIMEOUT)
        elif self._turn.calls:
            self._timeout.reschedule(None)
        else:
            now = asyncio.get_running_loop().time()
            self._timeout.reschedule(now + self._seconds + self.more)
