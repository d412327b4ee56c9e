"""Values of the Messages API: requests, responses and stream events.

Plain data without I/O; `messages_api` carries it. Field names are the protocol's own.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from tests.support.messages_api import Exchange

# -- requests


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool as the model reads it.

    Attributes:
        id: Of the call that it answers.
        name: Of the tool, without the prefix of its MCP server.
        text: Its text blocks, joined.
        is_error: Whether the tool failed or was refused.
    """

    id: str
    name: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A ``POST /v1/messages``: its headers (names as they came) and its JSON body."""

    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The requested model."""
        return str(self.body.get("model", ""))

    @property
    def streams(self) -> bool:
        """Whether a stream of events is requested."""
        return bool(self.body.get("stream", False))

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation so far."""
        return cast("Sequence[Mapping[str, Any]]", self.body.get("messages", ()))

    @property
    def system(self) -> str:
        """The system prompt's text."""
        return "\n".join(text_of(self.body.get("system", "")))

    @property
    def tools(self) -> tuple[str, ...]:
        """Full names of the available tools: ``mcp__server__tool`` for an MCP tool."""
        return tuple(str(tool["name"]) for tool in self.body.get("tools", ()))

    @property
    def tokens(self) -> int:
        """Estimated number of tokens, at four characters each."""
        return len(json.dumps(self.body)) // 4

    @property
    def prompts(self) -> tuple[str, ...]:
        """The text of each of the user's messages, oldest first.

        Without results of tools, and without the CLI's reminders to the model.
        """
        texts = ("\n".join(said_in(message.get("content", ""))) for message in self._of_user)
        return tuple(text for text in texts if text)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """Results of the tools that were called in the previous turn, in order."""
        asked = self._of_user
        return self._results_of(asked[-1]) if asked else ()

    @property
    def results_since_prompt(self) -> tuple[ToolResult, ...]:
        """Results of all tools that were called since the user's last message, in order."""
        found: tuple[ToolResult, ...] = ()
        for message in self._of_user:
            found = () if said_in(message.get("content", "")) else found
            found += self._results_of(message)
        return found

    def _results_of(self, message: Mapping[str, Any]) -> tuple[ToolResult, ...]:
        return tuple(
            ToolResult(
                id=str(block["tool_use_id"]),
                name=short_name(self._calls.get(str(block["tool_use_id"]), {}).get("name", "")),
                text="\n".join(text_of(block.get("content", ""))),
                is_error=bool(block.get("is_error", False)),
            )
            for block in blocks_of(message.get("content", ""))
            if block.get("type") == "tool_result"
        )

    @property
    def _calls(self) -> dict[str, Mapping[str, Any]]:
        return {
            str(block["id"]): block
            for message in self.messages
            for block in blocks_of(message.get("content", ""))
            if block.get("type") == "tool_use"
        }

    @property
    def _of_user(self) -> list[Mapping[str, Any]]:
        # The CLI adds system messages after the user's.
        return [message for message in self.messages if message.get("role") == "user"]

    def full_name(self, tool: str) -> str:
        """Return a tool's full name; the name itself if none or several match."""
        if tool in self.tools:
            return tool
        offered = [name for name in self.tools if short_name(name) == tool]
        return offered[0] if len(offered) == 1 else tool


def short_name(tool: str) -> str:
    """Return a tool's name without the prefix of its MCP server.

    >>> short_name("mcp__tk__read_cell")
    'read_cell'
    """
    return tool.split("__", 2)[-1] if tool.startswith("mcp__") else tool


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    """Return the content of a message, result or system prompt as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def text_of(content: Any) -> list[str]:
    """Return the texts in a content, one for each text block."""
    return [str(block["text"]) for block in blocks_of(content) if block.get("type") == "text"]


def said_in(content: Any) -> list[str]:
    """Return the texts that a person wrote, without the CLI's reminders to the model."""
    return [text for text in text_of(content) if not text.startswith("<system-reminder>")]


# -- responses

PIECE = 24
"""Number of characters of each piece of a stream."""

