"""A stand-in for Claude's CLI: what the chats need of it, without its process.

The real one takes two thirds of a processor second to start. `CliStandIn` is the SDK's `Transport` in
its place: it speaks the CLI's protocol to the SDK, MCP to the tool server, and the Messages API to the
scripted model. It answers messages, streams, calls tools, is interrupted, and resumes and forks
sessions. What it does not play (retries, other models, a lost session) ends it with an error that says
so: a test of that is marked ``real_cli``.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from claude_agent_sdk import ClaudeAgentOptions, CLIConnectionError, Transport

from tests.support.messages import blocks_of
from tk_ai_extension.agent.claude import client

Json = dict[str, Any]

PRICE = 0.000014
"""Dollars for a token: what the CLI takes for the default `Usage` of a model that it does not know."""

INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_IN_TOOL = "[Request interrupted by user for tool use]"
REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a "
    "file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the "
    "user to tell you how to proceed."
)
USAGE = (
    *("input_tokens", "output_tokens"),
    *("cache_read_input_tokens", "cache_creation_input_tokens"),
)


class NotPlayedError(Exception):
    """The CLI can do this and its stand-in cannot."""


class ApiError(Exception):
    """An answer of the Messages API that the CLI does not ask again after."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"API Error: {status} {message}")
        self.status = status


def started(options: ClaudeAgentOptions) -> Transport | None:
    """A stand-in, where the CLI that the options name exists."""
    exists = shutil.which(str(options.cli_path)) is not None
    return CliStandIn(options) if exists else None


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the chats of this process have the stand-in."""
    monkeypatch.setattr(client, "started_by_launcher", started)


@dataclass
class Session:
    """A conversation, kept where the CLI keeps it: entries that each name the one before."""

    path: Path
    position: str | None = None
    entries: dict[str, Json] = field(default_factory=dict[str, Json])

    @property
    def id(self) -> str:
        """The session's id."""
        return self.path.stem

    @classmethod
    def open(cls, folder: Path, session: str | None, position: str | None) -> Session:
        """A new session, or one as it was at an entry (the last where none is named)."""
        self = cls(folder / f"{session or uuid4()}.jsonl")
        if session is not None:
            if not self.path.exists():
                raise NotPlayedError(f"no session {session}")
            for line in self.path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self.entries[entry["uuid"]] = entry
                self.position = entry["uuid"]
        if position is not None:
            if position not in self.entries:
                raise NotPlayedError(f"no entry {position}")
            self.position = position
        return self

    def add(self, role: str, content: Any, *, is_error: bool = False) -> str:
        """Append a message, or what stands in its place: the model is not shown that; the entry's id."""
        entry = {
            "isApiErrorMessage": is_error,
            "uuid": str(uuid4()),
            "parentUuid": self.position,
            "type": role,
            "message": {"role": role, "content": content},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(entry)}\n")
        self.entries[entry["uuid"]] = entry
        self.position = entry["uuid"]
        return entry["uuid"]

    @property
    def messages(self) -> list[Json]:
        """The conversation up to here; what one side said in a row is one message."""
        entries: list[Json] = []
        position = self.position
        while position is not None:
            entry = self.entries[position]
            position = entry["parentUuid"]
            if not entry["isApiErrorMessage"]:
                entries.append(entry)
        messages: list[Json] = []
        for entry in reversed(entries):
            role, content = entry["message"]["role"], entry["message"]["content"]
            if messages and messages[-1]["role"] == role:
                messages[-1]["content"] += blocks_of(content)
            else:
                messages.append({"role": role, "content": list(blocks_of(content))})
        return messages


@dataclass
class Turn:
    """What a turn has done so far."""

    began: float = field(default_factory=time.monotonic)
    usage: Json = field(default_factory=lambda: dict.fromkeys(USAGE, 0))
    answers: int = 1
    """One, and the user messages that the turn itself brought."""
    stop: str | None = None
    text: str = ""
    blocks: dict[int, Json] = field(default_factory=dict[int, Json])
    """Of the answer that is streamed: those that have not ended."""
    calls: dict[str, asyncio.Task[Json]] = field(default_factory=dict[str, asyncio.Task[Json]])
    """Of the last answer, by their ids: those without a result in the conversation."""
    requests: dict[str, int] = field(default_factory=dict[str, int])
    """The MCP requests of the calls that run."""


