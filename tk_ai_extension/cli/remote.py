"""A Jupyter Server's tools, called through its extension by the official MCP client."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from tk_ai_extension.cli.servers import PATIENCE, Server, ServerSilent, ServerUnreachable
from tk_ai_extension.mcp import MODE
from tk_ai_extension.model import errors
from tk_ai_extension.model.callers import Caller, Mode
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Tool
from tk_ai_extension.tools.results import Image, Result
from tk_ai_extension.tools.toolsets import TOOLSETS

OPENING = 30.0
"""Seconds in which a connection must be there."""
QUIET = 30.0
"""Seconds without a sign of a call, after which a server is asked whether it is there at all."""

MAX_CONNECTIONS = 50
"""How many callers keep a connection to a server; beyond, the one unused for longest is closed."""

KINDS: Mapping[str, type[ToolError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ToolError)
}
"""The errors by their codes."""


class CallRefused(ToolError):
    """A server does not understand a call."""

    code = "call_refused"
    status = 502
    default_hint = "Another version of tk-ai-extension runs there, it seems: make them one."


class RemoteError(ToolError):
    """An error that a server answered with, of a kind that is not known here."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(str(answer["message"]), hint=str(answer["hint"]))
        self.code = str(answer["code"])  # pyright: ignore[reportIncompatibleVariableOverride, reportAttributeAccessIssue]
        self.retryable = bool(answer["retryable"])  # pyright: ignore[reportAttributeAccessIssue]


def remote_error(answer: Mapping[str, Any]) -> ToolError:
    """The error that a server answered with, as what it would be here: with all that it shows."""
    kind = KINDS.get(str(answer["code"]))
    known = kind is not None
    error = kind(str(answer["message"]), hint=str(answer["hint"])) if known else RemoteError(answer)
    error.details = dict(answer.get("details", {}))
    return error


@dataclass(eq=False)
class _Line:
    """One caller's connection to a server, opened and closed by one task."""

    task: asyncio.Task[None]
    client: asyncio.Future[Any]
    close: asyncio.Event = field(default_factory=asyncio.Event)
    uses: int = 0
    """How many calls wait for it or are under way."""


