"""What the extension keeps for one server: its managers, the workspace over them, and the faces."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tornado.web import HTTPError

from tk_ai_extension.agent.imports import uncollected
from tk_ai_extension.server.bridge import AsgiExchange
from tk_ai_extension.server.kernel_line import KernelLine, Wire
from tk_ai_extension.server.parts import Managers, Wired
from tk_ai_extension.server.toolsets import Registries
from tk_ai_extension.server.users import owner, user_of_cells

if TYPE_CHECKING:
    from tk_ai_extension.agent.chats import Chats
    from tk_ai_extension.mcp.http import McpHttp
    from tk_ai_extension.server.chatting import Chatting
    from tk_ai_extension.tools.registry import Registry
    from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FaceSettings:
    """How the server answers; the app's traits say what each is for."""

    toolsets: tuple[str, ...]
    max_body: int
    allowed_origins: frozenset[str]
    session_timeout: float
    max_sessions: int


class Services:
    """One server's extension; kept in ``web_app.settings["tk_ai_extension"]``.

    What takes long to import (the workspace and what it stands on, pydantic's models, the MCP SDK)
    is imported in a thread, once the server is up or when the first request needs it, whichever is
    earlier.

    Args:
        managers: Jupyter Server's own managers.
        wire: Puts the workspace together over them.
        wire_chats: Puts the chats together over the workspace and the usual tools.
        settings: How the server answers.
    """

    def __init__(
        self,
        managers: Managers,
        wire: Callable[[], Wired],
        wire_chats: Callable[[Workspace, Registry], Chatting],
        settings: FaceSettings,
    ) -> None:
        self.managers = managers
        self._wire = wire
        self._wire_chats = wire_chats
        self.settings = settings
        self.owner = owner()
        """Who runs the server; looked up once, which may be a question to a directory."""
        self.registries = Registries(settings.toolsets)
        self.exchanges: set[AsgiExchange] = set()
        """Requests that MCP answers just now."""
        self.streams: set[asyncio.Task[None]] = set()
        """Streams of events that are open."""
        self.streaming_users: Counter[str] = Counter()
        """How many of them each user has."""
        self.calls = 0
        """Calls of tools by REST that are not answered yet."""
        self._loading: asyncio.Task[None] | None = None
        self._mcp: McpHttp | None = None
        self._chatting: asyncio.Task[Chatting] | None = None
        self._chats: Chats | None = None
        self._closing = False
        self.line = KernelLine(self._hear_cell, self._process_of)
        """By which cells ask Claude."""

    @cached_property
    def _wired(self) -> Wired:
        return self._wire()

    @property
    def workspace(self) -> Workspace:
        """What the tools work on; put together when it is first asked for, `ready` at the latest."""
        return self._wired.workspace

    @property
    def backends(self) -> Mapping[str, str]:
        """What holds notebooks and what runs code here, as ``health`` says it."""
        return self._wired.backends

    @property
    def missing_parts(self) -> Mapping[str, list[str]]:
        """By library, what it lacks of what the extension uses, as ``health`` says it."""
        return self._wired.missing_parts()

    def working(self) -> int:
        """How many calls, executions and turns of chats go on just now."""
        chats = self._chats.working if self._chats is not None else 0
        runs = len(self.workspace.executions.active()) if "_wired" in vars(self) else 0
        posts = sum(exchange.is_call for exchange in self.exchanges)
        return self.calls + posts + runs + chats

    async def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        if "_wired" not in vars(self):
            await self.ready()
        # Where there is a workspace, at once: the next cell of a run looks for the new path.
        if not self._closing:
            await self.workspace.renamed(old, new)
        if self._chatting is not None and not self._closing:
            await (await self._chatting).chats.renamed(old, new)

    async def ready(self) -> None:
        """Waits until everything is imported and put together."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load(), name="tk-ai late imports")
        await asyncio.shield(self._loading)

    async def mcp(self) -> McpHttp:
        """The MCP server.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.ready()
        if self._mcp is None or self._closing:
            raise HTTPError(503, "The server is stopping.")
        return self._mcp

    async def chatting(self) -> Chatting:
        """The chats; what they stand on is imported when they are first asked for.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.ready()
        if self._closing:
            raise HTTPError(503, "The server is stopping.")
        if self._chatting is None:
            self._chatting = asyncio.create_task(self._load_chats(), name="tk-ai chat imports")
        return await asyncio.shield(self._chatting)

    async def close(self) -> None:
        """Ends all calls and sessions, then the workspace. Kernels are left to their owner."""
        self._closing = True
        await self.line.close()
        if self._loading is not None:
            await asyncio.wait((self._loading,))
        if self._chatting is not None:
            # First: what Claude has begun ends with its turn, and nothing new begins.
            await (await self._chatting).close()
        if "_wired" not in vars(self):
            return
        # Runs first: what waits for them then has its answer.
        await self.workspace.executions.close()
        if self._mcp is not None:
            await self._mcp.close()
        for exchange in list(self.exchanges):
            exchange.disconnect()
        for stream in list(self.streams):
            stream.cancel()
        await self.workspace.close()

    async def _process_of(self, kernel_id: str) -> int | None:
        await self.ready()
        return (await self.workspace.kernels.info(kernel_id)).pid

    async def _hear_cell(self, kernel_id: str, question: dict[str, Any], wire: Wire) -> None:
        chats = (await self.chatting()).chats
        from tk_ai_extension.server.cells import CellQuestion

        user = user_of_cells(self.managers.server.identity_provider, self.owner)
        await CellQuestion(chats, self.workspace, user, kernel_id, wire).answer(question)

    async def _load(self) -> None:
        await asyncio.to_thread(self._import)
        if self._closing:
            return
        from tk_ai_extension.mcp.http import McpHttp

        self._mcp = McpHttp(
            self.workspace,
            self.registries.get,
            session_timeout=self.settings.session_timeout,
            max_sessions=self.settings.max_sessions,
            max_body=self.settings.max_body,
        )
        await self._mcp.start()
        logger.debug("The tools and MCP are ready")

    async def _load_chats(self) -> Chatting:
        await asyncio.to_thread(self._import_chats)
        chatting = self._wire_chats(self.workspace, self.registries.get())
        self._chats = chatting.chats
        return chatting

    def _import_chats(self) -> None:
        with uncollected():
            import_module("tk_ai_extension.server.chatting")

    def _import(self) -> None:
        with uncollected():
            import_module("tk_ai_extension.server.wiring")
            self.registries.prepare()
            import_module("tk_ai_extension.mcp.http")
