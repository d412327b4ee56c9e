"""Messages and requests for code of one user, whatever others send meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.agent import code_assistant, sent_messages
from tk_ai_extension.agent.code_assistant import CodeAnswer, CodeAssistant
from tk_ai_extension.agent.code_requests import CompletionRequest
from tk_ai_extension.agent.sent_messages import SentMessages, StartedTurn
from tk_ai_extension.model.errors import LimitReached

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


class Hanging:
    """A model that does not answer; also what finds it, and names no variables."""

    async def find(self, *, fast: bool) -> Hanging:  # noqa: ARG002
        return self

    async def answer(self, prompt: Any, timeout: float) -> CodeAnswer:  # noqa: ARG002
        return await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        pass


def request(client: int) -> CompletionRequest:
    return CompletionRequest(
        client=f"client {client}",
        notebook=None,
        cell_type="code",
        language="python",
        prefix="x",
        suffix="",
    )


@pytest.mark.proves("chat:one-end", "threat:other-user")
async def test_the_requests_for_code_of_one_user_deny_none_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(code_assistant, "MAX_RUNNING", 2)
    model: Any = Hanging()
    assistant = CodeAssistant(model, model)
    asked = [
        asyncio.create_task(assistant.complete(user, request(client)))
        for user in ("bob", "alice")
        for client in range(3)
    ]
    for _ in range(6):
        await asyncio.sleep(0)
    assert [task.done() for task in asked] == [False, False, True] * 2
    await assistant.close()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(each, LimitReached) for each in ended] == [False, False, True] * 2
