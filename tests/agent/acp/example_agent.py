"""An agent made with the protocol's own package, as its example: it repeats what it is sent."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from acp import (
    PROTOCOL_VERSION,
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    update_agent_message,
)
from acp.interfaces import Client
from acp.schema import AgentCapabilities


class ExampleAgent:
    """Repeats the blocks of a message."""

    _client: Client

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, **_kwargs: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION, agent_capabilities=AgentCapabilities()
        )

    async def new_session(self, **_kwargs: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="1")

    async def prompt(self, session_id: str, prompt: Any, **_kwargs: Any) -> PromptResponse:
        for block in prompt[-1:]:
            await self._client.session_update(session_id, update_agent_message(block))
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    asyncio.run(run_agent(cast(Agent, ExampleAgent())))