USAGE: Mapping[str, int] = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 5,
}
"""Usage of a response, in tokens."""


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event."""

    name: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """A block of text, streamed in pieces."""

    text: str
    piece: int = PIECE

    def events(self, request: MessagesRequest) -> Iterator[Mapping[str, Any]]:
        """Return the start event of the block and its deltas."""
        del request
        yield {"type": "text", "text": ""}
        for piece in pieces(self.text, self.piece):
            yield {"type": "text_delta", "text": piece}


@dataclass(frozen=True, slots=True)
class Thinking:
    """A block of thoughts, signed as the API signs them."""

    text: str

    def events(self, request: MessagesRequest) -> Iterator[Mapping[str, Any]]:
        """Return the start event of the block and its deltas."""
        del request
        yield {"type": "thinking", "thinking": "", "signature": ""}
        for piece in pieces(self.text, PIECE):
            yield {"type": "thinking_delta", "thinking": piece}
        signature = base64.b64encode(secrets.token_bytes(48)).decode()
        yield {"type": "signature_delta", "signature": signature}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call, by the tool's full name or without the prefix of its MCP server."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def events(self, request: MessagesRequest) -> Iterator[Mapping[str, Any]]:
        """Return the start event of the block and its deltas: the JSON of the input, in pieces."""
        name = request.full_name(self.name)
        call = f"toolu_{secrets.token_hex(12)}"
        yield {"type": "tool_use", "id": call, "name": name, "input": {}}
        for piece in pieces(json.dumps(self.input), PIECE):
            yield {"type": "input_json_delta", "partial_json": piece}


Block = Text | Thinking | ToolUse


def pieces(text: str, size: int) -> Iterator[str]:
    """Split a text into pieces of at most a number of characters."""
    return (text[start : start + size] for start in range(0, len(text), size))


@dataclass(frozen=True)
class Answer:
    """A message of the model: its blocks and stop reason.

    Attributes:
        blocks: The blocks, in order.
        stop_reason: By default ``tool_use`` if a tool is called, else ``end_turn``.
    """

    blocks: tuple[Block, ...]
    stop_reason: str | None = None

    @classmethod
    def of(cls, *blocks: Block | str) -> Answer:
        """Create an answer of blocks; a string is a block of text."""
        made = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
        return cls(made)

    @property
    def ending(self) -> str:
        """Its stop reason."""
        calls = any(isinstance(block, ToolUse) for block in self.blocks)
        return self.stop_reason or ("tool_use" if calls else "end_turn")

    def events(self, request: MessagesRequest) -> Iterator[Event]:
        """Return the events of its stream, in the API's order."""
        message: Json = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**USAGE, "output_tokens": 1},
        }
        yield Event("message_start", {"type": "message_start", "message": message})
        for index, block in enumerate(self.blocks):
            first, *deltas = block.events(request)
            yield _block_event("start", index, content_block=first)
            for delta in deltas:
                yield _block_event("delta", index, delta=delta)
            yield _block_event("stop", index)
        ended = {"stop_reason": self.ending, "stop_sequence": None}
        yield Event("message_delta", {"type": "message_delta", "delta": ended, "usage": USAGE})
        yield Event("message_stop", {"type": "message_stop"})

    def message(self, request: MessagesRequest) -> Json:
        """Return the whole message, for a request without a stream."""
        content: list[Json] = []
        start: Json = {}
        for event in self.events(request):
            match event.name:
                case "message_start":
                    start = dict(event.data["message"])
                case "content_block_start":
                    content.append(dict(event.data["content_block"]))
                case "content_block_delta":
                    _add(content[-1], event.data["delta"])
                case _:
                    continue
        for block in content:
            if "partial_json" in block:
                block["input"] = json.loads(block.pop("partial_json"))
        return {**start, "content": content, "stop_reason": self.ending, "usage": USAGE}

    async def send(self, to: Exchange) -> None:
        """Respond with events if requested, else with one message."""
        if not to.request.streams:
            await to.answer(self.message(to.request))
            return
        for event in self.events(to.request):
            await to.event(event)


def _block_event(what: str, index: int, **more: Mapping[str, Any]) -> Event:
    name = f"content_block_{what}"
    return Event(name, {"type": name, "index": index, **more})


def _add(block: Json, delta: Mapping[str, Any]) -> None:
    """Append a delta to its block."""
    for name, piece in delta.items():
        if name != "type":
            block[name] = block.get(name, "") + piece


@dataclass(frozen=True)
class Failure:
    """An error of the API.

    Attributes:
        status: The HTTP status.
        kind: The API's error type.
        message: The message.
        retry_after: Seconds for the header `Retry-After`.
    """

    status: int
    kind: str
    message: str
    retry_after: int | None = None

    async def send(self, to: Exchange) -> None:
        """Respond with the error."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        body = error_body(self.kind, self.message)
        await to.answer(body, status=self.status, headers=headers)


def error_body(kind: str, message: str) -> Json:
    """Return the API's JSON for an error."""
    return {"type": "error", "error": {"type": kind, "message": message}}
