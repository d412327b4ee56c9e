"""Kernels that outlive the process that started them, and are found again by the next one.

A kernel that Jupyter starts ends with its parent, and its connection file goes with the object that
manages it. These are started independent, keep both their connection file and a note of their process
in one folder, and write what they have to say beside their outputs to a file there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, Self, cast

import psutil
from jupyter_client.ioloop.manager import AsyncIOLoopKernelManager
from jupyter_client.manager import KernelManager
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Instance, TraitError, Unicode

from tk_ai_extension.kernels.process import AdoptedProcess
from tk_ai_extension.kernels.sandbox.confinement import (
    Confinement,
    connection_file_in,
)
from tk_ai_extension.kernels.sandbox.provisioner import SandboxedProvisioner
from tk_ai_extension.kernels.socket_folders import (
    make_folder,
    remove_folder,
    restore_folder,
    supports_ipc,
)
from tk_ai_extension.kernels.stderr import KEPT
from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import SandboxUnavailable
from tk_ai_extension.model.probing import missing_in

log = logging.getLogger(__name__)

NOTE = ".process"
"""How the name of a note ends; a connection file's ends with ``.json``, a log's with ``.log``."""

NEW = ".new"
"""How the name of a note ends that is being written."""


class UnusableFile(Exception):
    """A note or a connection file that is cut off, or that nobody of ours has written."""


UNUSABLE = (OSError, psutil.Error, SandboxUnavailable, UnusableFile)
"""Why a kernel is not taken over; another exception is a defect of ours."""


@contextmanager
def reading(file: Path) -> Generator[None]:
    """Raise `UnusableFile` where the content of a file cannot be read: anybody may have put it there."""
    try:
        yield
    except (*MALFORMED, TraitError) as error:
        raise UnusableFile(f"{file.name} is not usable: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Note:
    """What the note of a kernel says, of which only the types are known to be right.

    Attributes:
        folder: The identity of the folder that the note was written to.
        sandbox: As `Confinement.as_note`; None for a kernel outside of one.
    """

    pid: int
    folder: object
    kernel_name: str
    cwd: str
    started_for: str
    sockets: Path | None
    sandbox: Mapping[str, Any] | None

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read one. Raises OSError, UnusableFile."""
        with reading(file):
            known = json.loads(file.read_text(encoding="utf-8"))
            if index(known["pid"]) <= 0:
                raise ValueError("no process's id")
            return cls(
                pid=index(known["pid"]),
                folder=known["folder"],
                kernel_name=str(known["kernel_name"]),
                cwd=str(Path(known["cwd"])),
                started_for=str(known.get("started_for", "")),
                sockets=Path(known["sockets"]) if known.get("sockets") else None,
                sandbox=known.get("sandbox"),
            )


def missing_parts() -> list[str]:
    """What jupyter_client does not have any more of what kernels that are taken over need."""
    used: dict[type[Any], tuple[str, ...]] = {
        AsyncIOLoopKernelManager: (
            *("_attempted_start", "_close_control_socket", "_connection_file_written"),
            *("_launch_args", "load_connection_file", "start_restarter", "stop_restarter"),
        ),
        AsyncMultiKernelManager: ("_kernels", "_pending_kernels", "pre_start_kernel"),
        LocalProvisioner: ("connection_info", "pgid", "pid", "ports_cached", "process"),
    }
    return [part for kind, names in used.items() for part in missing_in(kind, names)]


