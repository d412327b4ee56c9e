"""The interface between chats and an agent, and the tools that an agent's process gets.

Chats use these types only. An agent is one package with an `AgentBackend` (`agent.claude` for the
Claude Agent SDK), registered where the chats are built. `tests/support/echo_agent.py` is the smallest.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from tk_ai_extension._version import __version__
from tk_ai_extension.agent.chat_events import EventPayload, QuestionAsked, ToolAnswered
from tk_ai_extension.agent.chat_setup import McpServerConfig
from tk_ai_extension.agent.chat_store import HistoryPosition
from tk_ai_extension.agent.launch_settings import ModelProvider
from tk_ai_extension.agent.turn import ActionRequest, ReportedEdits
from tk_ai_extension.mcp.tool_calls import describe
from tk_ai_extension.model.agent_errors import AgentDied
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.registry import Image, Registry
from tk_ai_extension.workspace.files import Files

STOP_TIMEOUT = 5.0
"""Grace period, in seconds, for an agent to end a turn, or itself, when it is interrupted."""

SERVER = "tk"
"""Name of the MCP server in an agent: most models see the tools as ``mcp__tk__name``."""

CALL_ID = "claudecode/toolUseId"
"""Key in ``_meta`` under which Claude's CLI sends the id of the model's call."""

INLINE = {"anthropic/maxResultSizeChars": 500_000}
"""Limit of Claude's CLI for a result, in characters; it writes a longer one to a file,
which Claude cannot read. Our results have lower limits."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text in a message to an agent."""

    text: str


ContentBlock = TextBlock | Image
"""Part of a message to an agent."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The agent is working and has nothing to show; restarts the timeout of silence."""


@dataclass(frozen=True, slots=True)
class AgentTurnEnded:
    """Last event of an agent in a turn, also in an interrupted one.

    Attributes:
        error: Why the agent could not answer; None if it answered or was interrupted.
    """

    error: ToolError | None = None


AgentEvent = EventPayload | HistoryPosition | Heartbeat | AgentTurnEnded | ReportedEdits
"""Events that an agent emits. A call is emitted when the agent decides on it, and may be emitted again; its
answer is emitted only if it came from the agent itself (a tool that does not exist)."""


class HistoryMissing(AgentDied):
    """The agent's history does not exist, or the agent cannot resume one."""


ToolCall = Callable[[str, str, Mapping[str, Any]], Awaitable[types.CallToolResult]]
"""Carries out a call of the running turn; takes the call's id, the tool and its arguments."""

Permit = Callable[[ActionRequest], Awaitable[None]]
"""Checks that an action of an agent may run in the running turn, and asks the person if the mode requires it.

It raises CallStopped without a running turn, or if the turn ends first, and PermissionDenied if the mode
forbids the action or the person denied it."""


Ask = Callable[[QuestionAsked], Awaitable[list[list[str]]]]
"""Asks the person in the running turn; returns the answers to each question, nothing if they did not answer.

It raises CallStopped as `Permit` does, and LimitReached."""


@dataclass(frozen=True)
class SessionConfig:
    """Settings of an agent session.

    Attributes:
        provider: What `AgentBackend.provider` returned last.
        model: The model of the first turn.
        instructions: The system prompt.
        registry: The tools that the agent may call without asking.
        call: Carries out a call of the agent. It raises only `CancelledError`.
        history: End of the history that the agent resumes; None for no history.
        permit: Called before each action that an agent carries out itself.
        ask: Called with the questions of an agent.
        servers: MCP servers of the user that the agent starts; it asks `permit` for each call.
        files: The text files below the root.
    """

    provider: ModelProvider
    model: str
    instructions: str
    registry: Registry
    call: ToolCall
    history: HistoryPosition | None
    permit: Permit
    ask: Ask
    servers: Sequence[McpServerConfig] = ()
    files: Files | None = None

    @property
    def tool_arguments(self) -> dict[str, frozenset[str]]:
        """The names of all tools, each with the names of its arguments."""
        return {tool.name: tool.parameters for tool in self.registry}


class AgentSession(Protocol):
    """An agent that answers in one chat, one turn at a time; owned by that chat's session."""

    @property
    def alive(self) -> bool:
        """Whether the agent can take another turn; it may have ended just now.

        Called before each turn; the chat replaces an agent that is not alive.
        """
        ...

    async def send(
        self, content: Sequence[ContentBlock], *, model: str, options: Mapping[str, str]
    ) -> None:
        """Begin a turn.

        Called after the previous turn has ended. `receive` returns the turn's events from then on.

        Args:
            content: The person's message.
            model: The model that answers.
            options: Values of the agent's settings, by id; others are ignored.

        Raises:
            AgentDied: The agent has ended.
        """
        ...

    async def receive(self) -> AgentEvent:
        """Return the next event.

        Called until it returns `AgentTurnEnded`. Cancelling it loses no event.

        Raises:
            AgentDied: The agent has ended and no event is left.
        """
        ...

    async def interrupt(self) -> None:
        """End the running turn.

        Called at any time, also between turns. `AgentTurnEnded` follows, the calls of the turn are
        cancelled, and the session can take another turn.

        Raises:
            AgentDied: The agent has ended, or does not respond.
        """
        ...

    async def close(self) -> None:
        """End the agent.

        Called once, also during a turn. It leaves no process and no task.
        """
        ...


class AgentBackend(Protocol):
    """A kind of agent; one instance serves all chats of a server."""

    @property
    def name(self) -> str:
        """Display name of the agent, in the history and in messages."""
        ...

    async def provider(self) -> ModelProvider:
        """Return the provider of the model, as configured now.

        Called when a message is sent and before each turn.

        Raises:
            NoModel: No model is connected.
        """
        ...

    async def start(self, config: SessionConfig) -> AgentSession:
        """Start an agent for a chat.

        Called before the first turn, and before a turn with another provider or history.

        Raises:
            AgentUnavailable: The agent is not installed on this machine, or does not start.
            HistoryMissing: The history does not exist any more; it may start without it.
            AgentDied: It ended while starting; it may start with the same history later.
        """
        ...

    async def forget(self, session: str) -> None:
        """Remove all data of a session; idempotent.

        Called when its chat is deleted or continues in another session. No turn is running then.
        """
        ...


def build_tool_server(registry: Registry, call: ToolCall) -> Server[Any]:
    """Build the MCP server of one chat, which offers the tools to an agent's process.

    Names, descriptions, schemas, annotations and results are those of the MCP interface. Structured
    content is omitted: agents would show it to the model instead of the text.

    Args:
        registry: The tools.
        call: Carries out a call; its id is the model's, or a random one if the agent sends none.
    """
    tools = [_described(each) for each in map(describe, registry)]

    async def on_list(
        _context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def on_call(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        meta: Mapping[str, Any] = dict(context.meta or {})
        call_id = str(meta.get(CALL_ID) or f"call-{secrets.token_hex(8)}")
        result = await call(call_id, params.name, params.arguments or {})
        return result.model_copy(update={"structured_content": None})

    return Server[Any](
        "tk-ai-extension", version=__version__, on_list_tools=on_list, on_call_tool=on_call
    )


def _described(tool: types.Tool) -> types.Tool:
    return tool.model_copy(update={"output_schema": None, "meta": INLINE})


def result_of_agent(call: str, tool: str, text: str, *, ok: bool) -> ToolAnswered:
    """Return the result of a call that the agent has carried out, or refused, itself."""
    error = {"code": "agent_tool_failed", "message": text, "hint": "", "retryable": False}
    return ToolAnswered(call, tool, ok=ok, text=text, structured={} if ok else {"error": error})
