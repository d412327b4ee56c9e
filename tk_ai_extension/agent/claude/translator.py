"""Translation of the Claude Agent SDK's messages to the events of `agent.backend`; without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.agent.backend import (
    AgentEvent,
    TurnEnded,
    Working,
)
from tk_ai_extension.agent.claude.messages_api import provider_error
from tk_ai_extension.agent.events import (
    Discarded,
    Noticed,
    Retried,
    TextDelta,
    ThinkingDelta,
    ToolAnswered,
    ToolCalled,
    Used,
)
from tk_ai_extension.agent.store import Checkpoint
from tk_ai_extension.agent.tool_server import SERVER
from tk_ai_extension.model.agent_errors import NoModel
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from claude_agent_sdk import Message, ResultMessage, ToolResultBlock

PREFIX = f"mcp__{SERVER}__"


class Translator:
    """Translator of the messages of one turn.

    Args:
        redact: Removes secrets from a text: an API may repeat the key that it refuses.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self.interrupted = False
        """Whether the turn was interrupted."""
        self.refused: ToolError | None = None
        """The error of a key that the provider refused: no retry makes it valid."""
        # Tool names of the calls so far, by call id.
        self._called: dict[str, str] = {}
        # The session's last entry, for forking it (`resume_session_at`).
        self._position: str | None = None
        self._blocks = 0
        # Of the message that is being streamed: the offset of its blocks in the turn,
        # their numbers, and the characters of each so far.
        self._first: int | None = None
        self._numbers: dict[int, int] = {}
        self._lengths: dict[int, int] = {}

    def translate(self, message: Message) -> list[AgentEvent]:
        """Return the events of a message, at least one."""
        return list(self._events(message)) or [Working()]

    def _events(self, message: Message) -> Iterator[AgentEvent]:  # noqa: C901, PLR0912 (a kind each)
        import claude_agent_sdk as sdk

        match message:
            case sdk.StreamEvent():
                if message.parent_tool_use_id is None:
                    yield from self._streamed(message.event)
            case sdk.AssistantMessage():
                self._position = message.uuid or self._position
                for block in message.content:
                    if isinstance(block, sdk.ToolUseBlock):
                        # Of a user's MCP server: its name and the tool's.
                        tool = block.name.removeprefix(PREFIX).removeprefix("mcp__")
                        self._called[block.id] = tool
                        yield ToolCalled(block.id, tool, dict(block.input))
            case sdk.UserMessage(content=list(blocks)):
                self._position = message.uuid or self._position
                for block in blocks:
                    if isinstance(block, sdk.ToolResultBlock):
                        yield self._answered(block)
            case sdk.UserMessage():
                # The CLI's own words about a command, which end its entries in the history.
                self._position = message.uuid or self._position
            case sdk.ResultMessage():
                yield _used(message)
                yield Checkpoint(message.session_id, self._position)
                yield TurnEnded(self.refused or failure(message, self._redact))
            case sdk.SystemMessage(subtype="compact_boundary"):
                yield Noticed("Claude has replaced the earlier messages by a summary.")
            case sdk.SystemMessage(subtype="api_retry", data={"error_status": 401}):
                self.refused = provider_error(401, "")
            case sdk.SystemMessage():
                yield from _system(message.subtype, message.data)
            case _:
                pass

    def _streamed(self, event: Mapping[str, Any]) -> Iterator[AgentEvent]:
        match event.get("type"):
            case "message_start":
                if self._first is not None:
                    # The previous stream was interrupted: its content is sent again.
                    self._blocks = self._first
                    yield Discarded(self._first)
                self._first = self._blocks
                self._numbers, self._lengths = {}, {}
            case "content_block_start":
                self._numbers[event["index"]] = self._blocks
                self._blocks += 1
            case "content_block_delta":
                yield from self._delta(event["index"], event["delta"])
            case "message_delta" if event["delta"].get("stop_reason"):
                # An interrupted stream stops as well, but without a stop reason.
                self._first = None
            case _:
                return

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[AgentEvent]:
        kind = delta.get("type")
        block = self._numbers.get(index)
        if block is None or kind not in ("text_delta", "thinking_delta"):
            return
        piece = str(delta["text" if kind == "text_delta" else "thinking"])
        start = self._lengths.get(index, 0)
        self._lengths[index] = start + len(piece)
        if not piece:
            return
        kind_of = TextDelta if kind == "text_delta" else ThinkingDelta
        yield kind_of(block, start, piece)

    def _answered(self, block: ToolResultBlock) -> ToolAnswered:
        """Return the result of a call that never reached us; other results are known already."""
        call, text = str(block.tool_use_id), _plain(block.content)
        error = {"code": "agent_tool_failed", "message": text, "hint": "", "retryable": False}
        return ToolAnswered(
            call,
            self._called.get(call, ""),
            ok=not block.is_error,
            text=text,
            structured={"error": error} if block.is_error else {},
        )


def _used(result: ResultMessage) -> Used:
    """Return the usage of the turn that ends with this result; its cost covers the session."""
    usage = result.usage or {}
    return Used(
        input_tokens=int(usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("output_tokens") or 0),
        cache_read_tokens=int(usage.get("cache_read_input_tokens") or 0),
        cache_write_tokens=int(usage.get("cache_creation_input_tokens") or 0),
        session_cost_usd=result.total_cost_usd,
        seconds=round(result.duration_ms / 1000, 3),
        requests=result.num_turns,
    )


def _system(subtype: str, data: Mapping[str, Any]) -> Iterator[AgentEvent]:
    if subtype == "init" and data.get("session_id"):
        yield Checkpoint(str(data["session_id"]))
        for server in data.get("mcp_servers") or ():
            if server.get("status") == "failed":
                yield Noticed(f"The MCP server {server.get('name')} did not start.")
    elif subtype == "api_retry":
        status = data.get("error_status")
        yield Retried(
            attempt=int(data.get("attempt") or 1),
            attempts=int(data.get("max_retries") or 0),
            seconds=round(float(data.get("retry_delay_ms") or 0) / 1000, 3),
            status=status if isinstance(status, int) else None,
            reason=str(data.get("error") or "no response"),
        )


def failure(result: ResultMessage, redact: Callable[[str], str]) -> ToolError | None:
    """Return the error of a turn, or None; failures of the provider arrive as results.

    Args:
        result: The last message of the turn.
        redact: Removes secrets from the provider's message: some repeat the key that they refuse.
    """
    if not result.is_error:
        return None
    status = result.api_error_status
    said = (result.result or "; ".join(result.errors or ()) or result.subtype).strip()
    said = redact(said.removeprefix("API Error: ")).rstrip(".")[:500]
    if status is None and ("not logged in" in said.lower() or "/login" in said.lower()):
        return NoModel("No model is connected: there is no key.")
    return provider_error(status, said)


def _plain(content: str | list[Json] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = (cast("str", part.get("text", "")) for part in content if part.get("type") == "text")
    return "\n".join(parts)
