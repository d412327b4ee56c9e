"""A Jupyter Server's tools, called through its extension by the official MCP client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tk_ai_extension.cli.servers import PATIENCE, Server, ServerUnreachable
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Tool
from tk_ai_extension.tools.results import Image, Result
from tk_ai_extension.tools.toolsets import TOOLSETS


class RemoteError(ToolError):
    """An error that a server answered with: the same code, words and hint."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(
            str(answer["message"]), hint=str(answer["hint"]), **answer.get("details", {})
        )
        self.code = str(answer["code"])  # pyright: ignore[reportIncompatibleVariableOverride, reportAttributeAccessIssue]
        self.retryable = bool(answer["retryable"])  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(eq=False)
class _Line:
    """One caller's connection to a server, opened and closed by one task."""

    task: asyncio.Task[None]
    client: asyncio.Future[Any]
    close: asyncio.Event = field(default_factory=asyncio.Event)
    calls: int = 0
    """How many are under way."""


class RemoteTools:
    """Calls tools in one server; every caller there has a connection, hence a session, of its own."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._lines: dict[str, _Line] = {}
        # No new call is made on these; they are closed when the last one on them has ended.
        self._broken: set[_Line] = set()

    async def call(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Calls a tool there.

        Raises:
            ToolError: what the server answered with.
            ServerUnreachable: it did not.
        """
        line = self._line(context)
        client = await asyncio.shield(line.client)

        async def progress(_done: float, _total: float | None, message: str | None) -> None:
            await context.progress(message or "")

        line.calls += 1
        try:
            answer = await client.call_tool(tool.name, dict(arguments), progress_callback=progress)
        except Exception as error:
            # The SDK has no one error for a line that breaks.
            if self._lines.get(context.caller.identity) is line:
                del self._lines[context.caller.identity]
                self._broken.add(line)
            raise ServerUnreachable(f"{self.server.url} broke off: {error}") from error
        finally:
            line.calls -= 1
            if line in self._broken and not line.calls:
                line.close.set()
        structured: dict[str, Any] = answer.structured_content or {}
        if "error" in structured and answer.is_error:
            raise RemoteError(structured["error"])
        result = tool.result.model_validate(structured)
        pictures = (part for part in answer.content if part.type == "image")
        return result.with_images(tuple(Image(part.data, part.mime_type) for part in pictures))

    async def close(self) -> None:
        """Closes all connections; those that do not close in time are dropped."""
        lines = [*self._lines.values(), *self._broken]
        for line in lines:
            line.close.set()
        tasks = [line.task for line in lines]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=PATIENCE)
            for task in late:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _line(self, context: ToolContext) -> _Line:
        identity = context.caller.identity
        line = self._lines.get(identity)
        if line is None or line.task.done():
            client = asyncio.get_running_loop().create_future()
            close = asyncio.Event()
            task = asyncio.create_task(self._hold(context.caller.author, client, close))
            line = self._lines[identity] = _Line(task, client, close)
            task.add_done_callback(lambda _: self._broken.discard(line))
        return line

    async def _hold(self, name: str, opened: asyncio.Future[Any], close: asyncio.Event) -> None:
        """Keeps one connection open: the SDK's client has to be left by the task that entered it."""
        # Half a second of imports: only for who works in a server.
        import httpx2
        import mcp_types as types
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        headers = {"Authorization": f"token {self.server.token}"} if self.server.token else {}
        try:
            async with httpx2.AsyncClient(headers=headers, timeout=None) as http:
                transport = streamable_http_client(
                    f"{self.server.url}api/tk-ai/mcp?toolsets={','.join(TOOLSETS)}",
                    http_client=http,
                )
                info = types.Implementation(name=name, version="")
                # With a session, so that this caller has a current notebook there.
                async with Client(transport, mode="legacy", client_info=info) as client:
                    opened.set_result(client)
                    await close.wait()
        except Exception as error:  # noqa: BLE001 - the SDK has no one error for a line that breaks
            if not opened.done():
                opened.set_exception(
                    ServerUnreachable(f"{self.server.url} does not let us in: {error}")
                )
