"""Persistent kernels of a Jupyter Server: they outlive the server, and the next one adopts them.

Set ``c.ServerApp.kernel_manager_class`` to `PersistentMappingKernelManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import psutil
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server.prometheus.metrics import KERNEL_CURRENTLY_RUNNING_TOTAL
from jupyter_server.services.kernels.kernelmanager import (
    AsyncMappingKernelManager,
    ServerKernelManager,
)
from traitlets import Bool, default

from tk_ai_extension.kernels.environment import InheritedEnvironment
from tk_ai_extension.kernels.persistent_processes import (
    LOG,
    NEW,
    NOTE,
    UNUSABLE,
    ConfinedProvisioner,
    Note,
    PersistentProvisioner,
    identity,
    lock_log,
    reading,
)
from tk_ai_extension.kernels.process import AdoptedProcess
from tk_ai_extension.kernels.sandbox.confinement import Confinement, connection_file_in
from tk_ai_extension.kernels.socket_folders import remove_folder, remove_stale_folders
from tk_ai_extension.kernels.starter import TAIL_BYTES
from tk_ai_extension.model.errors import SandboxUnavailable
from tk_ai_extension.model.private_api import missing_members

log = logging.getLogger(__name__)


def missing_parts() -> list[str]:
    """Return the private attributes of Jupyter's kernel managers that adoption needs and lacks."""
    used: dict[type[Any], tuple[str, ...]] = {
        ServerKernelManager: (
            *("_attempted_start", "_close_control_socket", "_connection_file_written"),
            *("_launch_args", "load_connection_file", "start_restarter", "stop_restarter"),
            *("execution_state", "last_activity", "ports"),
        ),
        AsyncMappingKernelManager: (
            *("_kernels", "_pending_kernels", "pre_start_kernel", "add_restart_callback"),
            *("_kernel_connections", "_kernel_ports", "_initialized_culler", "initialize_culler"),
            *("start_watching_activity", "stop_watching_activity", "remove_kernel"),
            "_async_shutdown_kernel",
        ),
        LocalProvisioner: ("connection_info", "pgid", "pid", "ports_cached", "process"),
    }
    return [part for kind, names in used.items() for part in missing_members(kind, names)]


class PersistentServerKernelManager(ServerKernelManager):
    """Manages one kernel, which keeps running with its connection file after its manager is gone."""

    def __del__(self) -> None:
        self.detach()  # the base class would remove the connection file

    def detach(self) -> None:
        """Stop managing the kernel, which keeps running."""
        self.stop_restarter()
        if (close := getattr(self, "_close_control_socket", None)) is not None:
            close()
        if isinstance(self.provisioner, PersistentProvisioner):
            self.provisioner.release()

    def adopt(
        self,
        kernel_id: str,
        process: AdoptedProcess,
        note: Note,
        managed: BinaryIO,
        environment: Mapping[str, str],
    ) -> None:
        """Manage a running kernel that uses this manager's connection file.

        Args:
            kernel_id: Its id.
            process: Its process.
            note: Its note.
            managed: Its log, locked.
            environment: The environment for its next restart.
        """
        with reading(Path(self.connection_file)):
            self.load_connection_file()
        self._connection_file_written = True
        self.kernel_id = kernel_id
        cast("PersistentProvisioner", self.provisioner).adopt(process, note, managed)
        env = dict(environment)
        if note.started_for:
            env["JPY_SESSION_NAME"] = note.started_for
        self._launch_args: Any = {"env": env, "cwd": note.cwd}
        self._attempted_start = True
        cast("Any", self).ready.set_result(None)
        self.start_restarter()