class CliStandIn(Transport):
    """One process of the CLI, as the SDK sees it."""

    def __init__(self, options: ClaudeAgentOptions) -> None:
        self._options = options
        self._folder = Path(options.env["CLAUDE_CONFIG_DIR"]) / "projects" / "work"
        self._url = options.env["ANTHROPIC_BASE_URL"]
        self._key = options.env.get("ANTHROPIC_API_KEY", "")
        self._outgoing: asyncio.Queue[Json | Exception | None] = asyncio.Queue()
        self._incoming: asyncio.Queue[Json] = asyncio.Queue()
        self._replies: dict[str, asyncio.Future[Json]] = {}
        self._mcp_requests = 0
        self._tools: dict[str, Json] = {}
        self._total = 0.0
        self._playing: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None
        self._has_interrupt = False
        self._turn = Turn()

    # -- the SDK's side

    async def connect(self) -> None:
        """Start."""
        self._http = httpx2.AsyncClient(timeout=60, headers={"x-api-key": self._key})
        self._playing = asyncio.create_task(self._play())

    async def write(self, data: str) -> None:
        """Take lines of the SDK's."""
        if self._playing is None or self._playing.done():
            raise CLIConnectionError("The stand-in for the CLI has ended.")
        for line in data.splitlines():
            message = json.loads(line)
            if message["type"] == "control_response":
                response = message["response"]
                if not (reply := self._replies.pop(response["request_id"])).done():
                    reply.set_result(response)
            elif message.get("request", {}).get("subtype") == "interrupt":
                self._interrupt(message["request_id"])
            else:
                self._incoming.put_nowait(message)

    async def read_messages(self) -> AsyncIterator[Json]:  # as the SDK's own
        """Give what the CLI says, until its end."""
        while (message := await self._outgoing.get()) is not None:
            if isinstance(message, Exception):
                raise message
            yield message

    async def close(self) -> None:
        """End it."""
        if self._playing is not None:
            self._playing.cancel()
            await asyncio.wait((self._playing,))
            self._playing = None
            await self._http.aclose()

    def is_ready(self) -> bool:
        """Whether it runs."""
        return self._playing is not None

    async def end_input(self) -> None:
        """Nothing more is written."""

    # -- the CLI's side

    async def _play(self) -> None:
        """Answer one message after the other."""
        options = self._options
        try:
            self._session = Session.open(self._folder, options.resume, options.resume_session_at)
            while True:
                message = await self._incoming.get()
                if message.get("client_composed"):  # without it, a command
                    await self._answer_or_stop(message)
                elif message["request"]["subtype"] == "initialize":
                    await self._initialize(message["request_id"])
                else:
                    raise NotPlayedError(message["request"]["subtype"])  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 (the SDK raises it)
            message = f"The stand-in for the CLI does not play this: {error!r}"
            self._outgoing.put_nowait(CLIConnectionError(message))
        finally:
            left = [task for task in (self._answering, *self._turn.calls.values()) if task]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
            self._outgoing.put_nowait(None)

    async def _initialize(self, request: str) -> None:
        about = {"name": "claude-code", "title": "Claude Code", "version": "2.1.331"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
        await self._mcp("initialize", params)
        self._respond(request, {"commands": [], "models": []})

    def _interrupt(self, request: str) -> None:
        for call, number in self._turn.requests.items():
            if not self._turn.calls[call].done():
                self._notify("notifications/cancelled", {"requestId": number, "reason": "stopped"})
        if self._answering is not None:
            self._answering.cancel()
        elif not self._incoming.empty():
            self._has_interrupt = True
        self._respond(request, {"still_queued": []})

    async def _answer_or_stop(self, message: Json) -> None:
        turn = self._turn = Turn()
        self._answering = asyncio.create_task(self._answer(message))
        if self._has_interrupt:
            self._has_interrupt = False
            self._answering.cancel()
        await asyncio.wait((self._answering,))
        done, self._answering = self._answering, None
        if done.cancelled():
            self._stopped(turn)
        elif isinstance(error := done.exception(), ApiError):
            uuid = self._session.add("assistant", str(error), is_error=True)
            message = {**_reply(str(error)), "model": "<synthetic>"}
            self._say("assistant", uuid=uuid, message=message)
            self._result(str(error), is_error=True, api_error_status=error.status)
        elif error is not None:
            raise error
        else:
            self._result(turn.text)
        self._system("session_state_changed", state="idle")

    async def _answer(self, message: Json) -> None:
        self._system("session_state_changed", state="running")
        if not self._tools:
            self._notify("notifications/initialized")
            (name,) = self._options.mcp_servers  # type: ignore[misc]  # a dict of one
            listed = (await self._mcp("tools/list"))["result"]["tools"]
            self._tools = {f"mcp__{name}__{tool['name']}": tool for tool in listed}
        self._system("init", tools=list(self._tools), model=self._options.model)
        self._session.add("user", message["message"]["content"])
        while await self._ask():
            await self._collect()

    async def _ask(self) -> bool:
        """One request to the model; whether it called tools."""
        turn = self._turn
        turn.stop, turn.blocks, turn.calls, turn.requests = None, {}, {}, {}
        body = {
            "model": self._options.model,
            "system": [{"type": "text", "text": self._options.system_prompt["prompt"]}],  # type: ignore[index]
            "messages": self._session.messages,
            "tools": [
                {
                    "name": name,
                    "description": tool.get("description", ""),
                    "input_schema": tool["inputSchema"],
                }
                for name, tool in self._tools.items()
            ],
            "max_tokens": 32_000,
            "stream": True,
        }
        async with self._http.stream("POST", f"{self._url}/v1/messages", json=body) as response:
            if response.status_code != 200:
                await response.aread()
                message = response.json()["error"]["message"]
                # After any other status it asks again, as it did or with fewer features.
                if response.status_code != 402:
                    raise NotPlayedError(f"a retry after {response.status_code}: {message}")
                raise ApiError(response.status_code, message)
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    self._streamed(json.loads(line[5:]))
        if turn.stop is None:
            raise NotPlayedError("a stream that was cut")
        return bool(turn.calls)

    def _streamed(self, event: Json) -> None:
        turn = self._turn
        match event["type"]:
            case "message_start":
                turn.stop = None
            case "content_block_start":
                turn.blocks[event["index"]] = {**event["content_block"]}
            case "content_block_delta":
                block = turn.blocks[event["index"]]
                for name, piece in event["delta"].items():
                    if name != "type":
                        block[name] = block.get(name, "") + piece
            case "content_block_stop":
                self._ended(turn.blocks.pop(event["index"]))
            case "message_delta":
                turn.stop = event["delta"]["stop_reason"]
                for name in USAGE:
                    turn.usage[name] += event["usage"].get(name) or 0
            case _:
                pass
        self._say("stream_event", event=event)

    def _ended(self, block: Json) -> None:
        """A block of the answer has come; what calls a tool begins."""
        if "partial_json" in block:
            block["input"] = json.loads(block.pop("partial_json"))
        uuid = self._session.add("assistant", [block])
        self._say("assistant", uuid=uuid, message=_reply([block], self._options.model))
        turn = self._turn
        if block["type"] == "text":
            turn.text = block["text"]
        elif block["type"] == "tool_use":
            before = list(turn.calls.items())
            if self._is_safe(block["name"]):
                before = [each for each in before if not self._is_safe(self._name(each[0]))]
            waited = [task for _, task in before]
            turn.calls[block["id"]] = asyncio.create_task(self._call(block, waited))

    def _is_safe(self, tool: str) -> bool:
        """Whether the tool may run beside others."""
        annotations = self._tools.get(tool, {}).get("annotations") or {}
        return bool(annotations.get("readOnlyHint"))

    def _name(self, call: str) -> str:
        blocks = (
            block
            for entry in self._session.entries.values()
            for block in blocks_of(entry["message"]["content"])
        )
        return next(block["name"] for block in blocks if block.get("id") == call)

    async def _call(self, block: Json, before: Sequence[asyncio.Task[Json]]) -> Json:
        """Call a tool after those that it has to wait for; the block of its result."""
        if before:
            await asyncio.wait(before)
        result: Json = {"type": "tool_result", "tool_use_id": block["id"]}
        if block["name"] not in self._tools:
            error = f"Error: No such tool available: {block['name']}. {block['name']} is disabled"
            error = f"{error} for this session, in subagents as well as here."
            content = f"<tool_use_error>{error}</tool_use_error>"
            return {**result, "content": content, "is_error": True}
        params = {
            "name": self._tools[block["name"]]["name"],
            "arguments": block["input"],
            "_meta": {"claudecode/toolUseId": block["id"]},
        }
        answer = await self._mcp("tools/call", params, call=block["id"])
        if "error" in answer:
            return {**result, "content": answer["error"]["message"], "is_error": True}
        content = [_content(each) for each in answer["result"]["content"]]
        if answer["result"].get("isError"):
            return {**result, "content": content, "is_error": True}
        return {**result, "content": content}

    async def _collect(self) -> None:
        """The results of an answer's calls, in their order."""
        for call, task in list(self._turn.calls.items()):
            self._tool_result(await task)
            del self._turn.calls[call]

    def _tool_result(self, block: Json) -> None:
        self._turn.answers += 1
        uuid = self._session.add("user", [block])
        self._say("user", uuid=uuid, message={"role": "user", "content": [block]})

    def _stopped(self, turn: Turn) -> None:
        """The turn was interrupted: what came of it is kept."""
        for block in turn.blocks.values():
            if block.get("type") == "text" and block["text"]:
                uuid = self._session.add("assistant", [block])
                self._say("assistant", uuid=uuid, message=_reply([block], self._options.model))
        for call, task in turn.calls.items():
            task.cancel()
            result = {"type": "tool_result", "tool_use_id": call, "content": REJECTED}
            self._tool_result({**result, "is_error": True})
        content = [{"type": "text", "text": INTERRUPTED_IN_TOOL if turn.calls else INTERRUPTED}]
        turn.answers += 1
        uuid = self._session.add("user", content)
        self._say("user", uuid=uuid, message={"role": "user", "content": content})
        self._result(None, subtype="error_during_execution", is_error=True, errors=["stopped"])

    # -- messages to the SDK

    def _say(self, kind: str, **more: Any) -> None:
        common = {"session_id": self._session.id, "uuid": str(uuid4()), "parent_tool_use_id": None}
        self._outgoing.put_nowait({"type": kind, **common, **more})

    def _system(self, subtype: str, **more: Any) -> None:
        self._say("system", subtype=subtype, **more)

    def _result(self, text: str | None, **more: Any) -> None:
        turn = self._turn
        self._total += PRICE * sum(turn.usage.values())
        milliseconds = int((time.monotonic() - turn.began) * 1000)
        fields = {
            "subtype": "success",
            "is_error": False,
            "result": text,
            "duration_ms": milliseconds,
            "duration_api_ms": milliseconds,
            "num_turns": turn.answers,
            "total_cost_usd": self._total,
            "usage": turn.usage,
        }
        self._say("result", **{**fields, **more})

    def _respond(self, request: str, response: Json) -> None:
        answer = {"subtype": "success", "request_id": request, "response": response}
        self._outgoing.put_nowait({"type": "control_response", "response": answer})

    async def _mcp(self, method: str, params: Json | None = None, call: str = "") -> Json:
        """A request to the tool server; its answer."""
        number = self._mcp_requests
        self._mcp_requests += 1
        if call:
            self._turn.requests[call] = number
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
        response = await self._control(message)
        if response["subtype"] != "success":
            raise NotPlayedError(f"an error of the tool server: {response}")
        return response["response"]["mcp_response"]

    def _notify(self, method: str, params: Json | None = None) -> None:
        self._control({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def _control(self, message: Json) -> asyncio.Future[Json]:
        (name,) = self._options.mcp_servers  # type: ignore[misc]  # a dict of one
        request = {"subtype": "mcp_message", "server_name": name, "message": message}
        envelope = {"type": "control_request", "request_id": str(uuid4()), "request": request}
        reply = self._replies[envelope["request_id"]] = asyncio.get_running_loop().create_future()
        self._outgoing.put_nowait(envelope)
        return reply


def _reply(content: Any, model: str | None = None) -> Json:
    """A message of the model's, as the API words it."""
    blocks = list(blocks_of(content))
    return {"id": f"msg_{uuid4().hex}", "role": "assistant", "content": blocks, "model": model}


def _content(block: Json) -> Json:
    """A block of an MCP result as one of the Messages API."""
    if block["type"] == "image":
        source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
        return {"type": "image", "source": source}
    return {"type": "text", "text": block["text"]}