class RemoteTools:
    """Calls tools in one server; every caller there has a connection, hence a session, of its own.

    Args:
        server: Which.
        quiet: Seconds without a sign of a call, after which the server is asked whether it is there.
        opening: Seconds in which a connection must be there.
        connections: How many callers keep a connection.
    """

    def __init__(
        self,
        server: Server,
        *,
        quiet: float = QUIET,
        opening: float = OPENING,
        connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.server = server
        self._quiet = quiet
        self._opening = opening
        self._connections = connections
        self._asks = False
        # By caller, the one used last at the end.
        self._lines: dict[str, _Line] = {}
        # No new call is made on these; they are closed when the last one on them has ended.
        self._retired: set[_Line] = set()

    async def call(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Calls a tool there.

        Raises:
            ToolError: what the server answered with.
            CallRefused: the protocol's own error.
            ServerSilent, ServerUnreachable: it did not answer.
        """
        mode = context.workspace.policy.mode(context.caller)
        if mode != "auto":
            await self._check_asks()
        line = self._line(context)
        with self._in_use(line):
            return await self._call(line, tool, {**arguments}, context, mode)

    async def _call(
        self, line: _Line, tool: Tool, arguments: dict[str, Any], context: ToolContext, mode: Mode
    ) -> Result:
        # Half a second of imports: only for who works in a server.
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        client = await self._opened(line, context)

        async def progress(_done: float, _total: float | None, message: str | None) -> None:
            signs.set()
            await context.progress(message or "")

        signs = asyncio.Event()
        calling = asyncio.create_task(
            client.call_tool(tool.name, arguments, progress_callback=progress, meta={MODE: mode})
        )
        self._began(line, calling)
        try:
            answer = await self._answer(calling, signs)
        except asyncio.CancelledError:
            calling.cancel()
            raise
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                self._breaks(line, context)
                raise ServerUnreachable(f"{self.server.url} broke off: {error}") from error
            data: Any = error.data
            if isinstance(data, dict) and "error" in data:
                raise remote_error(cast("dict[str, Any]", data)["error"]) from error
            raise CallRefused(f"{self.server.url} refuses {tool.name}: {error}") from error
        except ServerUnreachable:
            self._breaks(line, context)
            raise
        except Exception as error:
            # The SDK has no one error for a line that breaks.
            self._breaks(line, context)
            raise ServerUnreachable(f"{self.server.url} broke off: {error}") from error
        structured: dict[str, Any] = answer.structured_content or {}
        if "error" in structured and answer.is_error:
            raise remote_error(structured["error"])
        result = tool.result.model_validate(structured)
        pictures = (part for part in answer.content if part.type == "image")
        return result.with_images(tuple(Image(part.data, part.mime_type) for part in pictures))

    async def _check_asks(self) -> None:
        """Check that the server asks in the mode of a call, as versions before did not.

        Raises:
            CallRefused: it would run the call without asking.
        """
        if not self._asks:
            health: dict[str, Any] = await self.server.get("api/tk-ai/health") or {}
            if "call_mode" not in health.get("features", ()):
                raise CallRefused(
                    f"{self.server.url} has a version of tk-ai-extension that does not ask for an agent."
                )
            self._asks = True

    async def _opened(self, line: _Line, context: ToolContext) -> Any:
        try:
            async with asyncio.timeout(self._opening):
                return await asyncio.shield(line.client)
        except TimeoutError:
            self._breaks(line, context)
            line.task.cancel()
            raise ServerSilent(
                f"{self.server.url} does not answer within {self._opening:.0f} s."
            ) from None

    async def _answer(self, calling: asyncio.Task[Any], signs: asyncio.Event) -> Any:
        """The answer to a call, however long it takes, as long as the server is there.

        Raises:
            ServerUnreachable: it is not. The call is left to it: what it has begun is not cancelled.
        """
        while True:
            signs.clear()
            await asyncio.wait((calling,), timeout=self._quiet)
            if calling.done():
                return calling.result()
            if not signs.is_set():
                await self.server.get("api/tk-ai/health")

    @contextmanager
    def _in_use(self, line: _Line) -> Generator[None]:
        line.uses += 1
        try:
            yield
        finally:
            line.uses -= 1
            self._close_unused(line)

    def _began(self, line: _Line, calling: asyncio.Task[Any]) -> None:
        """A call is made, which may take longer than anybody waits for it."""
        using = ExitStack()
        using.enter_context(self._in_use(line))

        def ended(call: asyncio.Task[Any]) -> None:
            if not call.cancelled():
                call.exception()  # whoever gave it up does not ask any more
            using.close()

        calling.add_done_callback(ended)

    def release(self, caller: Caller) -> None:
        """Close a caller's connection when the last call on it has ended: their session is over."""
        self._retire(caller.identity)

    def _breaks(self, line: _Line, context: ToolContext) -> None:
        if self._lines.get(context.caller.identity) is line:
            self._retire(context.caller.identity)

    def _retire(self, identity: str) -> None:
        """No new call is made on a connection; it is closed when the last one on it has ended."""
        line = self._lines.pop(identity, None)
        if line is not None and not line.task.done():
            self._retired.add(line)
            self._close_unused(line)

    def _close_unused(self, line: _Line) -> None:
        if line in self._retired and not line.uses:
            line.close.set()

    async def close(self) -> None:
        """Closes all connections; those that do not close in time are dropped."""
        lines = [*self._lines.values(), *self._retired]
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
        line = self._lines.pop(identity, None)
        if line is None or line.task.done():
            self._make_room()
            client = asyncio.get_running_loop().create_future()
            close = asyncio.Event()
            task = asyncio.create_task(self._hold(context.caller.author, client, close))
            line = _Line(task, client, close)
            task.add_done_callback(lambda _: self._retired.discard(line))
        self._lines[identity] = line
        return line

    def _make_room(self) -> None:
        unused = [identity for identity, line in self._lines.items() if not line.uses]
        while unused and len(self._lines) >= self._connections:
            self._retire(unused.pop(0))

    async def _hold(self, name: str, opened: asyncio.Future[Any], close: asyncio.Event) -> None:
        """Keeps one connection open: the SDK's client has to be left by the task that entered it."""
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
