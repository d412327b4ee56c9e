"""A project's server: its settings, the sandbox of its kernels, and shared kernels."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_runtime_dir

from tk_ai_extension.cli.project_folder import KERNELS, SETTINGS, CommandError, Project
from tk_ai_extension.cli.servers import own_server
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.kernels.sandbox.sandbox import Sandbox, find_sandbox
from tk_ai_extension.model.errors import (
    InvalidArguments,
    KernelNotFound,
    SaveFailed,
    ToolError,
    save_error,
)
from tk_ai_extension.model.private_files import write_private
from tk_ai_extension.workspace.data_folder import default_data_folder

if TYPE_CHECKING:
    from collections.abc import Callable


class LabMissing(ToolError):
    """JupyterLab is not installed."""

    code = "lab_missing"
    status = 501
    default_hint = "Install it in `nb`'s environment: `pip install jupyterlab`."


class ProjectServices:
    """Services of a project's server.

    Attributes:
        sandbox: Whether new kernels run in a sandbox.
        shared: The notebook with the shared kernel; None without one.

    Args:
        project: The project.
        open_lab: Loads JupyterLab in the server and returns its address.

    Raises:
        CommandError: the settings cannot be read.
    """

    def __init__(self, project: Project, open_lab: Callable[[], str]) -> None:
        self._project = project
        self.open_lab = open_lab
        self._root = Path(project.root)
        self._folder = Path(project.folder)
        self.sandbox, self.shared = self._settings()
        # Requests change the settings one at a time.
        self._changing = asyncio.Lock()

    def _settings(self) -> tuple[bool, str | None]:
        file = self._folder / SETTINGS
        try:
            known: Any = json.loads(file.read_bytes())
        except FileNotFoundError:
            return False, None
        except (OSError, ValueError) as error:
            raise CommandError(f"{file} cannot be read ({error}): fix or remove it.") from None
        match known:
            case {"sandbox": bool(sandbox), "shared": str() | None as shared}:
                return sandbox, shared
            case _:
                raise CommandError(f"{file} has unexpected content: fix or remove it.")

    def _save(self, *, sandbox: bool, shared: str | None) -> None:
        with _write_errors("the project's settings"):
            text = json.dumps({"sandbox": sandbox, "shared": shared})
            write_private(self._folder / SETTINGS, text)
        self.sandbox, self.shared = sandbox, shared

    # -- the sandbox

    async def confinement(self) -> Sandbox | None:
        """Return the sandbox for a new kernel; None for none.

        Raises:
            KernelUnsupported: no sandbox works on this machine.
        """
        if not self.sandbox:
            return None
        hidden = [self._folder, default_data_folder(), Path(jupyter_runtime_dir())]
        return await asyncio.to_thread(find_sandbox, self._root, hidden=hidden)

    async def confine(self, kernels: KernelService, *, sandbox: bool) -> None:
        """Enable or disable the sandbox for new kernels.

        Raises:
            KernelUnsupported: no sandbox works on this machine.
            InvalidArguments: the project has kernels outside of a sandbox.
            DiskFull, ReadOnly, SaveFailed: the setting cannot be saved, or the trial failed.
        """
        async with self._changing:
            if sandbox and not self.sandbox:
                _refuse_kernels(kernels)
                await asyncio.to_thread(self._refuse_kernels_below)
                with _write_errors("a file for the sandbox's trial"):
                    await asyncio.to_thread(find_sandbox, self._root)
                # Kernels may have been started in the meantime.
                _refuse_kernels(kernels)
            self._save(sandbox=sandbox, shared=self.shared)

    def _refuse_kernels_below(self) -> None:
        for below in self._project.below():
            if own_server(below) is not None:
                raise InvalidArguments(
                    f"The project {below.root}, inside this one, has its own server. "
                    "Its kernels would be outside of the sandbox.",
                    hint=f"`nb -C {shlex.quote(below.root)} shutdown` stops it.",
                )

    # -- sharing

    async def share(
        self, kernels: KernelService, path: str, kernel_id: str | None
    ) -> dict[str, str]:
        """Share a notebook's kernel, and its later replacements, with other programs; see `share_kernel`.

        Raises:
            KernelNotFound: it has no kernel.
            DiskFull, ReadOnly, SaveFailed: the kernelspec cannot be written.
        """
        async with self._changing:
            if kernel_id is None:
                raise KernelNotFound(f"{path} has no running kernel.", hint="`nb open` starts one.")
            installed = await self._share(kernels, kernel_id)
            self._save(sandbox=self.sandbox, shared=path)
            return installed

    async def unshare(self) -> bool:
        """Stop sharing; return whether a kernel was shared.

        Raises:
            DiskFull, ReadOnly, SaveFailed: not all files could be removed.
        """
        async with self._changing:
            if self.shared is None:
                return False
            from tk_ai_extension.kernels.sharing.kernelspec import unshare_kernel

            with _write_errors("the kernelspec of the shared kernel"):
                await asyncio.to_thread(unshare_kernel, self._folder)
            self._save(sandbox=self.sandbox, shared=None)
            return True

    async def bound(self, kernels: KernelService, path: str, kernel_id: str) -> None:
        """Share a notebook's new kernel if its previous one was shared."""
        async with self._changing:
            if path == self.shared:
                await self._share(kernels, kernel_id)

    async def _share(self, kernels: KernelService, kernel_id: str) -> dict[str, str]:
        from tk_ai_extension.kernels.sharing.kernelspec import share_kernel

        language = (await kernels.info(kernel_id)).language or "python"
        file = self._folder / KERNELS / f"kernel-{kernel_id}.json"
        with _write_errors("the kernelspec of the shared kernel"):
            return await asyncio.to_thread(share_kernel, self._folder, file, language=language)


def _refuse_kernels(kernels: KernelService) -> None:
    if kernels.ids():
        raise InvalidArguments(
            "This project has kernels outside of a sandbox.",
            hint="Run `nb shutdown`, then `nb open --sandbox`.",
        )


@contextmanager
def _write_errors(what: str) -> Generator[None]:
    """Raise errors of the file system as those of the tools."""
    try:
        yield
    except FileNotFoundError as error:
        raise SaveFailed(f"{what} cannot be saved: {error.filename} is gone.") from error
    except OSError as error:
        raise save_error(error, what) from error
