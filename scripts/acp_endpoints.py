"""Endpoints of model providers on loopback, with the directed model behind them.

OpenAI's Responses API and Gemini's API, the parts that agents need; the Messages API is
`tests.support.directed_model`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.support.directed_model import Directed, direct

Json = dict[str, Any]

SEARCHED = (
    *("use_notebook", "read_cell", "show_cell", "overwrite_cell", "execute_cell", "undo"),
    *("insert_cell", "insert_and_execute_cell"),
)
"""Tools that the directed model calls without having searched for them."""


class Endpoints:
    """Both endpoints on one port; stop them by `close`."""

    def __init__(self) -> None:
        [socket] = bind_sockets(0, "127.0.0.1")
        self.url = f"http://127.0.0.1:{socket.getsockname()[1]}"
        self.requests: list[tuple[str, Json]] = []
        application = Application(
            [
                (r"/openai/v1/responses", _Responses, {"requests": self.requests}),
                (r"/openai/v1/models", _Models),
                (r"/v1beta/models/([^:]+):(\w+)", _Gemini, {"requests": self.requests}),
            ]
        )
        self._server = HTTPServer(application)
        self._server.add_socket(socket)

    async def close(self) -> None:
        """Stop listening and drop the connections."""
        self._server.stop()
        await self._server.close_all_connections()


class _Handler(RequestHandler):
    def initialize(self, requests: list[tuple[str, Json]]) -> None:
        self._requests = requests
        self._gone = asyncio.Event()

    def on_connection_close(self) -> None:
        self._gone.set()

    def body(self) -> Json:
        found = cast("Json", json.loads(self.request.body))
        self._requests.append((self.request.path, found))
        return found

    async def event(self, data: Mapping[str, Any], name: str | None = None) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.write(f"event: {name}\n" if name else "")
        self.write(f"data: {json.dumps(data)}\n\n")
        await self.flush()

    async def hold(self) -> None:
        await self._gone.wait()


class _Models(RequestHandler):
    def get(self) -> None:  # pyrefly: ignore[bad-override-mutable-attribute]
        self.finish({"object": "list", "data": [], "models": []})


class _Responses(_Handler):
    async def post(self) -> None:  # pyrefly: ignore[bad-override-mutable-attribute]
        body = self.body()
        names: list[str] = []
        spaces: dict[str, str] = {}
        for tool in body.get("tools", ()):
            inner = tool.get("tools")
            for each in inner or [tool]:
                name = str(each.get("name") or each.get("type"))
                names.append(name)
                if inner:
                    spaces[name] = tool["name"]
        if "tool_search" in names:
            # Codex lists MCP tools only once its model has searched for them, and runs them anyway.
            names += SEARCHED
            spaces |= dict.fromkeys(SEARCHED, "mcp__tk")
        directed = _directed_input(body.get("input", ()), names)
        number = secrets.token_hex(6)
        await self.event(
            {"type": "response.created", "response": {"id": f"resp_{number}"}}, "response.created"
        )
        message = {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": []}
        added = {"type": "response.output_item.added", "output_index": 0, "item": message}
        await self.event(added, "response.output_item.added")
        delta = {
            "type": "response.output_text.delta",
            "item_id": message["id"],
            "output_index": 0,
            "content_index": 0,
            "delta": directed.text,
        }
        await self.event(delta, "response.output_text.delta")
        if directed.holds:
            await self.hold()
            return
        content = [{"type": "output_text", "text": directed.text, "annotations": []}]
        items: list[Json] = [{**message, "content": content}]
        if directed.tool is not None:
            space, name = spaces.get(directed.tool), directed.tool
            call: Json = {"type": "function_call", "id": f"fc_{number}", "call_id": f"c_{number}"}
            call |= {"name": name, "arguments": json.dumps(directed.arguments)}
            items.append(call | ({"namespace": space} if space else {}))
        for index, item in enumerate(items):
            done = {"type": "response.output_item.done", "output_index": index, "item": item}
            await self.event(done, "response.output_item.done")
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        }
        completed = {"id": f"resp_{number}", "status": "completed", "output": items, "usage": usage}
        await self.event(
            {"type": "response.completed", "response": completed}, "response.completed"
        )
        await self.finish()


def _directed_input(items: Sequence[Json], names: Sequence[str]) -> Directed:
    message, results, pictures, messages = "", list[str](), 0, 0
    for item in items:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") == "user":
            parts = item.get("content")
            parts = [{"type": "input_text", "text": parts}] if isinstance(parts, str) else parts
            message = "\n".join(part.get("text", "") for part in parts or ())
            pictures += sum(part.get("type") == "input_image" for part in parts or ())
            messages += 1
            results = []
        elif kind in ("function_call_output", "custom_tool_call_output", "mcp_tool_call_output"):
            results.append(json.dumps(item.get("output")))
    return direct(message, results, names, pictures=pictures, messages=messages)


class _Gemini(_Handler):
    async def post(self, model: str, method: str) -> None:  # pyrefly: ignore[bad-override-mutable-attribute]
        body = self.body()
        if method == "countTokens":
            self.finish({"totalTokens": 10})
            return
        names = [
            declaration["name"]
            for tool in body.get("tools", ())
            for declaration in tool.get("functionDeclarations", ())
        ]
        message, results, pictures, messages = "", list[str](), 0, 0
        for content in body.get("contents", ()):
            if content.get("role") != "user":
                continue
            parts = content.get("parts", ())
            answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
            if answers:
                results += [json.dumps(each.get("response")) for each in answers]
                continue
            message = "\n".join(part.get("text", "") for part in parts)
            pictures += sum("inlineData" in part for part in parts)
            messages += 1
            results = []
        directed = direct(message, results, names, pictures=pictures, messages=messages)
        parts: list[Json] = [{"text": directed.text}]
        if directed.tool is not None:
            parts.append({"functionCall": {"name": directed.tool, "args": directed.arguments}})
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        answer: Json = {
            "candidates": [
                {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": usage,
            "modelVersion": model,
        }
        if method == "generateContent":
            self.finish(answer)
            return
        if directed.holds:
            del answer["candidates"][0]["finishReason"]
        await self.event(answer)
        if directed.holds:
            await self.hold()
            return
        await self.finish()
