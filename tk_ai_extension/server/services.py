"""Services of the extension in one server: the managers, the workspace and the interfaces."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jupyter_server._tz import utcnow
from tornado.ioloop import PeriodicCallback
from tornado.web import HTTPError

from tk_ai_extension.agent.acp.backend import installed
from tk_ai_extension.agent.launch_settings import gc_paused
from tk_ai_extension.model.callers import owner
from tk_ai_extension.model.errors import LimitReached, ToolError, is_out_of_files
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from pathlib import Path

    from jupyter_events import EventLogger
    from jupyter_server.serverapp import ServerApp
    from jupyter_server.services.contents.manager import ContentsManager
    from jupyter_server.services.kernels.kernelmanager import MappingKernelManager
    from jupyter_server.services.sessions.sessionmanager import SessionManager

    from tk_ai_extension.agent.acp.backend import AgentSpec
    from tk_ai_extension.agent.chat_store import ChatStore
    from tk_ai_extension.agent.chats import Chats
    from tk_ai_extension.agent.claude.providers import ModelsInfo
    from tk_ai_extension.agent.claude.user_connection import ProviderSelector
    from tk_ai_extension.agent.code_assistant import CodeAssistant
    from tk_ai_extension.mcp.http import McpHttp
    from tk_ai_extension.model.callers import Caller
    from tk_ai_extension.server.project_settings import ProjectServices
    from tk_ai_extension.server.settings import ExtensionSettings
    from tk_ai_extension.tools.registry import Registry
    from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

T = TypeVar("T")

SETTLING = 1.0
"""Delay before background imports, in seconds: after the start, and again before MCP."""

ACTIVITY_INTERVAL = 20.0
"""Polling interval in seconds: cullers count in minutes."""

NAME = "tk_ai_extension"

CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
"""The schema of the events that Jupyter's contents managers emit."""

EVENTS = "urn:tk-ai-extension:activity:v1"
"""The schema of the extension's events (`events.yaml`)."""

CHATS = "chats.sqlite"
"""The file of the chats in `ServerComponents.state`."""


class RouteError(HTTPError):
    """A refused request, with a message for the client."""

    def __init__(self, status: int, message: str) -> None:
        # As an argument: tornado formats the message with `%`.
        super().__init__(status, "%s", message)


class ChatModels:
    """The models of chats: Claude's, then the names of further agents.

    Args:
        claude: The source of Claude's models.
        find_agents: Returns the further agents; reads a file, so it blocks.
    """

    def __init__(
        self, claude: ProviderSelector, find_agents: Callable[[], dict[str, AgentSpec]]
    ) -> None:
        self.claude = claude
        self._find_agents = find_agents

    @cached_property
    def commands(self) -> dict[str, AgentSpec]:
        """The further agents, by name; found on first use, which blocks."""
        return self._find_agents()

    async def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, and the installed agents."""
        info = (await self.claude.provider()).health()
        agents = await asyncio.to_thread(lambda: installed(self.commands.values()))
        names = [name for name in agents if name not in info["models"]]
        return {**info, "models": [*info["models"], *names], "agents": agents}


@dataclass(frozen=True, slots=True)
class JupyterManagers:
    """Jupyter Server's managers, as they are at the start."""

    contents: ContentsManager
    kernels: MappingKernelManager
    kernelspecs: Any
    sessions: SessionManager
    server: ServerApp


@dataclass(frozen=True, slots=True)
class ServerComponents:
    """Components of a server's extension: the workspace and related services.

    Attributes:
        backends: Names of the default notebook backend and executor.
        models: Finds the model for chats.
        state: The folder of the journal and the chats.
        project: Services of a project's own server; None in a person's.
    """

    workspace: Workspace
    backends: Mapping[str, str]
    models: ChatModels
    state: Path
    project: ProjectServices | None = None


