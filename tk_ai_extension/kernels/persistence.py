"""Kernels that outlive the process that started them, and are adopted by the next one.

jupyter_client ends a kernel with its parent and removes the connection file with the manager. These
kernels are started independent; beside its connection file each has a note (which process it is), and
a log (its stdout and stderr). The process that manages a kernel holds a lock on the log.
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
from jupyter_client.multikernelmanager import AsyncMultiKernelManager, MultiKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Instance, TraitError, Unicode, default

from tk_ai_extension.kernels.environment import (
    SECRET_NAMES,
    FilteringProvisioner,
    InheritedEnvironment,
)
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
from tk_ai_extension.kernels.starting import KEPT
from tk_ai_extension.model import file_locks
from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import SandboxUnavailable
from tk_ai_extension.model.probing import missing_in

log = logging.getLogger(__name__)

NOTE = ".process"
"""Suffix of a note; a connection file's is ``.json``."""

NEW = ".new"
"""Suffix of a note that is being written."""

LOG = ".log"
"""Suffix of a kernel's log."""


class UnusableFile(Exception):
    """A note or a connection file is truncated, or was not written by this package."""


class ManagedElsewhere(Exception):
    """Another running process manages the kernel."""


UNUSABLE = (OSError, psutil.Error, SandboxUnavailable, UnusableFile, ManagedElsewhere)
"""Why a kernel is not adopted; any other exception is a bug."""


