"""The smallest agent: it echoes messages, and makes the calls that they name.

Its sessions are in memory. A message is one of

- ``call TOOL {"argument": …}``, on one or several lines: it calls each tool and responds with the results;
- ``wait``: it writes a word and runs until it is interrupted;
- ``recall``: it responds with all messages in its history;
- anything else: it responds with the message.

A session of it, as a chat uses one:

>>> from tk_ai_extension.agent.backend import AgentTurnEnded
>>> from tk_ai_extension.tools.registry import Registry
>>> async def turn(text: str) -> list:
...     async def no_call(call, tool, arguments): ...
...     echo = EchoBackend()
...     provider = await echo.provider()
...     config = SessionConfig(provider, MODEL, "", Registry(()), no_call, None, None, None)
...     session = await echo.start(config)
...     await session.send([TextBlock(text)], model=MODEL, options={})
...     events = [await session.receive()]
...     while not isinstance(events[-1], AgentTurnEnded):
...         events.append(await session.receive())
...     await session.close()
...     return events
>>> [event.text for event in asyncio.run(turn("Hello.")) if isinstance(event, TextDelta)]
['Hello.']
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import mcp_types as types

from tk_ai_extension.agent.backend import (
    ContentBlock,
    HistoryMissing,
    SessionConfig,
    TextBlock,
    ToolCall,
)
from tk_ai_extension.agent.chat_events import TextDelta, ToolCalled
from tk_ai_extension.agent.chat_store import HistoryPosition
from tk_ai_extension.agent.launch_settings import ModelProvider
from tk_ai_extension.agent.tour_agent import InProcessSession
from tk_ai_extension.model.agent_errors import AgentDied

MODEL = "echo"


@dataclass
class EchoBackend:
    """An `AgentBackend` without a model.

    Attributes:
        kept: Messages of each session.
        received: Content of each message that was sent, of all sessions.
    """

    name: str = "Echo"
    kept: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    received: list[Sequence[ContentBlock]] = field(default_factory=list[Sequence[ContentBlock]])

    async def provider(self) -> ModelProvider:
        """Return the provider of a model that is always available."""
        return ModelProvider(MODEL, (MODEL,))

    async def start(self, config: SessionConfig) -> EchoSession:
        """Start an echo."""
        history = config.history
        if history is not None and history.session not in self.kept:
            raise HistoryMissing("The echo has no such session.")
        session = secrets.token_hex(8) if history is None else history.session
        kept = self.kept.setdefault(session, [])
        if history is not None and history.position is not None:
            del kept[int(history.position) :]
        return EchoSession(config.call, session, kept, self.received)

    async def forget(self, session: str) -> None:
        """Remove a session."""
        self.kept.pop(session, None)


class EchoSession(InProcessSession):
    """An `AgentSession` that answers in an asyncio task."""

    def __init__(
        self,
        call: ToolCall,
        session: str,
        kept: list[str],
        received: list[Sequence[ContentBlock]],
    ) -> None:
        super().__init__()
        self._received = received
        self._call_tool = call
        self._session = session
        self._kept = kept

    async def send(
        self, content: Sequence[ContentBlock], *, model: str, options: Mapping[str, str]
    ) -> None:
        """Begin a turn."""
        del options
        if model != MODEL:
            raise AgentDied(f"The echo has no model {model}.")
        self._received.append(content)
        text = _text(content)
        self._kept.append(text)
        self.begin(self._answer(text))

    async def _answer(self, text: str) -> None:
        self.events.put_nowait(HistoryPosition(self._session))
        try:
            match text.split(maxsplit=2):
                case ["call", _, _]:
                    for line in text.splitlines():
                        _, tool, arguments = line.split(maxsplit=2)
                        await self._call(tool, arguments)
                case ["wait"]:
                    self.events.put_nowait(TextDelta(0, "Waiting."))
                    await asyncio.Event().wait()
                case ["recall"]:
                    said = "\n".join(self._kept[:-1])
                    self.events.put_nowait(TextDelta(0, said))
                case _:
                    self.events.put_nowait(TextDelta(0, text))
        finally:
            self.events.put_nowait(HistoryPosition(self._session, str(len(self._kept))))

    async def _call(self, tool: str, arguments: str) -> None:
        call, given = secrets.token_hex(6), json.loads(arguments)
        self.events.put_nowait(ToolCalled(call, tool, given))
        result = await self._call_tool(call, tool, given)
        texts = [each.text for each in result.content if isinstance(each, types.TextContent)]
        self.events.put_nowait(TextDelta(0, "\n".join(texts)))


def _text(content: Sequence[ContentBlock]) -> str:
    return next(each.text for each in reversed(content) if isinstance(each, TextBlock))