class LastingProvisioner(LocalProvisioner):
    """Starts a kernel's process and notes which it is; or takes over one that runs already."""

    parent: Any  # the kernel manager

    started_for = Unicode(help="The path that the kernel was started for; empty where for none.")

    sockets: Any = Instance(Path, allow_none=True, help="The folder of its sockets; None for TCP.")

    uses_ipc = True
    """Whether its sockets are in a folder of its own, if its kernel supports that.

    Jupyter's default is TCP, where every user of the machine reads all outputs: iopub asks for no key.
    """

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Called by the kernel manager before each launch of the process."""
        if self.sockets is not None:
            await asyncio.to_thread(restore_folder, self.sockets)
        elif self.uses_ipc and not self.ports_cached and supports_ipc(self.kernel_spec.argv):
            self.sockets = await asyncio.to_thread(make_folder)
            self.parent.transport = "ipc"
            self.parent.ip = str(self.sockets / "k")
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Called by the kernel manager to start the process."""
        self.started_for = kwargs["env"].get("JPY_SESSION_NAME", self.started_for)
        try:
            with self._file(".log").open("wb") as output:
                info = await super().launch_kernel(
                    cmd, **{**kwargs, "independent": True, "stdout": output, "stderr": output}
                )
        except BaseException:
            if self.sockets is not None and not self._file(NOTE).exists():
                remove_folder(self.sockets)  # of a first start, which nothing cleans up
            raise
        try:
            self._write_note()
        except BaseException:
            await self.kill()  # nobody would find it
            raise
        return info

    def note(self) -> dict[str, Any]:
        """What the next host has to know, as JSON."""
        return {
            "pid": self.pid,
            "folder": _identity(self._file(NOTE).parent),
            "kernel_name": self.parent.kernel_name,
            "cwd": os.fspath(self.cwd or Path.cwd()),
            "started_for": self.started_for,
            "sockets": None if self.sockets is None else str(self.sockets),
        }

    def _write_note(self) -> None:
        new = self._file(NEW)
        new.unlink(missing_ok=True)
        with new.open("x", encoding="utf-8") as file:
            json.dump(self.note(), file)
        new.replace(self._file(NOTE))  # it is there whole, or not at all

    def adopt(self, process: AdoptedProcess, cwd: str) -> None:
        """Takes over a process that was started before."""
        self.process: Any = process
        self.pid = process.pid
        self.pgid = os.getpgid(process.pid)
        self.cwd = cwd
        self.ports_cached = True  # a restart keeps the ports that the connection file names
        self.connection_info = self.parent.get_connection_info()

    async def cleanup(self, restart: bool = False) -> None:
        """Called by the kernel manager when the process has ended."""
        await super().cleanup(restart=restart)
        if not restart:
            for ending in (NOTE, NEW, ".log"):
                self._file(ending).unlink(missing_ok=True)
            if self.sockets is not None:
                await asyncio.to_thread(remove_folder, self.sockets)

    def _file(self, ending: str) -> Path:
        return Path(self.parent.connection_file).with_suffix(ending)


class ConfinedProvisioner(LastingProvisioner, SandboxedProvisioner):
    """The same for a kernel in a sandbox: it stays there, whoever starts it again."""

    uses_ipc = False  # its sandbox has a folder for them

    def note(self) -> dict[str, Any]:
        """What the next host has to know, its sandbox too."""
        return {**super().note(), "sandbox": self.confinement.as_note()}


class LastingKernelManager(AsyncIOLoopKernelManager):
    """Manages one kernel; its connection file stays until the kernel is shut down."""

    def __del__(self) -> None:
        self.leave()  # and nothing else: the kernel lives on

    def leave(self) -> None:
        """Lets go of the kernel, which lives on."""
        self.stop_restarter()
        if (close := getattr(self, "_close_control_socket", None)) is not None:
            close()

    def adopt(
        self, kernel_id: str, process: AdoptedProcess, cwd: str, environment: Mapping[str, str]
    ) -> None:
        """Takes over a running kernel whose connection file is this manager's."""
        with reading(Path(self.connection_file)):
            self.load_connection_file()
        self._connection_file_written = True
        self.kernel_id = kernel_id
        cast("LastingProvisioner", self.provisioner).adopt(process, cwd)
        # What a restart starts it with.
        self._launch_args: Any = {"env": dict(environment), "cwd": cwd}
        self._attempted_start = True
        cast("Any", self).ready.set_result(None)
        self.start_restarter()


