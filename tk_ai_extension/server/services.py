"""What the extension keeps for one server: its managers, the workspace over them, and the faces."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from tornado.web import HTTPError

from tk_ai_extension.agent.imports import gc_paused
from tk_ai_extension.model.callers import owner
from tk_ai_extension.server.bridge import AsgiExchange
from tk_ai_extension.server.components import Managers, ServerComponents
from tk_ai_extension.server.kernel_chat_server import JsonLineConnection, KernelChatServer
from tk_ai_extension.server.lazy import Lazy
from tk_ai_extension.server.toolsets import Registries
from tk_ai_extension.server.users import user_of_cells

if TYPE_CHECKING:
    from tk_ai_extension.agent.chats import Chats
    from tk_ai_extension.agent.models import ModelSource
    from tk_ai_extension.cli.project_services import ProjectServices
    from tk_ai_extension.mcp.http import McpHttp
    from tk_ai_extension.server.commands import CommandServer
    from tk_ai_extension.tools.registry import Registry
    from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

T = TypeVar("T")

SETTLING = 1.0
"""Seconds in which only what a request needs is imported: after the start, and again before MCP."""


@dataclass(frozen=True, slots=True)
class InterfaceSettings:
    """How the server answers; the app's traits say what each is for."""

    toolsets: tuple[str, ...]
    max_body: int
    allowed_origins: frozenset[str]
    session_timeout: float
    max_sessions: int


