"""The interface between chats and an agent: what is sent, what comes back, and who calls what.

Chats know these types alone. An agent is one package with an `AgentBackend` (`agent.claude` for the
Claude Agent SDK), registered where the chats are put together. `testing.echo_agent` is the smallest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mcp_types as types

from tk_ai_extension.agent.events import (
    Discarded,
    Retried,
    TextDelta,
    ThinkingDelta,
    ToolAnswered,
    ToolCalled,
    Used,
)
from tk_ai_extension.agent.models import ModelProvider
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.tools.results import Image
from tk_ai_extension.workspace.turn_credentials import TurnCredential

STOP_TIMEOUT = 5.0
"""Seconds that an agent gets to end a turn, or itself, when it is interrupted."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text in a message to an agent."""

    text: str


ContentBlock = TextBlock | Image
"""A part of a message to an agent."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where the agent keeps the history of the chat.

    Attributes:
        session: The id of the agent's session.
        position: Its last entry now, in the agent's terms: `History` may end there later. None at the
            start of a turn.
    """

    session: str
    position: str | None = None


@dataclass(frozen=True, slots=True)
class Working:
    """The agent is at work, with nothing to show: it restarts the timeout for silence."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The last event of a turn, also of one that was interrupted.

    Attributes:
        error: Why the agent could not answer; None where it did, or was interrupted.
    """

    error: ToolError | None = None


AgentEvent = (
    TextDelta
    | ThinkingDelta
    | Discarded
    | ToolCalled
    | ToolAnswered
    | Retried
    | Used
    | Checkpoint
    | Working
    | TurnEnded
)
"""What an agent reports. A call is reported when the agent decides on it, and may be reported again; its
answer is reported only where the agent made it up itself (a tool that does not exist)."""


@dataclass(frozen=True, slots=True)
class History:
    """What an agent remembers when it starts.

    Attributes:
        session: The id of a session, of a `Checkpoint`; None for no history.
        position: The last entry of it that counts, of a `Checkpoint`; None for all. With a position, the
            session is forked: what came after it is not remembered.
    """

    session: str | None = None
    position: str | None = None


ToolCall = Callable[[str, str, str, Mapping[str, Any]], Awaitable[types.CallToolResult]]
"""Carries out a call: the token of its turn's credential, the call's id, the tool's name, its arguments."""


@dataclass(frozen=True)
class SessionConfig:
    """What a session is started with.

    Attributes:
        provider: What `AgentBackend.provider` returned last.
        model: The model of the first turn.
        instructions: The system prompt.
        registry: The tools: all that the agent may call.
        call: Carries out a call of an agent in this process. It raises nothing but a cancellation. An
            agent in another process calls by MCP over HTTP, with the credential in the header `mcp.TURN`.
        history: What the agent remembers.
        cost: What the history has cost in dollars; None where that is not known.
    """

    provider: ModelProvider
    model: str
    instructions: str
    registry: Registry
    call: ToolCall
    history: History
    cost: float | None


class AgentSession(Protocol):
    """An agent that answers in one chat, one turn after the other. Belongs to that chat's session."""

    @property
    def alive(self) -> bool:
        """Whether it can take another turn, as far as is known.

        Called before each turn; the chat closes one that is not, and starts another.
        """
        ...

    async def send(
        self,
        content: Sequence[ContentBlock],
        *,
        model: str,
        credential: TurnCredential,
    ) -> None:
        """Begin a turn.

        Called when the turn before has ended. `receive` gives the turn's events from then on.

        Args:
            content: The person's message.
            model: The model that answers.
            credential: What the calls of this turn carry, whichever way they come in. It counts until
                the turn is stopped or has ended; a call without it, or after that, is refused.

        Raises:
            AgentDied: The agent has ended.
        """
        ...

    async def receive(self) -> AgentEvent:
        """Return the next event.

        Called until `TurnEnded` is there. A cancellation loses no event.

        Raises:
            AgentDied: The agent has ended, and no event is left.
        """
        ...

    async def interrupt(self) -> None:
        """End the turn under way.

        Called at any time, also between turns. `TurnEnded` follows soon, and the calls of the turn are
        cancelled; the session can take another turn.

        Raises:
            AgentDied: The agent has ended, or does not respond.
        """
        ...

    async def close(self) -> None:
        """End the agent.

        Called once, also in the middle of a turn. No process and no task is left.
        """
        ...


class AgentBackend(Protocol):
    """A kind of agent. One object for all chats of a server."""

    @property
    def name(self) -> str:
        """What the agent is called, in history and in messages."""
        ...

    async def provider(self) -> ModelProvider:
        """Return where the model is, as configured now.

        Called when a message is sent and before each turn, with the context variables of the sender.

        Raises:
            NoModel: None is connected.
            FolderNotTrusted: The only key is in a folder that is not trusted.
        """
        ...

    async def start(self, config: SessionConfig) -> AgentSession:
        """Start an agent for a chat.

        Called before the first turn, and before one that needs another provider or another history.

        Raises:
            AgentUnavailable: There is no such agent on this machine, or it does not start.
            AgentDied: It ended while it started; without the history it may start.
        """
        ...

    async def forget(self, session: str) -> None:
        """Remove all that is kept of a session; one that is not there is no error.

        Called when its chat is deleted, or goes on in another session. Nothing goes on in it then.
        """
        ...