class LazyValue(Generic[T]):
    """A value that is created once, in a task, on first use; if that fails, on the next use again.

    Args:
        make: Creates the value.
        name: The name of the task.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], name: str) -> None:
        self._make = make
        self._name = name
        self._task: asyncio.Task[T] | None = None

    @property
    def made(self) -> T | None:
        """The value; None until it is created."""
        task = self._task
        return task.result() if task is not None and task.done() and not _failed(task) else None

    async def get(self) -> T:
        """Return the value, creating it if needed; cancelling one caller does not affect others."""
        if self._task is None:
            self._task = asyncio.create_task(self._make(), name=self._name)
            self._task.add_done_callback(self._ended)
        elif self._task.done():
            return self._task.result()
        return await asyncio.shield(self._task)

    async def settled(self) -> T | None:
        """Wait for a creation in progress, if any, and return the value as `made` does."""
        if self._task is not None:
            await asyncio.wait((self._task,))
        return self.made

    def _ended(self, task: asyncio.Task[T]) -> None:
        if _failed(task):
            self._task = None


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


class ToolRegistries:
    """Creates one registry per combination of toolsets, on first use.

    Args:
        default: The default toolsets.
        allowed: The only toolsets, besides the default ones, that a connection may choose; empty for all.
    """

    def __init__(self, default: Sequence[str], allowed: Sequence[str]) -> None:
        self._allowed = frozenset((*default, *allowed)) if allowed else None
        self._default = ",".join(default)
        self._made: dict[tuple[str, ...], Registry] = {}

    def get(self, toolsets: str | None = None) -> Registry:
        """Return the tools of comma-separated toolsets; of the default ones for None.

        Raises:
            InvalidArguments: an unknown toolset, or none.
            PermissionDenied: the administrator does not allow a toolset.
        """
        if toolsets is None:
            toolsets = self._default
        # Imported on first use: pydantic alone would slow down the server's start.
        from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied
        from tk_ai_extension.tools.registry import Registry

        if toolsets == "nb":
            from tk_ai_extension.tools.cli_tools import TOOLS

            return self._made.setdefault(("nb",), Registry(TOOLS))
        chosen = tuple(sorted({name.strip() for name in toolsets.split(",")} - {""}))
        if not chosen:
            raise InvalidArguments("`toolsets` is empty.", hint="Omit `toolsets`, or name one.")
        if self._allowed is not None and (refused := set(chosen) - self._allowed):
            raise PermissionDenied(
                f"This server does not allow the toolset `{min(refused)}`.",
                hint=f"Choose from {', '.join(sorted(self._allowed))}.",
            )
        # Only valid combinations are stored, so that their number is bounded.
        if chosen not in self._made:
            self._made[chosen] = Registry.load(chosen)
        return self._made[chosen]

    def prepare(self) -> None:
        """Load the default tools and their schemas; slow, may run in a thread."""
        for tool in self.get():
            _ = tool.input_schema, tool.output_schema


class Services:
    """Services of one server, stored in ``web_app.settings["tk_ai_extension"]``.

    Slow imports run in a thread when the first request needs them: the workspace (`ready`), the tools,
    the MCP SDK, the chats. All but the chats are also imported in the background shortly after the
    start (`prepare`).

    Args:
        managers: Jupyter Server's own managers.
        build_components: Builds the workspace over them.
        build_chats: Builds the chats over it and the default tools.
        describe: Describes the routes with these tools below a base URL, as OpenAPI.
        settings: The app's traits.
    """

    def __init__(
        self,
        managers: JupyterManagers,
        build_components: Callable[[], ServerComponents],
        build_chats: Callable[[ServerComponents, Registry], Chats],
        describe: Callable[[Registry, str], Mapping[str, Any]],
        settings: ExtensionSettings,
    ) -> None:
        self.managers = managers
        self._build_components = build_components
        self._build_chats = build_chats
        self.describe = describe
        self.settings = settings
        self.owner = owner()
        """The user who runs the server; looked up once, since that may query a directory service."""
        self.registries = ToolRegistries(settings.toolsets, settings.allowed_toolsets)
        self.exchanges: dict[asyncio.Event, bool] = {}
        """The end of each running MCP request, and whether it is a call, not a session's event stream."""
        self.streams: set[asyncio.Task[None]] = set()
        """Open event streams."""
        self.streaming_users: Counter[str] = Counter()
        """Number of open event streams by user."""
        self.calls = 0
        """Number of running tool calls over REST."""
        self._loading = LazyValue(self._load, "tk-ai late imports")
        self._tools = LazyValue(self._load_tools, "tk-ai tool imports")
        self._models = LazyValue(self._load_models, "tk-ai model imports")
        self._mcp = LazyValue(self._load_mcp, "tk-ai MCP imports")
        self._chats = LazyValue(self._load_chats, "tk-ai chat imports")
        self._code = LazyValue(self._load_code, "tk-ai code imports")
        # Events of notebooks from before the workspace could be built, in order.
        self._missed: list[Callable[[Workspace], Coroutine[Any, Any, None]]] = []
        # Held while the stored chats follow an event, one after the other.
        self._updating_chats = asyncio.Lock()
        self._preparing: asyncio.Task[None] | None = None
        # Concurrent imports of modules with cycles may see partially initialized modules.
        self._importing = asyncio.Lock()
        self._closing = False

    @cached_property
    def _components(self) -> ServerComponents:
        return self._build_components()

    @property
    def workspace(self) -> Workspace:
        """The workspace of the tools; built on first use, at the latest by `ready`."""
        return self._components.workspace

    @property
    def is_ready(self) -> bool:
        """Whether the workspace was built."""
        return self._loading.made is not None

    @property
    def backends(self) -> Mapping[str, str]:
        """Names of the notebook backend and the executor, for ``health``."""
        return self._components.backends

    def working(self) -> int:
        """Return the number of running calls, executions and turns."""
        made = self._chats.made
        chats = len(made.working) if made is not None else 0
        runs = len(self.workspace.executions.active()) if "_components" in vars(self) else 0
        posts = sum(self.exchanges.values())
        return self.calls + posts + runs + chats

    async def kernels_in_use(self) -> set[str]:
        """Return the kernels of running turns, and of calls that wait for approval."""
        made = self._chats.made
        if "_components" not in vars(self):
            return set()
        waiting = (each.proposal.kernel for each in self.workspace.policy.asking())
        kernels = [None if kernel is None else kernel.id for kernel in waiting]
        turns = [] if made is None else made.working
        paths = {path for each in turns for path in each.notebooks}
        kernels += [await self.workspace.kernel_of(path) for path in paths]
        return {each for each in kernels if each is not None}

    async def renamed(self, old: str, new: str) -> None:
        """Handle the rename of a notebook or of a folder above notebooks."""
        await self._follow(
            lambda chats: chats.move(old, new), lambda workspace: workspace.renamed(old, new)
        )

    async def deleted(self, path: str) -> None:
        """Handle the deletion of a notebook or of a folder above notebooks."""
        await self._follow(
            lambda chats: chats.detach(path), lambda workspace: workspace.deleted(path)
        )

    async def _follow(
        self,
        in_chats: Callable[[Chats | ChatStore], Awaitable[None]],
        in_workspace: Callable[[Workspace], Coroutine[Any, Any, None]],
    ) -> None:
        """Pass a rename or deletion to the workspace and the chats. Open chats hold `Notebook` objects."""

        async def event(workspace: Workspace) -> None:
            chats = self._chats.made
            # Begun before anything is awaited: a plan that is answered next is looked up afterwards.
            stored = self._in_stored_chats(in_chats) if chats is None else in_chats(chats)
            try:
                await in_workspace(workspace)
            finally:
                try:
                    await stored
                except ToolError as error:
                    logger.warning("%s", error.message)

        await self._publish(event)

    async def _in_stored_chats(
        self, update: Callable[[Chats | ChatStore], Awaitable[None]]
    ) -> None:
        """Update the stored chats, if there are any, without loading the agents."""
        file = self._components.state / CHATS
        async with self._updating_chats:
            if not file.exists():
                return
            await self._import("tk_ai_extension.agent.chat_store")
            from tk_ai_extension.agent.chat_store import ChatStore

            store = ChatStore(file)
            try:
                await update(store)
            finally:
                await store.close()

    async def _publish(self, event: Callable[[Workspace], Coroutine[Any, Any, None]]) -> None:
        """Pass an event to the workspace; later, if it cannot be built now."""
        # Do not await if there is a workspace: the next cell of a run uses the new path.
        if "_components" not in vars(self):
            try:
                await self.ready()
            except HTTPError:
                return  # The server is stopping.
            except Exception:
                logger.exception("The workspace cannot be built now")
                self._missed.append(event)
                return
        if not self._closing:
            await event(self.workspace)

    def prepare(self) -> None:
        """Start the imports for the first call in the background."""
        self._preparing = asyncio.create_task(self._prepare(), name="tk-ai preparation")

    async def ready(self) -> None:
        """Wait until the workspace is imported and built.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self._made(self._loading)

    async def tools(self, toolsets: str | None = None) -> Registry:
        """Return the tools of comma-separated toolsets; of the default ones for None.

        Raises:
            InvalidArguments: an unknown toolset, or none.
            HTTPError: 503, the server is stopping.
        """
        await self._made(self._tools)
        return self.registries.get(toolsets)

    async def models(self) -> ModuleType:
        """Return the module `server.rest_models`, which imports pydantic.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.tools()
        return await self._made(self._models)

    async def mcp(self) -> McpHttp:
        """Return the MCP server.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        return await self._made(self._mcp)

    async def chat_models(self) -> ChatModels:
        """Return the source of models for chats; does not import the chats.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.ready()
        return self._components.models

    async def chats(self) -> Chats:
        """Return the chats, imported on first use.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.tools()
        return await self._made(self._chats)

    async def code_assistant(self) -> CodeAssistant:
        """Return the assistant that completes code and edits cells, imported on first use.

        Raises:
            HTTPError: 503, the server is stopping.
        """
        await self.tools()
        return await self._made(self._code)

    @property
    def project(self) -> ProjectServices | None:
        """Services of a project's own server; None in a person's."""
        return self._components.project

    async def close(self) -> None:
        """Close all calls and sessions, then the workspace; kernels stay with their owner."""
        self._closing = True
        if self._preparing is not None:
            self._preparing.cancel()
        await self._loading.settled()
        chats = await self._chats.settled()
        if chats is not None:
            # First: running turns end and no new ones begin.
            await chats.close()
        code = await self._code.settled()
        if code is not None:
            await code.close()
        if "_components" not in vars(self):
            return
        # Executions first: callers that wait for them get their result.
        await self.workspace.executions.close()
        mcp = await self._mcp.settled()
        if mcp is not None:
            await mcp.close()
        for gone in list(self.exchanges):
            gone.set()
        for stream in list(self.streams):
            stream.cancel()
        await self.workspace.close()

    async def _made(self, lazy: LazyValue[T]) -> T:
        self._check_open()
        try:
            value = await lazy.get()
        except Exception as error:
            if is_out_of_files(error):
                raise LimitReached(
                    f"A part of the server cannot be loaded: {error}",
                    hint=(
                        "Shut down unused kernels, or restart the server with a higher `ulimit -n`."
                    ),
                ) from error
            raise
        self._check_open()
        return value

    def _check_open(self) -> None:
        if self._closing:
            raise RouteError(503, "The server is stopping.")

    async def _prepare(self) -> None:
        await asyncio.sleep(SETTLING)
        try:
            await self.tools()
            # Serve waiting requests first.
            await asyncio.sleep(SETTLING)
            await self.mcp()
        except HTTPError:
            return
        except Exception:
            logger.exception("Cannot load the tools and MCP")
        else:
            logger.debug("The tools and MCP are ready")

    async def _load(self) -> Workspace:
        await self._import("tk_ai_extension.server.composition")
        self._check_open()
        workspace = self.workspace
        while self._missed:
            await self._missed[0](workspace)
            del self._missed[0]
        return workspace

    async def _load_tools(self) -> Registry:
        await self.ready()
        await self._import("tk_ai_extension.tools.registry", then=self.registries.prepare)
        return self.registries.get()

    async def _load_models(self) -> ModuleType:
        await self._import("tk_ai_extension.server.rest_models")
        return import_module("tk_ai_extension.server.rest_models")

    async def _load_mcp(self) -> McpHttp:
        await self.tools()
        await self._import("tk_ai_extension.mcp.http")
        self._check_open()
        from tk_ai_extension.mcp.http import McpHttp

        mcp = McpHttp(
            self.workspace,
            partial(self.registries.get, "default"),
            session_timeout=self.settings.session_timeout,
            max_sessions=self.settings.max_sessions,
            max_body=self.settings.max_body,
        )
        await mcp.start()
        return mcp

    async def _load_code(self) -> CodeAssistant:
        await self._import("tk_ai_extension.agent.code_assistant")
        self._check_open()
        from tk_ai_extension.agent.code_assistant import CodeAssistant, VariableSummaries

        variables = VariableSummaries(self.workspace, self.owner)
        return CodeAssistant(self._components.models.claude.provider, variables)

    async def _load_chats(self) -> Chats:
        await self._import("tk_ai_extension.server.chat_composition")
        self._check_open()
        return self._build_chats(self._components, self.registries.get())

    async def _import(self, module: str, then: Callable[[], None] = lambda: None) -> None:
        def work() -> None:
            with gc_paused():
                import_module(module)
                then()

        async with self._importing:
            await asyncio.to_thread(work)


class LastActivityReporter:
    """Reports running work in Jupyter's ``last_activity_times``, and in the ``last_activity`` of kernels.

    JupyterHub and `ServerApp.shutdown_no_activity_timeout` only count arriving requests and
    kernels, not a waiting call or a turn that waits for approval. `MappingKernelManager.cull_idle_timeout`
    only counts code in a kernel, not a turn that needs its variables and thinks or waits.

    Args:
        settings: The web application's settings.
        manager: The server's kernel manager.
        working: Returns the number of running operations.
        kernels_in_use: Returns the kernels that running work needs, even while they run nothing.
    """

    def __init__(
        self,
        settings: MutableMapping[str, Any],
        manager: Any,
        working: Callable[[], int],
        kernels_in_use: Callable[[], Awaitable[Iterable[str]]],
    ) -> None:
        self._times: dict[str, datetime] = settings.setdefault("last_activity_times", {})
        self._manager = manager
        self._working = working
        self._kernels_in_use = kernels_in_use
        self._looking = PeriodicCallback(self.report, ACTIVITY_INTERVAL * 1_000)

    def start(self) -> None:
        """Start polling."""
        self._looking.start()

    def stop(self) -> None:
        """Stop polling."""
        self._looking.stop()

    async def report(self) -> None:
        """Set the last activity of the server and of the kernels in use, if something works."""
        if not self._working():
            return
        self._times[NAME] = utcnow()
        for kernel_id in await self._kernels_in_use():
            with suppress(KeyError):  # it has since been shut down
                self._manager.get_kernel(kernel_id).last_activity = utcnow()


def emit_event(server: Any, kind: str, caller: Caller, *about: str) -> None:
    """Emit a Jupyter event, as `events.yaml` describes it, if the administrator collects events.

    Each page of JupyterLab listens, too, but needs no event: validation for it alone would be wasted.
    """
    if not server.event_logger.handlers:
        return
    who = {"user": caller.user, "interface": caller.interface, "name": caller.author}
    if caller.turn is not None:
        who |= {"turn": caller.turn, "model": caller.model}
    event = dict(zip(("path", "tool", "status"), about, strict=True))
    server.event_logger.emit(schema_id=EVENTS, data={"kind": kind, "caller": who, **event})


class PathChangeListener:
    """Listens for files and folders that are renamed or deleted through Jupyter's contents manager.

    Args:
        event_logger: Jupyter's event logger.
        renamed: Called with the old and the new path of a file or folder.
        deleted: Called with the path of one that was deleted.
    """

    def __init__(
        self,
        event_logger: EventLogger,
        renamed: Callable[[str, str], Awaitable[None]],
        deleted: Callable[[str], Awaitable[None]],
    ) -> None:
        self._event_logger = event_logger
        self._renamed = renamed
        self._deleted = deleted
        event_logger.add_listener(schema_id=CONTENTS_EVENTS, listener=self._on_event)

    def close(self) -> None:
        """Stop listening."""
        self._event_logger.remove_listener(schema_id=CONTENTS_EVENTS, listener=self._on_event)

    async def _on_event(self, logger: EventLogger, schema_id: str, data: Json) -> None:  # noqa: ARG002
        match data.get("action"):
            case "rename":
                old, new = data["source_path"].strip("/"), data["path"].strip("/")
                if old != new:
                    await self._renamed(old, new)
            case "delete":
                await self._deleted(data["path"].strip("/"))
            case _:
                pass