class PersistentMappingKernelManager(AsyncMappingKernelManager):
    """The kernels of a Jupyter Server, which keep running when it stops or is killed.

    The next server with the same runtime folder adopts them with their ids and variables. An adopted
    kernel counts as busy until it has answered. ``connection_dir`` holds what is needed to find a
    kernel again; its mode must be 0700, because connection files contain the kernels' keys. Several
    processes may share a ``connection_dir``: a kernel is adopted once the process that managed it has
    ended.
    """

    adopt_on_start = Bool(
        True, config=True, help="Adopt the kernels that a previous server left running."
    )

    shutdown_on_exit = Bool(False, config=True, help="Shut all kernels down when the server stops.")

    def __init__(self, **kwargs: Any) -> None:
        cast("Any", super()).__init__(**kwargs)
        if self.adopt_on_start:
            self.adopt()

    @default("kernel_manager_class")
    def _default_kernel_manager_class(self) -> Any:
        return f"{__name__}.{PersistentServerKernelManager.__name__}"

    def pre_start_kernel(
        self, kernel_name: str | None, kwargs: Any
    ) -> tuple[KernelManager, str, str]:
        """Give a new kernel its provisioner. Called with the arguments of each start.

        In addition to Jupyter's arguments, ``confinement`` is the `Confinement` of a sandboxed kernel.

        Raises:
            SandboxUnavailable: the kernelspec names a provisioner, which cannot run in a sandbox.
        """
        confinement: Confinement | None = kwargs.pop("confinement", None)
        manager, name, kernel_id = cast("Any", super()).pre_start_kernel(kernel_name, kwargs)
        spec: Any = manager.kernel_spec
        known: Any = {"kernel_id": kernel_id, "kernel_spec": spec, "parent": manager}
        if confinement is not None:
            if "kernel_provisioner" in spec.metadata:
                raise SandboxUnavailable(
                    f"The kernelspec `{name}` has its own provisioner, which starts kernels outside "
                    "the sandbox.",
                    hint="Choose another kernelspec; list_kernels shows the installed ones.",
                )
            manager.provisioner = ConfinedProvisioner(confinement=confinement, **known)
        elif "kernel_provisioner" not in spec.metadata:
            manager.provisioner = PersistentProvisioner(**known)
        return manager, name, kernel_id

    def adopt(self, environment: Mapping[str, str] | None = None) -> list[str]:
        """Adopt the kernels that are still running and remove the files of those that are not.

        Also removes stale socket folders of other servers' kernels. In a copy of ``connection_dir`` the
        files are removed, because its kernels belong to the original. A kernel that may be running but
        cannot be adopted (its kernelspec is not installed, its note is truncated) or that another process
        manages, which may be restarting it, is skipped and keeps its files.

        Args:
            environment: The environment for their restarts; by default this process's without the
                agent's secrets.

        Returns:
            The kernels' ids, which are unchanged.
        """
        adopted: list[str] = []
        if environment is None:
            environment = InheritedEnvironment().environment("", None)
        for note in sorted(Path(self.connection_dir).glob(f"kernel-*{NOTE}")):
            kernel_id = note.stem.removeprefix("kernel-")
            if kernel_id in self:
                continue
            try:
                with ExitStack() as managing:
                    managed = managing.enter_context(lock_log(note.with_suffix(LOG)))
                    manager = self._adopt(kernel_id, note, managed, environment)
                    if manager is None:
                        for ending in (NOTE, NEW, ".json"):
                            note.with_suffix(ending).unlink(missing_ok=True)
                    else:
                        managing.pop_all()
            except UNUSABLE as error:
                log.warning("Kernel %s is not adopted: %r", kernel_id, error)
                continue
            if manager is None:
                note.with_suffix(LOG).unlink(missing_ok=True)
                continue
            self._kernels[kernel_id] = manager
            self._watch_adopted(kernel_id)
            adopted.append(kernel_id)
        if adopted and not self._initialized_culler:
            self.initialize_culler()
        remove_stale_folders()
        return adopted

    async def _async_shutdown_kernel(
        self, kernel_id: str, now: bool = False, restart: bool = False
    ) -> None:
        """Stop a kernel. The base class forgets one whose restart failed, and keeps its files."""
        manager: Any = self.get_kernel(kernel_id)
        await cast("Any", super()).shutdown_kernel(kernel_id, now=now, restart=restart)
        ready: Any = manager.ready
        if not restart and ready.done() and not ready.cancelled() and ready.exception():
            await manager.cleanup_resources()

    shutdown_kernel: Any = _async_shutdown_kernel

    async def shutdown_all(self, now: bool = False) -> None:  # pyrefly: ignore[bad-override-mutable-attribute]
        """Detach from all kernels. Called when the server stops.

        Args:
            now: Whether to kill the kernels instead.
        """
        if now or self.shutdown_on_exit:
            await cast("Any", super()).shutdown_all(now=now)
        else:
            self.detach()

    def detach(self) -> None:
        """Stop managing the kernels, which keep running."""
        base: Any = self
        for kernel_id, manager in list(self._kernels.items()):
            base.stop_watching_activity(kernel_id)
            cast("PersistentServerKernelManager", manager).detach()
        self._kernels.clear()

    def started_for(self, kernel_id: str) -> str:
        """Return the path that a kernel was started for, or an empty string if it is unknown."""
        provisioner = self.get_kernel(kernel_id).provisioner
        return provisioner.started_for if isinstance(provisioner, PersistentProvisioner) else ""

    def log_of(self, kernel_id: str) -> str:
        """Return the end of a kernel's log: it may say why the kernel did not start."""
        try:
            written = Path(self.connection_dir, f"kernel-{kernel_id}{LOG}").read_bytes()
        except FileNotFoundError:
            return ""
        return written[-TAIL_BYTES:].decode("utf-8", "replace").strip()

    def _adopt(
        self, kernel_id: str, note: Path, managed: BinaryIO, environment: Mapping[str, str]
    ) -> PersistentServerKernelManager | None:
        """Return the manager of a kernel of a previous server; None if only its files are left.

        The note is not trusted: any program of the user's may have written it. It is read under the lock
        of the log: a kernel that another process manages may be between two processes.
        """
        try:
            known = Note.read(note)
        except FileNotFoundError:
            return None  # The process that managed the kernel has just removed it.
        if known.folder != identity(note.parent):
            log.info("Kernel %s belongs to another folder, of which this one is a copy.", kernel_id)
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
            log.info("Kernel %s is no longer running.", kernel_id)
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
        adopted = cast("PersistentServerKernelManager", manager)
        adopted.adopt(kernel_id, process, known, managed, environment)
        return adopted

    def _watch_adopted(self, kernel_id: str) -> None:
        """Set an adopted kernel up as the base class does for one that it has started."""
        base: Any = self
        kernel: Any = self.get_kernel(kernel_id)
        self._kernel_connections[kernel_id] = 0
        self._kernel_ports[kernel_id] = kernel.ports
        kernel.execution_state = "busy"
        base.start_watching_activity(kernel_id)
        base.add_restart_callback(kernel_id, partial(base.remove_kernel, kernel_id), "dead")
        KERNEL_CURRENTLY_RUNNING_TOTAL.labels(type=kernel.kernel_name).inc()
        self._probe(kernel)

    def _probe(self, kernel: Any) -> None:
        """Correct the execution state as soon as the kernel is idle.

        An empty, silent request is queued behind the running cell. Its status messages set the state
        in iopub order; if the subscription was too late for them (slow joiner), its reply does.
        """
        adopted_at = kernel.last_activity
        shell = kernel.connect_shell()

        def on_reply(_parts: list[bytes]) -> None:
            shell.close()
            if kernel.execution_state == "busy" and kernel.last_activity == adopted_at:
                kernel.execution_state = "idle"

        shell.on_recv(on_reply)
        content = {"code": "", "silent": True, "store_history": False, "allow_stdin": False}
        kernel.session.send(shell, "execute_request", content)