class LastingMultiKernelManager(AsyncMultiKernelManager):
    """The kernels whose connection files are in one folder, whoever has started them.

    Args:
        connection_dir: The folder, of mode 0700: the files hold the kernels' keys.
    """

    def __init__(self, **traits: Any) -> None:
        kind = f"{LastingKernelManager.__module__}.{LastingKernelManager.__qualname__}"
        super().__init__(kernel_manager_class=kind, **traits)

    def pre_start_kernel(
        self, kernel_name: str | None, kwargs: Any
    ) -> tuple[KernelManager, str, str]:
        """Called for each new kernel, before it is started, with what `start_kernel` was given.

        Its own argument is ``confinement``, the `Confinement` of a kernel that is to be in a sandbox.

        Raises:
            SandboxUnavailable: the kernelspec says itself how it is started, and no sandbox holds that.
        """
        confinement: Confinement | None = kwargs.pop("confinement", None)
        manager, name, kernel_id = super().pre_start_kernel(kernel_name, kwargs)
        spec: Any = manager.kernel_spec
        known: Any = {"kernel_id": kernel_id, "kernel_spec": spec, "parent": manager}
        if confinement is not None:
            if "kernel_provisioner" in spec.metadata:
                raise SandboxUnavailable(
                    f"The kernelspec `{name}` names a provisioner of its own, which starts kernels "
                    "outside of a sandbox.",
                    hint="Choose another kernelspec: list_kernels shows those that are installed.",
                )
            manager.provisioner = ConfinedProvisioner(confinement=confinement, **known)
        elif "kernel_provisioner" not in spec.metadata:
            manager.provisioner = LastingProvisioner(**known)
        return manager, name, kernel_id

    def adopt(self, environment: Mapping[str, str]) -> list[str]:
        """Takes over the kernels that still run, and removes the files of those that do not.

        Of a copy of the folder the files are removed as well: its kernels are those of the original.
        A kernel that may run but cannot be taken over, since its kernelspec is not here or its
        note is cut off, is left alone with its files.

        Args:
            environment: What their environment holds when they are restarted.

        Returns:
            Their ids, the same as before.
        """
        adopted: list[str] = []
        for note in sorted(Path(self.connection_dir).glob(f"kernel-*{NOTE}")):
            kernel_id = note.stem.removeprefix("kernel-")
            if kernel_id in self:
                continue
            try:
                manager = self._adopted(kernel_id, note, environment)
            except UNUSABLE as error:
                log.warning("Kernel %s is left alone: %r", kernel_id, error)
                continue
            if manager is None:
                for ending in (NOTE, NEW, ".json", ".log"):
                    note.with_suffix(ending).unlink(missing_ok=True)
                continue
            self._kernels[kernel_id] = manager
            adopted.append(kernel_id)
        return adopted

    def _adopted(
        self, kernel_id: str, note: Path, environment: Mapping[str, str]
    ) -> LastingKernelManager | None:
        """The manager of a kernel that was started before; None where only its files are left.

        Nothing that the note says is taken on trust: anybody may have put it there.
        """
        known = Note.read(note)
        if known.folder != _identity(note.parent):
            log.info("Kernel %s is that of the folder that this one is a copy of.", kernel_id)
            return None
        folder = None
        if known.sandbox is not None:
            with reading(note):
                folder = Path(known.sandbox["folder"])
        try:
            process = AdoptedProcess(
                known.pid,
                str(connection_file_in(folder)) if folder else f"kernel-{kernel_id}.json",
            )
        except psutil.NoSuchProcess:
            log.info("Kernel %s does not run any more.", kernel_id)
            for left in filter(None, (folder, known.sockets)):
                remove_folder(left)
            return None
        confinement = None
        if known.sandbox is not None:
            with reading(note):
                confinement = Confinement.from_note(known.sandbox)
        with reading(note):  # and the kernelspec that it names
            manager = self.pre_start_kernel(
                known.kernel_name, {"kernel_id": kernel_id, "confinement": confinement}
            )[0]
        adopted = cast("LastingKernelManager", manager)
        adopted.adopt(kernel_id, process, known.cwd, environment)
        provisioner = cast("LastingProvisioner", adopted.provisioner)
        provisioner.started_for = known.started_for
        provisioner.sockets = known.sockets
        return adopted

    def started_for(self, kernel_id: str) -> str:
        """The path that a kernel was started for, by whichever host; empty where that is not known."""
        provisioner = self.get_kernel(kernel_id).provisioner
        return provisioner.started_for if isinstance(provisioner, LastingProvisioner) else ""

    def log_of(self, kernel_id: str) -> str:
        """The end of what a kernel has written beside its outputs: why it did not start, perhaps."""
        try:
            written = Path(self.connection_dir, f"kernel-{kernel_id}.log").read_bytes()
        except FileNotFoundError:
            return ""
        return written[-KEPT:].decode("utf-8", "replace").strip()

    def leave(self) -> None:
        """Lets go of all kernels, which live on; this manager is of no use afterwards."""
        for manager in self._kernels.values():
            cast("LastingKernelManager", manager).leave()
        self.context.destroy(linger=0)


def _identity(folder: Path) -> list[int]:
    """What a folder keeps when it is moved, and what its copy does not have."""
    status = folder.stat()
    return [status.st_dev, status.st_ino]
