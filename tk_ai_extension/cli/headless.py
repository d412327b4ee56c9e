"""The project's workspace and tools, put together without a Jupyter Server."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tk_ai_extension.cli.bindings import Bindings
from tk_ai_extension.cli.memory import Memory
from tk_ai_extension.cli.no_kernels import NoKernels
from tk_ai_extension.cli.project import ATTACHMENT, BINDINGS, KERNELS, Project
from tk_ai_extension.cli.routing import RoutedRegistry, Router
from tk_ai_extension.cli.servers import Server, Servers, ServerUnreachable
from tk_ai_extension.kernels.allowlist import AllowedEnvironment
from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.kernels.lasting import LastingMultiKernelManager
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.notebooks.store import ContentsNotebookStore
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.folder_files import FolderFiles
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.paths import notebook_path
from tk_ai_extension.workspace.state import default_data_folder, state_folder
from tk_ai_extension.workspace.workspace import Workspace

MEMORY = "nb.json"
"""What commands must know of those before them, beside the journal."""


class Headless:
    """One project: the workspace, the tools, and who its user is.

    Attributes:
        root: The project's folder.
        user: The user's name.
        workspace: Built as a server's is, from files and kernels of its own.
        memory: What commands must know of those before them.
        registry: The default tools.
        host: The process that owns the kernels: this one; None for a command without a host.
        stopped: Set when the host is to end.
    """

    def __init__(
        self,
        project: Project,
        kernels: Kernels,
        bindings: Bindings,
        *,
        host: int | None,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = project.root
        self.user = pwd.getpwuid(os.getuid()).pw_name
        root = Path(project.root)
        state = state_folder(default_data_folder(), root)
        self.memory = Memory(state / MEMORY)
        self.workspace = _workspace(root, state, kernels, bindings)
        self._attachment = Path(project.folder, ATTACHMENT)
        self._servers = Servers()
        self._router = Router(root, self._servers, self._load_attachment())
        self.host = host
        self.stopped = asyncio.Event()
        self.cleans = False
        self._leave = leave
        self._registries: dict[str, Registry] = {}
        self.registry = self.registry_of(None)

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
        """
        self.cleans = clean
        self.stopped.set()

    @property
    def attached(self) -> Server | None:
        """The Jupyter Server that the whole project works in."""
        return self._router.attached

    async def attach(self, server: Server | None) -> None:
        """Works in a Jupyter Server from now on, wherever it is; None: no more.

        Raises:
            ServerUnreachable: it does not answer, or not to this token, or has no extension.
        """
        if server is None:
            self._attachment.unlink(missing_ok=True)
        else:
            if not await self._servers.has_extension(server):
                raise ServerUnreachable(
                    f"{server.url} does not answer as a Jupyter Server with tk-ai-extension does."
                )
            kept = json.dumps({"url": server.url, "token": server.token})
            await asyncio.to_thread(_write_private, self._attachment, kept)
        self._router.attached = server

    def _load_attachment(self) -> Server | None:
        try:
            return Server(**json.loads(self._attachment.read_bytes()))
        except FileNotFoundError:
            return None

    async def server_of(self, path: str) -> str | None:
        """The address of the Jupyter Server that a notebook belongs to now; None where there is none.

        Raises:
            OpenElsewhere: a server without the extension has it open.
        """
        server = await self._router.owner_of(path)
        return None if server is None else server.url

    async def close(self) -> None:
        """Lets go of everything; kernels live on."""
        await self._router.close()
        await self.workspace.close()
        self._leave()

    @classmethod
    async def with_kernels(cls, project: Project) -> Headless:
        """What the host works with."""
        root = Path(project.root)
        folder = Path(project.folder, KERNELS)
        await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
        environment = AllowedEnvironment()
        manager = LastingMultiKernelManager(connection_dir=str(folder))
        bindings = Bindings(folder / BINDINGS)
        manager.adopt(environment.environment("", None))
        kernels = JupyterKernels(manager, environment=environment, root=root, capture_stderr=False)
        return cls(project, kernels, bindings, host=os.getpid(), leave=manager.leave)

    @classmethod
    async def without_kernels(cls, project: Project) -> Headless:
        """What a command works with where there is no host: notebooks, and no kernel."""
        return cls(project, NoKernels(), Bindings(), host=None)


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def _workspace(root: Path, state: Path, kernels: Kernels, bindings: Bindings) -> Workspace:
    contain = partial(notebook_path, root)
    return Workspace(
        store=ContentsNotebookStore(root, contain),
        kernels=kernels,
        sessions=bindings,
        files=FolderFiles(root),
        journal=Journal(state / "journal.sqlite"),
        artifacts=Artifacts(state / "artifacts"),
        contain=contain,
    )
