"""Messages of one user, whatever others send meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.agent import sent_messages
from tk_ai_extension.agent.sent_messages import SentMessages, StartedTurn

KEPT = 3


class Sender:
    """Users whose messages begin turns, which start when the test says so."""

    def __init__(self) -> None:
        chats: Any = None  # No events are read.
        self.sent = SentMessages(chats)
        self.begun = Counter[tuple[str, str]]()
        self.slow: dict[tuple[str, str], asyncio.Event] = {}
        self.tasks: list[asyncio.Task[StartedTurn]] = []

    def send(self, user: str, message: str, *, is_slow: bool = False) -> None:
        async def begin() -> StartedTurn:
            self.begun[user, message] += 1
            if is_slow:
                await self.slow.setdefault((user, message), asyncio.Event()).wait()
            events: Any = None
            return StartedTurn("chat", f"{user} {message}", events)

        self.tasks.append(asyncio.create_task(self.sent.once(user, message, begin)))

    async def settle(self) -> None:
        """Let all that does not wait for the test end."""
        for _ in range(6):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for event in self.slow.values():
            event.set()
        await asyncio.gather(*self.tasks)


@pytest.mark.proves("rest:chat", "threat:other-user")
@given(
    st.lists(
        st.tuples(st.sampled_from(["alice", "bob"]), st.integers(0, 9), st.booleans()), max_size=40
    )
)
def test_a_message_that_is_sent_again_begins_no_second_turn_whatever_others_send(
    messages: list[tuple[str, int, bool]],
) -> None:
    async def check() -> None:
        sender = Sender()
        kept: dict[str, list[str]] = {"alice": [], "bob": []}
        begun = Counter[tuple[str, str]]()
        for user, number, is_slow in messages:
            message = f"{number}"
            if message not in kept[user] and (user, message) not in sender.slow:
                begun[user, message] += 1
                if not is_slow:
                    kept[user] = [*kept[user], message][-KEPT:]
            sender.send(user, message, is_slow=is_slow)
            await sender.settle()
            assert sender.begun == begun
        await sender.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sent_messages, "KEPT", KEPT)
        asyncio.run(check())
