"""Connection to one MCP server of the user's, owned by one chat."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types

from tk_ai_extension._version import __version__
from tk_ai_extension.agent.user_servers import ServerConfig
from tk_ai_extension.model.agent_errors import ServerFailed

if TYPE_CHECKING:
    import httpx2
    from mcp import ClientSession

logger = logging.getLogger(__name__)

START = 30.0
"""Timeout for a server to start and list its tools, in seconds."""
CONNECT = 30.0
"""Timeout for a connection to an address, in seconds."""
READ = 300.0
"""Timeout for an answer of an address to begin or to go on, in seconds."""
CLOSE = 2.0
"""Grace period for an address to answer the end of its session, in seconds."""
CLOSE_PROGRAM = 10.0
"""Grace period for a program to end, in seconds: more than the SDK takes to end it in any case."""
SESSION = "mcp-session-id"
"""Header of requests within a session."""
UNKNOWN_SESSION = (404, 400)
"""Statuses for a session that an address does not know: MCP's, and one that many servers use instead."""
MAX_TOOLS = 100
"""Maximum number of tools of a server; further ones are not offered."""
MAX_WHY = 500
"""Maximum length of a reason, in characters."""
_TAIL = 4_000


class ServerConnection:
    """A started server.

    One task opens and closes the connection, as the SDK's contexts require; calls may come from any task.
    It closes it under a deadline, also after a failed start: a server may not answer any more.

    Args:
        config: How it is reached.
        folder: The working directory of a program. It is empty: programs such as `npx` and Python read
            files of the folder in which they start.
        start: Timeout for the start, in seconds.
    """

    def __init__(self, config: ServerConfig, folder: Path, *, start: float = START) -> None:
        self.config = config
        self._folder = folder
        self._start = start
        self._stop = asyncio.Event()
        self._session: ClientSession | None = None
        self._has_stream = False
        self._ready: asyncio.Future[list[types.Tool]] = asyncio.get_running_loop().create_future()
        self._errors = _Tail()
        self._read: Any = None
        self._task = asyncio.create_task(self._run(), name="tk-ai MCP server of the user")

    @property
    def starting(self) -> bool:
        """Whether it has neither started nor failed."""
        return not self._ready.done()

    @property
    def alive(self) -> bool:
        """Whether it has started and is connected. An error that it answers a call with is no end of it."""
        return self._session is not None and not _is_at_end(self._read)

    async def tools(self) -> list[types.Tool]:
        """Wait until it has started, and return its tools.

        Raises:
            ServerFailed: It did not start; the message has no secrets.
        """
        return await asyncio.shield(self._ready)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call a tool. Cancelling it cancels the call in the server.

        Raises:
            ServerFailed: The server has ended, or refused the call. The call is not repeated.
        """
        from mcp.shared.exceptions import MCPError

        if self._session is None or not self.alive:
            ended = f"The connection to the MCP server {self.config.name} has ended."
            raise ServerFailed(
                ended, hint="Go on without it. The next message connects to it again."
            )
        try:
            return await self._session.call_tool(tool, dict(arguments))
        except MCPError as error:
            why = self._shown(error.error.message)
        except (OSError, RuntimeError, ValueError) as error:
            why = self._shown(str(error) or type(error).__name__)
        hint = None if self.alive else "Go on without it. The next message connects to it again."
        raise ServerFailed(f"The MCP server {self.config.name} failed: {why}.", hint=hint)

    async def close(self) -> None:
        """End the server. It takes no longer than the grace period."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait((self._task,))

    async def _run(self) -> None:
        try:
            await self._serve()
        except asyncio.CancelledError:
            self._fail("it was stopped")
            raise
        except BaseExceptionGroup as group:
            self._fail(_reason(group))
        except Exception as error:  # noqa: BLE001 - a server must not break the chat
            self._fail(_reason(error))
        finally:
            self._errors.close()

    async def _serve(self) -> None:
        clock = asyncio.get_running_loop().time
        grace = CLOSE if self.config.url else CLOSE_PROGRAM
        async with asyncio.timeout(None) as limit, AsyncExitStack() as stack:
            try:
                await self._use(stack)
            finally:
                self._session = None
                limit.reschedule(clock() + grace)

    async def _use(self, stack: AsyncExitStack) -> None:
        """Open the connection, and wait until it is to be closed."""
        from mcp import ClientSession

        self._read, write = await self._connect(stack)
        about = types.Implementation(name="tk-ai-extension", version=__version__)
        session = await stack.enter_async_context(
            ClientSession(self._read, write, client_info=about)
        )
        async with asyncio.timeout(self._start):
            await session.initialize()
            found = await _all_tools(session)
        self._session = session
        if not self._ready.done():
            self._ready.set_result(found)
        await self._stop.wait()

    async def _connect(self, stack: AsyncExitStack) -> tuple[Any, Any]:
        config = self.config
        if config.url:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            timeout = httpx2.Timeout(CONNECT, read=READ)
            client = await stack.enter_async_context(
                httpx2.AsyncClient(
                    headers=dict(config.headers),
                    timeout=timeout,
                    event_hooks={"response": [self._check_session]},
                )
            )
            return await stack.enter_async_context(
                streamable_http_client(config.url, http_client=client)
            )
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(
            command=config.command, args=[*config.args], env=dict(config.env), cwd=self._folder
        )
        with os.fdopen(self._errors.open(), "w", encoding="utf-8") as errors:
            return await stack.enter_async_context(stdio_client(parameters, errors))

    async def _check_session(self, response: httpx2.Response) -> None:
        """End the connection if the address does not know its session any more."""
        request = response.request
        if SESSION not in request.headers:
            return
        if request.method == "GET":
            self._has_stream |= response.is_success
        # A GET also fails if the server has no stream of its own.
        counts = request.method == "POST" or self._has_stream
        if counts and response.status_code in UNKNOWN_SESSION and not await _is_answered(response):
            self._session = None

    def _fail(self, why: str) -> None:
        said = self._errors.last_line()
        shown = self._shown(f"{why} ({said})" if said else why)
        logger.info("The MCP server %s: %s", self.config.name, shown)
        if not self._ready.done():
            self._ready.set_exception(ServerFailed(shown))
            # Nobody may be waiting for it any more.
            self._ready.exception()

    def _shown(self, text: str) -> str:
        return self.config.redact(" ".join(text.split())).rstrip(".")[:MAX_WHY]


