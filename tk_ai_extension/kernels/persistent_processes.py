"""Kernel processes that outlive the process that started them, and the files that describe them.

jupyter_client ends a kernel with its parent and removes the connection file with the manager. These
kernels are started with ``independent``. Beside its connection file each has a note (its process) and a
log (its stdout and stderr). The process that manages a kernel holds a lock on the log.
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
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import psutil
from traitlets import Instance, TraitError, Unicode, default

from tk_ai_extension.kernels.environment import (
    FilteringProvisioner,
)
from tk_ai_extension.kernels.process import AdoptedProcess
from tk_ai_extension.kernels.sandbox.provisioner import SandboxedProvisioner
from tk_ai_extension.kernels.socket_folders import (
    make_folder,
    remove_folder,
    restore_folder,
    supports_ipc,
)
from tk_ai_extension.model import file_locks
from tk_ai_extension.model.agent_variables import SECRETS
from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import SandboxUnavailable
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager

log = logging.getLogger(__name__)

NOTE = ".process"
"""Suffix of a note; the connection file has ``.json``."""

NEW = ".new"
"""Suffix of a note that is being written."""

LOG = ".log"
"""Suffix of a kernel's log."""

MAX_LOG = 65_536
"""Bytes of a log above which a restarted kernel starts a new one."""


class UnusableFile(Exception):
    """A note or connection file is truncated, or this package did not write it."""


class ManagedElsewhere(Exception):
    """Another running process manages the kernel."""


def lock_log(file: Path) -> BinaryIO:
    """Open a kernel's log and lock it: this process manages the kernel until the file is closed.

    Raises:
        ManagedElsewhere: Another running process manages the kernel; it may be between two processes.
        OSError: The log cannot be opened.
    """
    log_file = file.open("ab")
    try:
        file_locks.lock(log_file.fileno(), wait=False)
    except BlockingIOError as error:
        log_file.close()
        raise ManagedElsewhere("Another running process manages this kernel.") from error
    except OSError as error:
        log.debug("%s is used without a lock: %s", file.name, error)
    return log_file


UNUSABLE = (OSError, psutil.Error, SandboxUnavailable, UnusableFile, ManagedElsewhere)
"""Exceptions for which a kernel is not adopted; any other is a bug."""


@contextmanager
def reading(file: Path) -> Generator[None]:
    """Raise `UnusableFile` if the content of an untrusted file cannot be parsed."""
    try:
        yield
    except (*MALFORMED, TraitError) as error:
        raise UnusableFile(f"{file.name} cannot be used: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Note:
    """The content of a kernel's note. Only its types were checked.

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
                raise ValueError("not a process id")
            return cls(
                pid=index(known["pid"]),
                folder=known["folder"],
                kernel_name=str(known["kernel_name"]),
                cwd=str(Path(known["cwd"])),
                started_for=str(known.get("started_for", "")),
                sockets=Path(known["sockets"]) if known.get("sockets") else None,
                sandbox=known.get("sandbox"),
            )


class PersistentProvisioner(FilteringProvisioner):
    """Starts a kernel's process and writes its note, or adopts a running process."""

    parent: KernelManager  # the kernel manager  # pyrefly: ignore[bad-override]

    started_for = Unicode(help="The path that the kernel was started for, or an empty string.")

    sockets: Any = Instance(Path, allow_none=True, help="The folder of its sockets; None for TCP.")  # pyrefly: ignore[no-matching-overload]

    uses_ipc = True
    """Whether its sockets are Unix sockets in a private folder, if the kernel supports that.

    Jupyter's default is TCP, where every user of the machine can read all outputs: iopub needs no key.
    """

    _managed: Any = None  # the open log, locked

    @default("left_out")
    def _default_left_out(self) -> list[str]:
        return list(SECRETS)

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
            with self._file(LOG).open("ab" if self._is_restart() else "wb") as output:
                info = await super().launch_kernel(
                    cmd, **{**kwargs, "independent": True, "stdout": output, "stderr": output}
                )
        except BaseException:
            if self.sockets is not None and not self._file(NOTE).exists():
                remove_folder(self.sockets)  # after a failed first start, nothing else does
            raise
        try:
            self._lock()
            self._write_note()
        except BaseException:
            await self.kill()  # without a note it could not be found again
            raise
        return info

    def note(self) -> Json:
        """Return what the next process needs to adopt the kernel, as JSON."""
        return {
            "pid": self.pid,
            "folder": identity(self._file(NOTE).parent),
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
        new.replace(self._file(NOTE))  # atomic: readers never see a partial note

    def adopt(self, process: AdoptedProcess, note: Note, managed: BinaryIO) -> None:
        """Take over a kernel's process that another process started.

        Args:
            process: The process.
            note: Its note.
            managed: Its log, locked.
        """
        self._managed = managed
        self.process: Any = process
        self.pid = process.pid
        self.pgid = os.getpgid(process.pid)
        self.cwd = note.cwd
        self.started_for = note.started_for
        self.sockets = note.sockets
        self.ports_cached = True  # a restart keeps the ports of the connection file
        self.connection_info = self.parent.get_connection_info()

    def release(self) -> None:
        """Release the lock, so that another process can adopt the kernel."""
        managed, self._managed = self._managed, None
        if managed is not None:
            managed.close()

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the kernel's files. Called by the kernel manager when the process has ended."""
        await super().cleanup(restart=restart)
        if not restart:
            for ending in (NOTE, NEW):
                self._file(ending).unlink(missing_ok=True)
            self.release()
            self._file(LOG).unlink(missing_ok=True)
            if self.sockets is not None:
                await asyncio.to_thread(remove_folder, self.sockets)

    def _is_restart(self) -> bool:
        """Return whether the log is the previous process's and is to be continued; a missing one is empty."""
        status = self._log_status()
        return self._managed is not None and (status is None or status.st_size < MAX_LOG)

    def _log_status(self) -> os.stat_result | None:
        try:
            return self._file(LOG).stat()
        except FileNotFoundError:
            return None

    def _lock(self) -> None:
        status = self._log_status()
        locked = None if self._managed is None else os.fstat(self._managed.fileno())
        if locked is not None and status is not None and os.path.samestat(locked, status):
            return
        # If the log was deleted, others find the new file, on which there is no lock yet.
        log_file = lock_log(self._file(LOG))
        self.release()
        self._managed = log_file

    def _file(self, ending: str) -> Path:
        return Path(self.parent.connection_file).with_suffix(ending)


class ConfinedProvisioner(PersistentProvisioner, SandboxedProvisioner):
    """A `PersistentProvisioner` for a kernel in a sandbox, also after restarts."""

    uses_ipc = False  # the sandbox has its own folder for sockets

    def note(self) -> Json:
        """Return what the next process needs to adopt the kernel, including its sandbox."""
        return {**super().note(), "sandbox": self.confinement.as_note()}


def identity(folder: Path) -> list[int]:
    """Return a folder's device and inode: unchanged by a move, different for a copy."""
    status = folder.stat()
    return [status.st_dev, status.st_ino]