class Services:
    """One server's extension; kept in ``web_app.settings["tk_ai_extension"]``.

    What takes long to import is imported in a thread when the first request needs it: the workspace
    (`ready`), the tools, the MCP SDK, the chats. All but the chats are imported without a request, too,
    once the server has been up for a moment (`prepare`).

    Args:
        managers: Jupyter Server's own managers.
        build_components: Puts the workspace together over them.
        build_chats: Puts the chats together over it and the usual tools.
        settings: How the server answers.
    """

    def __init__(
        self,
        managers: Managers,
        build_components: Callable[[], ServerComponents],
        build_chats: Callable[[ServerComponents, Registry], Chats],
        settings: InterfaceSettings,
    ) -> None:
        self.managers = managers
        self._build_components = build_components
        self._build_chats = build_chats
        self.settings = settings
        self.owner = owner()
        """Who runs the server; looked up once, which may be a question to a directory."""
        self.registries = Registries(settings.toolsets, lambda: self._components.ownership)
        self.exchanges: set[AsgiExchange] = set()
        """Requests that MCP answers just now."""
        self.streams: set[asyncio.Task[None]] = set()
        """Streams of events that are open."""
        self.streaming_users: Counter[str] = Counter()
        """How many of them each user has."""
        self.calls = 0
        """Calls of tools by REST that are not answered yet."""
        self._loading = Lazy(self._load, "tk-ai late imports")
        self._tools = Lazy(self._load_tools, "tk-ai tool imports")
        self._models = Lazy(self._load_models, "tk-ai model imports")
        self._mcp = Lazy(self._load_mcp, "tk-ai MCP imports")
        self._chats = Lazy(self._load_chats, "tk-ai chat imports")
        self._commands = Lazy(self._load_commands, "tk-ai command imports")
        self._preparing: asyncio.Task[None] | None = None
        # Two threads that import modules with cycles may each see the other's half-made.
        self._importing = asyncio.Lock()
        self._closing = False
        self.kernel_chat = KernelChatServer(self._answer_cell, self._process_of)
        """By which cells ask Claude."""

    @cached_property
    def _components(self) -> ServerComponents:
        return self._build_components()

    @property
    def workspace(self) -> Workspace:
        """What the tools work on; put together when it is first asked for, `ready` at the latest."""
        return self._components.workspace

    @property
    def backends(self) -> Mapping[str, str]:
        """What holds notebooks and what runs code here, as ``health`` says it."""
        return self._components.backends

    @property
    def missing_parts(self) -> Mapping[str, list[str]]:
        """By library, what it lacks of what the extension uses, as ``health`` says it."""
        return self._components.missing_parts()

    def working(self) -> int:
        """How many calls, executions and turns of chats go on just now."""
        made = self._chats.made
        chats = made.working if made is not None else 0
        runs = len(self.workspace.executions.active()) if "_components" in vars(self) else 0
        posts = sum(exchange.is_call for exchange in self.exchanges)
        return self.calls + posts + runs + chats

    async def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        if "_components" not in vars(self):
            with suppress(HTTPError):
                await self.ready()
        # Where there is a workspace, at once: the next cell of a run looks for the new path.
        if not self._closing:
            await self.workspace.renamed(old, new)
        chats = await self._chats.settled()
        if chats is not None and not self._closing:
            await chats.renamed(old, new)

    def prepare(self) -> None:
        """Import in the background what the first call would wait for."""
        self._preparing = asyncio.create_task(self._prepare(), name="tk-ai preparation")

    async def ready(self) -> None:
        """Wait until the workspace is imported and put together.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self._made(self._loading)

    async def tools(self, toolsets: str | None = None) -> Registry:
        """The tools of the toolsets that are named with commas between; of the usual ones for None.

        Raises:
            InvalidArguments: a toolset that does not exist, or none at all.
            HTTPError: 503, the server is stopping.
        """
        await self.ready()
        await self._made(self._tools)
        return self.registries.get(toolsets)

    async def models(self) -> ModuleType:
        """`server.models`, which stands on pydantic.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.tools()
        return await self._made(self._models)

    async def mcp(self) -> McpHttp:
        """The MCP server.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.tools()
        return await self._made(self._mcp)

    async def chat_models(self) -> ModelSource:
        """What finds the model that answers in chats; needs none of what the chats import.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.ready()
        return self._components.models

    async def chats(self) -> Chats:
        """The chats; what they stand on is imported when they are first asked for.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.tools()
        return await self._made(self._chats)

    @property
    def project(self) -> ProjectServices | None:
        """What a project's own server can do besides; None in a person's."""
        return self._components.project

    @property
    def cleans(self) -> bool:
        """Whether a command has said that what a project's server has made is to be removed."""
        return "_components" in vars(self) and self.project is not None and self.project.cleans

    async def commands(self) -> CommandServer:
        """What runs the commands of `nb`.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.tools()
        return await self._made(self._commands)

    async def close(self) -> None:
        """End all calls and sessions, then the workspace. Kernels are left to their owner."""
        self._closing = True
        await self.kernel_chat.close()
        if self._preparing is not None:
            self._preparing.cancel()
        await self._loading.settled()
        chats = await self._chats.settled()
        if chats is not None:
            # First: what Claude has begun ends with its turn, and nothing new begins.
            await chats.close()
        if "_components" not in vars(self):
            return
        # Runs first: what waits for them then has its answer.
        await self.workspace.executions.close()
        mcp = await self._mcp.settled()
        if mcp is not None:
            await mcp.close()
        for exchange in list(self.exchanges):
            exchange.disconnect()
        commands = await self._commands.settled()
        if commands is not None:
            await commands.close()
        for stream in list(self.streams):
            stream.cancel()
        await self.workspace.close()

    async def _process_of(self, kernel_id: str) -> int | None:
        await self.ready()
        return (await self.workspace.kernels.info(kernel_id)).pid

    async def _answer_cell(
        self, kernel_id: str, question: dict[str, Any], connection: JsonLineConnection
    ) -> None:
        chats = await self.chats()
        from tk_ai_extension.server.cell_questions import CellQuestion

        user = user_of_cells(self.managers.server.identity_provider, self.owner)
        await CellQuestion(chats, self.workspace, user, kernel_id, connection).answer(question)

    async def _made(self, lazy: Lazy[T]) -> T:
        self._check_open()
        value = await lazy.get()
        self._check_open()
        return value

    def _check_open(self) -> None:
        if self._closing:
            raise HTTPError(503, "The server is stopping.")

    async def _prepare(self) -> None:
        await asyncio.sleep(SETTLING)
        try:
            await self.tools()
            # Who has waited for that is answered first.
            await asyncio.sleep(SETTLING)
            await self.mcp()
        except HTTPError:
            return
        except Exception:
            logger.exception("The tools and MCP could not be loaded")
        else:
            logger.debug("The tools and MCP are ready")

    async def _load(self) -> Workspace:
        await self._import("tk_ai_extension.server.composition")
        self._check_open()
        return self.workspace

    async def _load_tools(self) -> Registry:
        await self._import("tk_ai_extension.tools.registry", then=self.registries.prepare)
        return self.registries.get()

    async def _load_models(self) -> ModuleType:
        await self._import("tk_ai_extension.server.models")
        return import_module("tk_ai_extension.server.models")

    async def _load_mcp(self) -> McpHttp:
        await self._import("tk_ai_extension.mcp.http")
        self._check_open()
        from tk_ai_extension.mcp.http import McpHttp

        mcp = McpHttp(
            self.workspace,
            self.registries.get,
            session_timeout=self.settings.session_timeout,
            max_sessions=self.settings.max_sessions,
            max_body=self.settings.max_body,
        )
        await mcp.start()
        return mcp

    async def _load_commands(self) -> CommandServer:
        await self._import("tk_ai_extension.server.commands")
        self._check_open()
        from tk_ai_extension.server.commands import CommandServer, command_context

        context = command_context(self, self._components, self.registries.get())
        return CommandServer(context, self.managers.server)

    async def _load_chats(self) -> Chats:
        await self._import("tk_ai_extension.server.chat_services")
        self._check_open()
        return self._build_chats(self._components, self.registries.get())

    async def _import(self, module: str, then: Callable[[], None] = lambda: None) -> None:
        def work() -> None:
            with gc_paused():
                import_module(module)
                then()

        async with self._importing:
            await asyncio.to_thread(work)
