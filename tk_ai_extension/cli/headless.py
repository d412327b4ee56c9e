"""The project's workspace and tools, put together without a Jupyter Server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from jupyter_core.paths import jupyter_runtime_dir

from tk_ai_extension.cli.bindings import Bindings
from tk_ai_extension.cli.memory import Memory
from tk_ai_extension.cli.no_kernels import NoKernels
from tk_ai_extension.cli.project import BINDINGS, FOLDER, KERNELS, Project, Refused
from tk_ai_extension.cli.routing import RoutedRegistry, Router
from tk_ai_extension.cli.servers import Server, Servers, ServerUnreachable
from tk_ai_extension.cli.settings import SettingsFile
from tk_ai_extension.cli.talk import ProjectChats
from tk_ai_extension.cli.writing import written
from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.kernels.environment import AllowedEnvironment
from tk_ai_extension.kernels.persistence import PersistentMultiKernelManager
from tk_ai_extension.kernels.sandbox.confinement import Confinement
from tk_ai_extension.kernels.sandbox.finding import find_sandbox
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.kernels.sharing.kernelspec import InstalledShare, share_kernel, unshare_kernel
from tk_ai_extension.kernels.sharing.share import NoConnection
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, KernelNotFound, ToolError
from tk_ai_extension.notebooks.store import ContentsNotebookStore
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.folder_files import FolderFiles
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.notices import Notices
from tk_ai_extension.workspace.paths import notebook_path
from tk_ai_extension.workspace.permissions import Effect, PermissionPolicy
from tk_ai_extension.workspace.python_sessions import names_session
from tk_ai_extension.workspace.state import default_data_folder, state_folder
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

MEMORY = "nb.json"
"""What commands must know of those before them, beside the journal."""


class Headless:
    """One project: the workspace, the tools, and who its user is.

    Attributes:
        root: The project's folder.
        user: The user's name.
        workspace: Built as a server's is, from files and kernels of its own.
        memory: What commands must know of those before them.
        settings: What was decided about the project.
        registry: The default tools.
        chats: The project's own.
        host: The process that owns the kernels: this one; None for a command without a host.
        stopped: Set when the host is to end.
    """

    def __init__(
        self,
        project: Project,
        kernels: Kernels,
        bindings: Bindings,
        settings: SettingsFile,
        state: Path,
        *,
        host: int | None,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = project.root
        import pwd  # Windows has none, nor the sockets by which hosts are reached.

        self.user = pwd.getpwuid(os.getuid()).pw_name
        root = Path(project.root)
        self.memory = Memory(state / MEMORY)
        self.workspace = _workspace(root, state, kernels, bindings)
        self.settings = settings
        self._folder = Path(project.folder)
        self._servers = Servers()
        self._router = Router(root, self._servers, settings)
        self.workspace.on_forget.append(self._router.forget)
        self.host = host
        self.stopped = asyncio.Event()
        self.cleans = False
        # What is decided about the project is decided by one command after the other.
        self._deciding = asyncio.Lock()
        self._leave = leave
        self._registries: dict[str, Registry] = {}
        self.registry = self.registry_of(None)
        self.chats = ProjectChats(root, state, self.workspace, self.registry)

    def registry_of(self, toolsets: str | None) -> Registry:
        """The tools of these toolsets, such as ``default,omp``.

        Raises:
            InvalidArguments: there is no such toolset.
        """
        names = toolsets or "default"
        if names not in self._registries:
            tools = Registry.load(names.split(","))
            self._registries[names] = RoutedRegistry(tools, self._router)
        return self._registries[names]

    def caller(self, key: str | None = None) -> Caller:
        """Who types commands in this project: one caller, unless ``NB_CALLER`` names another."""
        return Caller(user=self.user, key=key or "nb", face="nb", name="nb")

    def stop(self, *, clean: bool = False) -> None:
        """Has the host end.

        Args:
            clean: Whether it removes what it has made; kernels that still run would not be found.

        Raises:
            DiskFull, ReadOnly, SaveFailed: not all of that could be removed.
        """
        self.cleans = clean
        self.stopped.set()
        if clean:
            self.settings.forget()

    async def attach(self, address: str | None, token: str = "") -> None:
        """Works in a Jupyter Server from now on, wherever it is; None: no more.

        Args:
            address: Of the server; with its token in it, or without.
            token: What lets in where the address has none and the server does not run here.

        Raises:
            ServerUnreachable: it does not answer, or not to this token, or has no extension.
            InvalidArguments: the project's kernels run in a sandbox.
            DiskFull, ReadOnly, SaveFailed: that cannot be kept.
        """
        async with self._deciding:
            if address is None:
                self.settings.change(server=None)
            else:
                await self._attach(address, token)

    async def _attach(self, address: str, token: str) -> None:
        if self.settings.now.sandbox:
            raise InvalidArguments(
                "The kernels of this project run in a sandbox, and those of a server do not.",
                hint="`nb open --no-sandbox` ends that for kernels that are started from then on.",
            )
        server = self._servers.at(address, token)
        if not await self._servers.is_extended(server):
            raise ServerUnreachable(
                f"{server.url} does not answer as a Jupyter Server with tk-ai-extension does.",
                hint="Install tk-ai-extension where that server runs, and restart the server.",
            )
        self.settings.change(server=(server.url, server.token))

    async def confine(self, *, sandbox: bool) -> None:
        """Has kernels that are started from now on run in a sandbox, or no more.

        Raises:
            SandboxUnavailable: no sandbox works on this machine.
            InvalidArguments: the project works in a server, or has kernels outside of a sandbox.
            DiskFull, ReadOnly, SaveFailed: that cannot be kept, or nothing be tried.
        """
        async with self._deciding:
            if sandbox and not self.settings.now.sandbox:
                self._refuse_kernels_outside()
                await asyncio.to_thread(self._refuse_kernels_below)
                with written("a file for the sandbox's trial"):
                    await asyncio.to_thread(find_sandbox, Path(self.root))
                # One that was started meanwhile; one that is still being started looks again.
                self._refuse_kernels_outside()
            self.settings.change(sandbox=sandbox)

    def _refuse_kernels_outside(self) -> None:
        if self.settings.now.server is not None or self.workspace.kernels.ids():
            raise InvalidArguments(
                "This project has kernels that do not run in a sandbox.",
                hint="`nb shutdown` stops them; then `nb open --sandbox` starts anew.",
            )

    def _refuse_kernels_below(self) -> None:
        for below in Project(self.root).below():
            if below.has_kernels():
                raise InvalidArguments(
                    f"The project {below.root} is in this one, and has kernels outside of a sandbox.",
                    hint=f"`nb -C {shlex.quote(below.root)} shutdown` stops them.",
                )

    async def share(self, path: str) -> InstalledShare:
        """Shares the kernel of a notebook with people's programs, and each that takes its place.

        Raises:
            KernelNotFound: it has none, or one that cannot be shared.
            DiskFull, ReadOnly, SaveFailed: what leads people to it cannot be written.
        """
        async with self._deciding:
            installed = await self._share_kernel_of(path)
            try:
                self.settings.change(shared=path)
            except ToolError:
                with contextlib.suppress(OSError):  # the first error is the one to tell
                    await asyncio.to_thread(unshare_kernel, self._folder)
                raise
            return installed

    async def _share_kernel_of(self, path: str) -> InstalledShare:
        kernel_id = await self.workspace.kernel_of(path)
        if kernel_id is None:
            raise KernelNotFound(f"{path} has no running kernel.", hint="`nb open` starts one.")
        return await self._share(kernel_id)

    async def unshare(self) -> bool:
        """Shares no kernel any more; whether one was shared.

        Raises:
            DiskFull, ReadOnly, SaveFailed: not all of it could be removed.
        """
        async with self._deciding:
            if self.settings.now.shared is None:
                return False
            with written("the kernelspec of the shared kernel"):
                await asyncio.to_thread(unshare_kernel, self._folder)
            self.settings.change(shared=None)
            return True

    async def _share(self, kernel_id: str) -> InstalledShare:
        language = (await self.workspace.kernels.info(kernel_id)).language or "python"
        file = self._folder / KERNELS / f"kernel-{kernel_id}.json"
        try:
            with written("the kernelspec of the shared kernel"):
                return await asyncio.to_thread(share_kernel, self._folder, file, language=language)
        except NoConnection as problem:
            raise KernelNotFound(f"It cannot be shared: {problem}") from problem

    async def _bound(self, path: str, kernel_id: str) -> None:
        """A notebook has got a kernel."""
        async with self._deciding:
            if path == self.settings.now.shared:
                await self._share(kernel_id)

    def last_run(self, caller: Caller) -> str:
        """The execution that a caller means who names none, here or in a server.

        Raises:
            ExecutionNotFound: there is none.
        """
        return self._router.last_run(caller, self.workspace)

    async def owner_of(self, path: str) -> Server | None:
        """The Jupyter Server that a notebook belongs to now; None where there is none.

        Raises:
            OpenElsewhere: a server without the extension has it open.
        """
        return await self._router.owner_of(path)

    async def server_of(self, path: str, effect: Effect = "READ") -> str | None:
        """The address of the Jupyter Server that a notebook belongs to now; None where there is none.

        Args:
            path: The notebook's.
            effect: What is to be done with it.

        Raises:
            OpenElsewhere: it is to be changed or run, and is open in a server without the extension.
        """
        if self.settings.now.server is None and self.workspace.executions.active(path=path):
            # A run that began here ends here, and the notebook stays here meanwhile.
            return None
        server = await self._router.owner_of(path, effect)
        return None if server is None else server.url

    async def close(self) -> None:
        """Lets go of everything; kernels live on."""
        await self.chats.close()
        await self._router.close()
        await self.workspace.close()
        self._leave()

    @classmethod
    async def with_kernels(cls, project: Project) -> Headless:
        """What the host works with."""
        root = Path(project.root)
        state = _state(root)
        folder = Path(project.folder, KERNELS)
        await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
        environment = AllowedEnvironment()
        manager = PersistentMultiKernelManager(connection_dir=str(folder))
        bindings = Bindings(folder / BINDINGS)
        settings = SettingsFile(Path(project.folder), state)
        adopted = manager.adopt(environment.environment("", None))
        await _end_sessions(manager, bindings, adopted)

        async def confine(_path: str | None) -> Confinement | None:
            if not settings.now.sandbox:
                return None
            hidden = [Path(project.folder), default_data_folder(), Path(jupyter_runtime_dir())]
            return await asyncio.to_thread(Confinement.of, root, hidden=hidden, names=[FOLDER])

        kernels = JupyterKernels(
            manager, environment=environment, root=root, capture_stderr=False, confine=confine
        )
        headless = cls(
            project, kernels, bindings, settings, state, host=os.getpid(), leave=manager.detach
        )
        bindings.bound = headless._bound
        return headless

    @classmethod
    async def without_kernels(cls, project: Project) -> Headless:
        """What a command works with where there is no host: notebooks, and no kernel."""
        state = _state(Path(project.root))
        # What is somebody else's says nothing here.
        settings = SettingsFile(None if project.problem() else Path(project.folder), state)
        return cls(project, NoKernels(), Bindings(), settings, state, host=None)


async def _end_sessions(
    manager: PersistentMultiKernelManager, bindings: Bindings, kernel_ids: list[str]
) -> None:
    """Ends the session kernels of a host that was killed: nobody would find their sessions again.

    One that somebody has bound to a notebook is that notebook's.
    """
    for kernel_id in kernel_ids:
        path = manager.started_for(kernel_id)
        if not names_session(path) or await bindings.paths_of(kernel_id):
            continue
        try:
            await cast("Any", manager).shutdown_kernel(kernel_id, now=True)
        except (OSError, RuntimeError) as error:
            logger.warning("The session kernel %s could not be ended: %s", kernel_id, error)


def _state(root: Path) -> Path:
    data = default_data_folder()
    try:
        return state_folder(data, root)
    except OSError as error:
        raise Refused(
            f"{data} cannot be written ({error.strerror}), where the history of changes is kept. "
            "JUPYTER_DATA_DIR names another folder."
        ) from None


def _workspace(root: Path, state: Path, kernels: Kernels, bindings: Bindings) -> Workspace:
    contain = partial(notebook_path, root)
    notices = Notices()
    return Workspace(
        store=ContentsNotebookStore(root, contain, warn=notices.add_for_anybody),
        notices=notices,
        kernels=kernels,
        sessions=bindings,
        files=FolderFiles(root),
        journal=Journal(state / "journal.sqlite"),
        artifacts=Artifacts(state / "artifacts"),
        contain=contain,
        policy=PermissionPolicy(where="with `nb approve {id}` in the project's folder"),
    )
