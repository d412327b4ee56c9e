"""Services of a project's own server: sharing kernels, sandboxes, attaching to another server."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.paths import jupyter_runtime_dir

from tk_ai_extension.cli.ownership import Ownership
from tk_ai_extension.cli.project import KERNELS, Project, Refused
from tk_ai_extension.cli.servers import Servers, ServerUnreachable
from tk_ai_extension.cli.settings import SettingsFile
from tk_ai_extension.cli.write_errors import translate_write_errors
from tk_ai_extension.kernels.sandbox.programs import find_sandbox
from tk_ai_extension.kernels.sandbox.provisioner import Confinement
from tk_ai_extension.kernels.service import Kernels
from tk_ai_extension.model.errors import (
    InvalidArguments,
    KernelNotFound,
    KernelStartFailed,
    ToolError,
)
from tk_ai_extension.workspace.state_folder import default_data_folder, state_folder

if TYPE_CHECKING:
    from tk_ai_extension.kernels.sharing.share import InstalledShare


class LabMissing(ToolError):
    """JupyterLab is not installed."""

    code = "lab_missing"
    status = 501
    default_hint = "Install it in `nb`'s environment: `pip install jupyterlab`."


def private_folder(root: Path, data: Path | None = None) -> Path:
    """Return the folder of a project's journal and chats, created if missing.

    Args:
        root: The project's folder.
        data: Its parent folder; by default the usual one.

    Raises:
        Refused: it cannot be written.
    """
    data = data or default_data_folder()
    try:
        return state_folder(data, root)
    except OSError as error:
        raise Refused(
            f"{data} cannot be written ({error.strerror}); it stores the history of changes. "
            "Set JUPYTER_DATA_DIR to another folder."
        ) from None


class ProjectServices:
    """Services of a project's own server.

    Attributes:
        settings: The project's settings.
        servers: The Jupyter Servers of this user.
        ownership: Decides which calls belong to other servers.
        stopping: Whether the server accepts no more commands and starts no more kernels.
        is_done: Whether it is to stop now.
        cleans: Whether it removes its files when it stops.
        is_temporary: Whether it stops with its last user; until something is opened for longer.
        open_lab: Loads JupyterLab in the server and returns its address; None without a server.
        stop_listening: Refuses further connections to the server.

    Args:
        project: The project.
        state: The private folder of its journal and chats.
        open_lab: See the attribute.
        stop_listening: See the attribute.
    """

    def __init__(
        self,
        project: Project,
        state: Path,
        open_lab: Callable[[], str] | None = None,
        stop_listening: Callable[[], None] = lambda: None,
    ) -> None:
        self.open_lab = open_lab
        self.stop_listening = stop_listening
        self.is_temporary = True
        self.project = project
        self._root = Path(project.root)
        self._folder = Path(project.folder)
        # Ignore files of another user.
        self.settings = SettingsFile(None if project.problem() else self._folder, state)
        self.servers = Servers()
        self.ownership = Ownership(self._root, self.servers, self.settings)
        self.stopping = self.is_done = False
        self.cleans = False
        # Commands change the settings one at a time.
        self._deciding = asyncio.Lock()

    def refuse(self) -> None:
        """Accept no more commands and start no more kernels, before the server is stopped.

        `nb` waits for the end of the server, and starts the next one.
        """
        self.stopping = True
        self.stop_listening()

    def stop(self, *, clean: bool) -> None:
        """Stop the server once the current command has its answer.

        Args:
            clean: Whether it removes its files.

        Raises:
            DiskFull, ReadOnly, SaveFailed: not all files could be removed.
        """
        self.cleans = clean
        self.is_done = True
        self.refuse()
        if clean:
            self.settings.forget()

    def stop_unused(self) -> None:
        """Stop a temporary server that nothing uses, unless it stops already; settings are kept."""
        if self.stopping:
            return
        self.cleans = self.is_done = True
        self.refuse()

    # -- attached server

    async def attach(self, address: str | None, token: str = "") -> None:
        """Attach the project to a Jupyter Server, or detach it (None).

        Args:
            address: The server's address, with or without its token.
            token: The token, if the address has none and the server does not run here.

        Raises:
            ServerUnreachable: it does not answer, refuses the token, or has no extension.
            InvalidArguments: the project's kernels run in a sandbox.
            DiskFull, ReadOnly, SaveFailed: the setting cannot be saved.
        """
        async with self._deciding:
            if address is None:
                self.settings.change(server=None)
                return
            if self.settings.now.sandbox:
                raise InvalidArguments(
                    "The kernels of this project run in a sandbox; a server's kernels do not.",
                    hint="`nb open --no-sandbox` disables the sandbox for new kernels.",
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
        """Return the sandbox for a new kernel; None for none. Called before and after its process starts.

        Raises:
            KernelStartFailed: the server is stopping.
            KernelUnsupported: no sandbox works on this machine.
        """
        if self.stopping:
            raise KernelStartFailed("The project's server is stopping.", hint="Try again.")
        if not self.settings.now.sandbox:
            return None
        hidden = [self._folder, default_data_folder(), Path(jupyter_runtime_dir())]
        return await asyncio.to_thread(Confinement.of, self._root, hidden=hidden)

    async def confine(self, kernels: Kernels, *, sandbox: bool) -> None:
        """Enable or disable the sandbox for new kernels.

        Args:
            kernels: The project's kernels.
            sandbox: Whether to use a sandbox.

        Raises:
            KernelUnsupported: no sandbox works on this machine.
            InvalidArguments: the project is attached to a server, or has kernels outside of a sandbox.
            DiskFull, ReadOnly, SaveFailed: the setting cannot be saved, or the trial failed.
        """
        async with self._deciding:
            if sandbox and not self.settings.now.sandbox:
                self._refuse_kernels_outside(kernels)
                await asyncio.to_thread(self._refuse_kernels_below)
                with translate_write_errors("a file for the sandbox's trial"):
                    await asyncio.to_thread(find_sandbox, self._root)
                # Check for kernels started in the meantime; a starting kernel checks the setting again.
                self._refuse_kernels_outside(kernels)
            self.settings.change(sandbox=sandbox)

    def _refuse_kernels_outside(self, kernels: Kernels) -> None:
        if self.settings.now.server is not None or kernels.ids():
            raise InvalidArguments(
                "This project has kernels outside of a sandbox.",
                hint="Run `nb shutdown`, then `nb open --sandbox`.",
            )

    def _refuse_kernels_below(self) -> None:
        for below in self.project.below():
            if below.is_served():
                raise InvalidArguments(
                    f"The project {below.root}, inside this one, has a server of its own, whose kernels "
                    "would be outside of the sandbox.",
                    hint=f"`nb -C {shlex.quote(below.root)} shutdown` stops it.",
                )

    # -- sharing

    async def share(self, kernels: Kernels, path: str, kernel_id: str | None) -> InstalledShare:
        """Share a notebook's kernel, and its later replacements, with other programs.

        Args:
            kernels: The project's kernels.
            path: The notebook.
            kernel_id: Its kernel; None if it has none.

        Raises:
            KernelNotFound: it has no kernel, or one that cannot be shared.
            DiskFull, ReadOnly, SaveFailed: the kernelspec cannot be written.
        """
        from tk_ai_extension.kernels.sharing.share import unshare_kernel

        async with self._deciding:
            if kernel_id is None:
                raise KernelNotFound(f"{path} has no running kernel.", hint="`nb open` starts one.")
            installed = await self._share(kernels, kernel_id)
            try:
                self.settings.change(shared=path)
            except ToolError:
                with contextlib.suppress(OSError):  # report the first error
                    await asyncio.to_thread(unshare_kernel, self._folder)
                raise
            return installed

    async def unshare(self) -> bool:
        """Stop sharing; return whether a kernel was shared.

        Raises:
            DiskFull, ReadOnly, SaveFailed: not all files could be removed.
        """
        async with self._deciding:
            if self.settings.now.shared is None:
                return False
            from tk_ai_extension.kernels.sharing.share import unshare_kernel

            with translate_write_errors("the kernelspec of the shared kernel"):
                await asyncio.to_thread(unshare_kernel, self._folder)
            self.settings.change(shared=None)
            return True

    async def bound(self, kernels: Kernels, path: str, kernel_id: str) -> None:
        """Share a notebook's new kernel if its previous one was shared."""
        async with self._deciding:
            if path == self.settings.now.shared:
                await self._share(kernels, kernel_id)

    async def _share(self, kernels: Kernels, kernel_id: str) -> InstalledShare:
        from tk_ai_extension.kernels.sharing.share import NoConnection, share_kernel

        language = (await kernels.info(kernel_id)).language or "python"
        file = self._folder / KERNELS / f"kernel-{kernel_id}.json"
        try:
            with translate_write_errors("the kernelspec of the shared kernel"):
                return await asyncio.to_thread(share_kernel, self._folder, file, language=language)
        except NoConnection as problem:
            raise KernelNotFound(f"It cannot be shared: {problem}") from problem
