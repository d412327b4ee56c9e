"""The smallest agent of the Agent Client Protocol: it answers in capitals.

c.TkAIExtensionApp.acp_agents = {"shout": ["python", "/path/to/shout_agent.py"]}
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from acp import (
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    text_block,
    update_agent_message,
)


class Shout(Agent):
    """An agent without a model."""

    def on_connect(self, conn: Any) -> None:
        """Keep the connection, for messages to the chat."""
        self.chat = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Agree on the version of the protocol."""
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **_: Any) -> NewSessionResponse:
        """Begin a chat. A real agent connects to the MCP servers in the request."""
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        """Answer a message. Its last part is what the person wrote, the first is the context."""
        answer = text_block(prompt[-1].text.upper())
        await self.chat.session_update(session_id, update_agent_message(answer))
        return PromptResponse(stop_reason="end_turn")


asyncio.run(run_agent(Shout()))