class _Tail:
    """The end of what a program writes to its standard error."""

    def __init__(self) -> None:
        self._text = b""
        self._reader: threading.Thread | None = None

    def open(self) -> int:
        """Return the descriptor to write to; the reader ends with the last one that has it."""
        source, target = os.pipe()

        def read() -> None:
            with os.fdopen(source, "rb", buffering=0) as pipe:
                while piece := pipe.read(65_536):
                    self._text = (self._text + piece)[-_TAIL:]

        self._reader = threading.Thread(target=read, name="tk-ai MCP server stderr", daemon=True)
        self._reader.start()
        return target

    def last_line(self) -> str:
        """Return the last line so far."""
        lines = self._text.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        """Release the text."""
        self._text = b""


def _is_at_end(stream: Any) -> bool:
    """Whether a transport has closed the stream of a server's messages; those to an address never do."""
    statistics = getattr(stream, "statistics", None)
    return statistics is not None and statistics().open_send_streams == 0


async def _is_answered(response: httpx2.Response) -> bool:
    """Whether a response with an error status has an answer to its request: the session is known."""
    try:
        answer = json.loads(await response.aread())
        return (
            answer["id"] is not None and answer["id"] == json.loads(response.request.content)["id"]
        )
    except (ValueError, KeyError, TypeError):
        return False


async def _all_tools(session: ClientSession) -> list[types.Tool]:
    found: list[types.Tool] = []
    cursor: str | None = None
    while len(found) < MAX_TOOLS:
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found[:MAX_TOOLS]


def _reason(error: BaseException) -> str:
    """Return why a server did not start."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, FileNotFoundError):
        return "the program was not found"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()