@contextmanager
def reading(file: Path) -> Generator[None]:
    """Raise `UnusableFile` if the content of a file cannot be parsed: anybody may have written it."""
    try:
        yield
    except (*MALFORMED, TraitError) as error:
        raise UnusableFile(f"{file.name} is not usable: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Note:
    """The content of a kernel's note. Only the types have been checked.

    Attributes:
        folder: The identity of the folder that the note was written to.
        started_for: The path of the notebook that the kernel was started for, or an empty string.
        sandbox: As `Confinement.as_note`; None for a kernel without a sandbox.
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
        """Read a note. Raises OSError, UnusableFile."""
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
    """Return the private attributes of jupyter_client that adoption needs and that are missing."""
    used: dict[type[Any], tuple[str, ...]] = {
        AsyncIOLoopKernelManager: (
            *("_attempted_start", "_close_control_socket", "_connection_file_written"),
            *("_launch_args", "load_connection_file", "start_restarter", "stop_restarter"),
        ),
        AsyncMultiKernelManager: ("_kernels", "_pending_kernels", "pre_start_kernel"),
        LocalProvisioner: ("connection_info", "pgid", "pid", "ports_cached", "process"),
    }
    return [part for kind, names in used.items() for part in missing_in(kind, names)]


class PersistentProvisioner(FilteringProvisioner):
    """Starts a kernel's process and records it in a note; or adopts one that is running."""

    parent: Any  # the kernel manager

    started_for = Unicode(help="The path that the kernel was started for, or an empty string.")

    sockets: Any = Instance(Path, allow_none=True, help="The folder of its sockets; None for TCP.")

    uses_ipc = True
    """Whether its sockets are in a folder of its own, if its kernel supports that.

    Jupyter's default is TCP, where every user of the machine reads all outputs: iopub asks for no key.
    """

    _managed: Any = None  # the open log, locked

    @default("left_out")
    def _default_left_out(self) -> list[str]:
        return list(SECRET_NAMES)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare the sockets. Called by the kernel manager before each launch of the process."""
        if self.sockets is not None:
            await asyncio.to_thread(restore_folder, self.sockets)
        elif self.uses_ipc and not self.ports_cached and supports_ipc(self.kernel_spec.argv):
            self.sockets = await asyncio.to_thread(make_folder)
            self.parent.transport = "ipc"
            self.parent.ip = str(self.sockets / "k")
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process and write its note. Called by the kernel manager."""
        self.started_for = kwargs["env"].get("JPY_SESSION_NAME", self.started_for)
        try:
            with self._file(LOG).open("wb") as output:
                info = await super().launch_kernel(
                    cmd, **{**kwargs, "independent": True, "stdout": output, "stderr": output}
                )
        except BaseException:
            if self.sockets is not None and not self._file(NOTE).exists():
                remove_folder(self.sockets)  # of a first start, which nothing cleans up
            raise
        try:
            self._lock()
            self._write_note()
        except BaseException:
            await self.kill()  # nobody would find it
            raise
        return info

    def note(self) -> dict[str, Any]:
        """Return what the next process needs to adopt the kernel, as JSON."""
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

    def adopt(self, process: AdoptedProcess, note: Note) -> None:
        """Take over a process that another one has started.

        Raises:
            ManagedElsewhere: the other one is still running.
        """
        self._lock()
        self.process: Any = process
        self.pid = process.pid
        self.pgid = os.getpgid(process.pid)
        self.cwd = note.cwd
        self.started_for = note.started_for
        self.sockets = note.sockets
        self.ports_cached = True  # a restart keeps the ports that the connection file names
        self.connection_info = self.parent.get_connection_info()

    def release(self) -> None:
        """Let another process adopt the kernel."""
        managed, self._managed = self._managed, None
        if managed is not None:
            managed.close()

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the kernel's files. Called by the kernel manager when the process has ended."""
        await super().cleanup(restart=restart)
        if not restart:
            self.release()
            for ending in (NOTE, NEW, LOG):
                self._file(ending).unlink(missing_ok=True)
            if self.sockets is not None:
                await asyncio.to_thread(remove_folder, self.sockets)

    def _lock(self) -> None:
        if self._managed is not None:
            return
        log_file = self._file(LOG).open("ab")
        try:
            file_locks.lock(log_file.fileno(), wait=False)
        except BlockingIOError as error:
            log_file.close()
            raise ManagedElsewhere("Another running process manages it.") from error
        except OSError as error:
            log.debug("Kernel %s is managed without a lock: %s", self.kernel_id, error)
        self._managed = log_file

    def _file(self, ending: str) -> Path:
        return Path(self.parent.connection_file).with_suffix(ending)


class ConfinedProvisioner(PersistentProvisioner, SandboxedProvisioner):
    """A `PersistentProvisioner` for a kernel in a sandbox, which a restart does not leave."""

    uses_ipc = False  # its sandbox has a folder for them

    def note(self) -> dict[str, Any]:
        """Return what the next process needs to adopt the kernel, its sandbox included."""
        return {**super().note(), "sandbox": self.confinement.as_note()}


class PersistentManagerMixin(KernelManager):
    """Keeps a kernel, and its connection file, when its manager goes away.

    To be mixed with an asynchronous `KernelManager` that has a restarter.
    """

    def __del__(self) -> None:
        self.detach()  # not the base's, which removes the connection file

    def detach(self) -> None:
        """Stop managing the kernel, which keeps running."""
        self.stop_restarter()
        if (close := getattr(self, "_close_control_socket", None)) is not None:
            close()
        if isinstance(self.provisioner, PersistentProvisioner):
            self.provisioner.release()

    def adopt(
        self, kernel_id: str, process: AdoptedProcess, note: Note, environment: Mapping[str, str]
    ) -> None:
        """Manage a running kernel whose connection file is this manager's.

        Args:
            kernel_id: Its id.
            process: Its process.
            note: Its note.
            environment: The environment that a restart gives it.
        """
        with reading(Path(self.connection_file)):
            self.load_connection_file()
        self._connection_file_written = True
        self.kernel_id = kernel_id
        cast("PersistentProvisioner", self.provisioner).adopt(process, note)
        env = dict(environment)
        if note.started_for:
            env["JPY_SESSION_NAME"] = note.started_for
        self._launch_args: Any = {"env": env, "cwd": note.cwd}
        self._attempted_start = True
        cast("Any", self).ready.set_result(None)
        self.start_restarter()


class PersistentKernelManager(PersistentManagerMixin, AsyncIOLoopKernelManager):
    """Manages one persistent kernel."""


class PersistenceMixin(MultiKernelManager):
    """Starts kernels that outlive the process, and adopts those that a former process left.

    To be mixed with an asynchronous `MultiKernelManager` whose ``kernel_manager_class`` is a
    `PersistentManagerMixin`. What is needed to find a kernel again is in ``connection_dir``, which
    must have the mode 0700: connection files hold the kernels' keys. Several processes may have the
    same ``connection_dir``; a kernel is adopted when the process that managed it is gone.
    """

    def pre_start_kernel(
        self, kernel_name: str | None, kwargs: Any
    ) -> tuple[KernelManager, str, str]:
        """Give a new kernel its provisioner. Called before each start, with its arguments.

        An argument of our own is ``confinement``, the `Confinement` of a kernel in a sandbox.

        Raises:
            SandboxUnavailable: the kernelspec names a provisioner, which no sandbox holds.
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
            manager.provisioner = PersistentProvisioner(**known)
        return manager, name, kernel_id

    def adopt(self, environment: Mapping[str, str] | None = None) -> list[str]:
        """Adopt the kernels that still run, and remove the files of those that do not.

        In a copy of ``connection_dir`` the files are removed as well: its kernels are those of the
        original. A kernel that may run but cannot be adopted (its kernelspec is not installed, its
        note is truncated, another process manages it) is left alone with its files.

        Args:
            environment: The environment that a restart gives them; by default this process's,
                without the agent's secrets.

        Returns:
            Their ids, which are the same as before.
        """
        adopted: list[str] = []
        if environment is None:
            environment = InheritedEnvironment().environment("", None)
        for note in sorted(Path(self.connection_dir).glob(f"kernel-*{NOTE}")):
            kernel_id = note.stem.removeprefix("kernel-")
            if kernel_id in self:
                continue
            try:
                manager = self._adopt(kernel_id, note, environment)
            except UNUSABLE as error:
                log.warning("Kernel %s is left alone: %r", kernel_id, error)
                continue
            if manager is None:
                for ending in (NOTE, NEW, ".json", LOG):
                    note.with_suffix(ending).unlink(missing_ok=True)
                continue
            self._kernels[kernel_id] = manager
            adopted.append(kernel_id)
        return adopted

    def _adopt(
        self, kernel_id: str, note: Path, environment: Mapping[str, str]
    ) -> PersistentManagerMixin | None:
        """Return the manager of a kernel that was started before; None if only files are left.

        Nothing in the note is trusted: anybody may have written it.
        """
        known = Note.read(note)
        if known.folder != _identity(note.parent):
            log.info("Kernel %s belongs to the folder that this one is a copy of.", kernel_id)
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
            log.info("Kernel %s is not running any more.", kernel_id)
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
        adopted = cast("PersistentManagerMixin", manager)
        adopted.adopt(kernel_id, process, known, environment)
        return adopted

    def started_for(self, kernel_id: str) -> str:
        """Return the path that a kernel was started for, or an empty string if it is not known."""
        provisioner = self.get_kernel(kernel_id).provisioner
        return provisioner.started_for if isinstance(provisioner, PersistentProvisioner) else ""

    def log_of(self, kernel_id: str) -> str:
        """Return the end of a kernel's log: it may say why the kernel did not start."""
        try:
            written = Path(self.connection_dir, f"kernel-{kernel_id}{LOG}").read_bytes()
        except FileNotFoundError:
            return ""
        return written[-KEPT:].decode("utf-8", "replace").strip()

    def detach(self) -> None:
        """Stop managing all kernels, which keep running; this manager must not be used afterwards."""
        for manager in self._kernels.values():
            cast("PersistentManagerMixin", manager).detach()
        self.context.destroy(linger=0)


class PersistentMultiKernelManager(PersistenceMixin, AsyncMultiKernelManager):
    """Persistent kernels without a Jupyter Server."""

    @default("kernel_manager_class")
    def _default_kernel_manager_class(self) -> str:
        return f"{__name__}.{PersistentKernelManager.__name__}"


def _identity(folder: Path) -> list[int]:
    """Return what a folder keeps when it is moved, and what its copy does not have."""
    status = folder.stat()
    return [status.st_dev, status.st_ino]
