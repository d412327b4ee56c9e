"""A scripted model for tests: the Messages API on loopback.

The real SDK and its real CLI connect to it as they do to Anthropic, so that tests cover the whole
chain except the model::

    model = ScriptedModel(
        Answer.of(Thinking("A plot, then."), "I'll look.", ToolUse("list_cells")),
        lambda request: Answer.of(f"It says: {request.tool_results[0].text}"),
    )
    async with model.running():
        options = ClaudeAgentOptions(env=model.environment, model=MODEL, tools=[], ...)
        ...
    assert model.requests[1].tool_results[0].is_error is False

Each request for a message takes the next turn of the script, including retries. A turn is a
`Reply` or a function that makes one from the request. Tools are called by their names in the
registry; the prefix of the MCP server is taken from the request.

Faults: `UNAUTHORIZED`, `rate_limited`, `BROKEN`, `OVERLOADED`, `Hang`, `Cut`;
`Held` pauses in the middle until the test resumes it. Nothing is timed: `requested` awaits a
request, `Hang.gone` its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from itertools import islice

from tests.support.messages import (
    Answer,
    Failure,
    MessagesRequest,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from tests.support.messages_api import Exchange, MessagesServer, Reply
from tk_ai_extension.agent.claude.providers import beside_proxies

__all__ = [
    "BROKEN",
    "KEY",
    "MODEL",
    "OVERLOADED",
    "UNAUTHORIZED",
    "Answer",
    "Cut",
    "Failure",
    "Hang",
    "Held",
    "MessagesRequest",
    "ScriptedModel",
    "Text",
    "Thinking",
    "ToolResult",
    "ToolUse",
    "rate_limited",
]

MODEL = "claude-scripted-1"
"""A model's id for options: without one the CLI picks its own."""

KEY = "sk-ant-scripted"
"""The key that the server requires."""

Turn = Reply | Callable[[MessagesRequest], Reply]
"""One entry of a script."""

# -- faults of an API

UNAUTHORIZED = Failure(401, "authentication_error", "invalid x-api-key")
BROKEN = Failure(500, "api_error", "Internal server error")
OVERLOADED = Failure(529, "overloaded_error", "Overloaded")


def rate_limited(retry_after: int | None = 1) -> Failure:
    """Return the error for too many requests, with the seconds until a retry."""
    message = "This request would exceed your rate limit."
    return Failure(429, "rate_limit_error", message, retry_after)


@dataclass(frozen=True)
class Hang:
    """Accepts the request and sends nothing until the client disconnects.

    Attributes:
        gone: Set when the client has disconnected.
    """

    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, to: Exchange) -> None:
        """Wait until it is cancelled."""
        del to
        try:
            await asyncio.Event().wait()
        finally:
            self.gone.set()


@dataclass(frozen=True)
class Cut:
    """Starts a response and drops the connection after a number of events, and once ``now`` is set."""

    answer: Answer
    after: int = 3
    now: asyncio.Event | None = None

    async def send(self, to: Exchange) -> None:
        """Send the first events, then drop the connection."""
        for event in islice(self.answer.events(to.request), self.after):
            await to.event(event)
        if self.now is not None:
            await self.now.wait()
        to.cut()


@dataclass(frozen=True)
class Held:
    """Starts a response, pauses after a number of events, and continues when the test resumes it.

    Attributes:
        answer: The whole response.
        after: Number of events before the pause.
        held: Set when it has paused.
        go_on: Set it to send the rest.
        gone: Set when the client has disconnected.
    """

    answer: Answer
    after: int = 3
    held: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, to: Exchange) -> None:
        """Send the response in two parts."""
        events = self.answer.events(to.request)
        try:
            for event in islice(events, self.after):
                await to.event(event)
            self.held.set()
            await self.go_on.wait()
            for event in events:
                await to.event(event)
        except asyncio.CancelledError:
            self.gone.set()
            raise


class ScriptedModel:
    """A Messages API server that follows a script.

    Args:
        turns: The script.
        key: Required key; None accepts any.
    """

    def __init__(self, *turns: Turn, key: str | None = KEY) -> None:
        self.requests: list[MessagesRequest] = []
        """All requests for messages, in order, for assertions."""
        self.names: tuple[str, ...] = (MODEL,)
        self._turns = deque(turns)
        self._key = key
        self._server = MessagesServer(self, key=key)
        self._arrived = asyncio.Event()

    def add(self, *turns: Turn) -> None:
        """Add turns to the end of the script."""
        self._turns.extend(turns)

    def clear(self) -> None:
        """Drop the unused turns."""
        self._turns.clear()

    def reply(self, request: MessagesRequest) -> Reply:
        """Return the next turn of the script.

        After the end of the script, return an error that the CLI does not retry (it retries other
        4xx with fewer features).
        """
        self.requests.append(request)
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()
        if not self._turns:
            return Failure(402, "billing_error", "The script of the model has ended.")
        turn = self._turns.popleft()
        return turn(request) if callable(turn) else turn

    async def requested(self, count: int = 1) -> MessagesRequest:
        """Wait for the n-th request, from 1, and return it."""
        while len(self.requests) < count:
            await self._arrived.wait()
        return self.requests[count - 1]

    @property
    def url(self) -> str:
        """Address for `ANTHROPIC_BASE_URL`."""
        return self._server.url

    @property
    def environment(self) -> dict[str, str]:
        """Environment for the CLI to connect to this server only.

        `CLAUDE_CONFIG_DIR` is not included: give each test its own folder.
        """
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": self._key or "any",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
            **beside_proxies(os.environ),
        }

    @contextlib.asynccontextmanager
    async def running(self, listener: socket.socket | None = None) -> AsyncGenerator[ScriptedModel]:
        """Run in a block; on a listening socket, which stays open, or on a free port."""
        async with self._server.running(listener):
            yield self
