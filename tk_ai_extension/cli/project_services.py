"""What a project's own server can do besides: share kernels, keep them in a sandbox, work elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.paths import jupyter_runtime_dir

from tk_ai_extension.cli.ownership import Ownership
from tk_ai_extension.cli.project import FOLDER, KERNELS, Project, Refused
from tk_ai_extension.cli.servers import Servers, ServerUnreachable
from tk_ai_extension.cli.settings import SettingsFile
from tk_ai_extension.cli.writing import written
from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.kernels.sandbox.confinement import Confinement
from tk_ai_extension.kernels.sandbox.detection import find_sandbox
from tk_ai_extension.model.errors import InvalidArguments, KernelNotFound, ToolError
from tk_ai_extension.workspace.state_folder import default_data_folder, state_folder

if TYPE_CHECKING:
    from tk_ai_extension.kernels.sharing.kernelspec import InstalledShare


class LabMissing(ToolError):
    """JupyterLab is to be opened, and is not there."""

    code = "lab_missing"
    status = 501
    default_hint = "Install it in the environment that `nb` is in: `pip install jupyterlab`."


def private_folder(root: Path, data: Path | None = None) -> Path:
    """Return the folder of a project's journal and chats, which is made where it is missing.

    Args:
        root: The project's folder.
        data: The folder below which it is; the usual one unless given.

    Raises:
        Refused: it cannot be written.
    """
    data = data or default_data_folder()
    try:
        return state_folder(data, root)
    except OSError as error:
        raise Refused(
            f"{data} cannot be written ({error.strerror}), where the history of changes is kept. "
            "JUPYTER_DATA_DIR names another folder."
        ) from None


class ProjectServices:
    """What was decided about a project, and what follows from it.

    Attributes:
        settings: What was decided.
        servers: The Jupyter Servers of this user.
        ownership: Says which calls belong to them.
        stopping: Whether the project's server is to end.
        cleans: Whether it removes what it has made when it ends.
        open_lab: Has the project's server show JupyterLab, and gives its address; None without one.

    Args:
        project: The project.
        state: The private folder of its journal and chats.
        open_lab: See the attribute.
    """

    def __init__(
        self, project: Project, state: Path, open_lab: Callable[[], str] | None = None
    ) -> None:
        self.open_lab = open_lab
        self.project = project
        self._root = Path(project.root)
        self._folder = Path(project.folder)
        # What is somebody else's says nothing here.
        self.settings = SettingsFile(None if project.problem() else self._folder, state)
        self.servers = Servers()
        self.ownership = Ownership(self._root, self.servers, self.settings)
        self.stopping = False
        self.cleans = False
        # What is decided about the project is decided by one command after the other.
        self._deciding = asyncio.Lock()

    def stop(self, *, clean: bool) -> None:
        """Has the server end when the command that says so is answered.

        Args:
            clean: Whether it removes what it has made; kernels that still run would not be found.

        Raises:
            DiskFull, ReadOnly, SaveFailed: not all of that could be removed.
        """
        self.cleans = clean
        self.stopping = True
        if clean:
            self.settings.forget()

    def stop_unused(self) -> None:
        """Have the server end that was started for a command which has failed; decisions hold."""
        self.cleans = self.stopping = True

    # -- where it works

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
                return
            if self.settings.now.sandbox:
                raise InvalidArguments(
                    "The kernels of this project run in a sandbox, and those of a server do not.",
                    hint="`nb open --no-sandbox` ends that for kernels that are started from then on.",
                )
            server = self.servers.at(address, token)
            if not await self.servers.is_extended(server):
                raise ServerUnreachable(
                    f"{server.url} does not answer as a Jupyter Server with tk-ai-extension does.",
                    hint="Install tk-ai-extension where that server runs, and restart the server.",
                )
            self.settings.change(server=(server.url, server.token))

    # -- the sandbox

    async def confinement(self, _path: str | None) -> Confinement | None:
        """Return the sandbox that a kernel which is about to start is to have; None for none."""
        if not self.settings.now.sandbox:
            return None
        hidden = [self._folder, default_data_folder(), Path(jupyter_runtime_dir())]
        return await asyncio.to_thread(Confinement.of, self._root, hidden=hidden, names=[FOLDER])

    async def confine(self, kernels: Kernels, *, sandbox: bool) -> None:
        """Has kernels that are started from now on run in a sandbox, or no more.

        Args:
            kernels: Those of the project.
            sandbox: Whether they are to.

        Raises:
            SandboxUnavailable: no sandbox works on this machine.
            InvalidArguments: the project works in a server, or has kernels outside of a sandbox.
            DiskFull, ReadOnly, SaveFailed: that cannot be kept, or nothing be tried.
        """
        async with self._deciding:
            if sandbox and not self.settings.now.sandbox:
                self._refuse_kernels_outside(kernels)
                await asyncio.to_thread(self._refuse_kernels_below)
                with written("a file for the sandbox's trial"):
                    await asyncio.to_thread(find_sandbox, self._root)
                # One that was started meanwhile; one that is still being started looks again.
                self._refuse_kernels_outside(kernels)
            self.settings.change(sandbox=sandbox)

    def _refuse_kernels_outside(self, kernels: Kernels) -> None:
        if self.settings.now.server is not None or kernels.ids():
            raise InvalidArguments(
                "This project has kernels that do not run in a sandbox.",
                hint="`nb shutdown` stops them; then `nb open --sandbox` starts again.",
            )

    def _refuse_kernels_below(self) -> None:
        for below in self.project.below():
            if below.has_kernels():
                raise InvalidArguments(
                    f"The project {below.root} is in this one, and has kernels outside of a sandbox.",
                    hint=f"`nb -C {shlex.quote(below.root)} shutdown` stops them.",
                )

    # -- sharing

    async def share(self, kernels: Kernels, path: str, kernel_id: str | None) -> InstalledShare:
        """Shares the kernel of a notebook with people's programs, and each that takes its place.

        Args:
            kernels: Those of the project.
            path: The notebook.
            kernel_id: Its kernel; None where it has none.

        Raises:
            KernelNotFound: it has none, or one that cannot be shared.
            DiskFull, ReadOnly, SaveFailed: what leads people to it cannot be written.
        """
        from tk_ai_extension.kernels.sharing.kernelspec import unshare_kernel

        async with self._deciding:
            if kernel_id is None:
                raise KernelNotFound(f"{path} has no running kernel.", hint="`nb open` starts one.")
            installed = await self._share(kernels, kernel_id)
            try:
                self.settings.change(shared=path)
            except ToolError:
                with contextlib.suppress(OSError):  # the first error is the one to tell
                    await asyncio.to_thread(unshare_kernel, self._folder)
                raise
            return installed

    async def unshare(self) -> bool:
        """Shares no kernel any more; whether one was shared.

        Raises:
            DiskFull, ReadOnly, SaveFailed: not all of it could be removed.
        """
        async with self._deciding:
            if self.settings.now.shared is None:
                return False
            from tk_ai_extension.kernels.sharing.kernelspec import unshare_kernel

            with written("the kernelspec of the shared kernel"):
                await asyncio.to_thread(unshare_kernel, self._folder)
            self.settings.change(shared=None)
            return True

    async def bound(self, kernels: Kernels, path: str, kernel_id: str) -> None:
        """A notebook has got a kernel: where its last one was shared, this one is."""
        async with self._deciding:
            if path == self.settings.now.shared:
                await self._share(kernels, kernel_id)

    async def _share(self, kernels: Kernels, kernel_id: str) -> InstalledShare:
        from tk_ai_extension.kernels.sharing.kernelspec import share_kernel
        from tk_ai_extension.kernels.sharing.share import NoConnection

        language = (await kernels.info(kernel_id)).language or "python"
        file = self._folder / KERNELS / f"kernel-{kernel_id}.json"
        try:
            with written("the kernelspec of the shared kernel"):
                return await asyncio.to_thread(share_kernel, self._folder, file, language=language)
        except NoConnection as problem:
            raise KernelNotFound(f"It cannot be shared: {problem}") from problem
