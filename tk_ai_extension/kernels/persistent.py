"""Persistent kernels of a Jupyter Server: they outlive it, and the next server adopts them.

Set ``c.ServerApp.kernel_manager_class`` to `PersistentMappingKernelManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from jupyter_server.prometheus.metrics import KERNEL_CURRENTLY_RUNNING_TOTAL
from jupyter_server.services.kernels.kernelmanager import (
    AsyncMappingKernelManager,
    ServerKernelManager,
)
from traitlets import Bool, default

from tk_ai_extension.kernels.persistence import PersistenceMixin, PersistentManagerMixin


class PersistentServerKernelManager(PersistentManagerMixin, ServerKernelManager):
    """Manages one persistent kernel of a Jupyter Server."""


class PersistentMappingKernelManager(PersistenceMixin, AsyncMappingKernelManager):
    """The kernels of a Jupyter Server, which keep running when it stops or is killed.

    A server that is started again in the same runtime folder adopts them, with their ids and
    variables. An adopted kernel counts as busy until it has answered.
    """

    adopt_on_start = Bool(
        True, config=True, help="Whether the kernels that a former server left are adopted at once."
    )

    shutdown_on_exit = Bool(
        False, config=True, help="Whether the server shuts its kernels down when it stops."
    )

    def __init__(self, **kwargs: Any) -> None:
        cast("Any", super()).__init__(**kwargs)
        if self.adopt_on_start:
            self.adopt()

    @default("kernel_manager_class")
    def _default_kernel_manager_class(self) -> Any:
        return f"{__name__}.{PersistentServerKernelManager.__name__}"

    def adopt(self, environment: Mapping[str, str] | None = None) -> list[str]:
        """Adopt the kernels that still run; see `PersistenceMixin.adopt`."""
        adopted = super().adopt(environment)
        for kernel_id in adopted:
            self._watch_adopted(kernel_id)
        if adopted and not self._initialized_culler:
            self.initialize_culler()
        return adopted

    async def shutdown_all(self, now: bool = False) -> None:
        """Detach from all kernels. Called when the server stops.

        Args:
            now: Whether to kill the kernels instead.
        """
        if now or self.shutdown_on_exit:
            await cast("Any", super()).shutdown_all(now=now)
            return
        base: Any = self
        for kernel_id, manager in list(self._kernels.items()):
            base.stop_watching_activity(kernel_id)
            if isinstance(manager, PersistentManagerMixin):
                manager.detach()
        self._kernels.clear()

    def _watch_adopted(self, kernel_id: str) -> None:
        """Do for an adopted kernel what the base class does for one that it has started."""
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
        """Have the state corrected as soon as the kernel is idle.

        An empty, silent request waits behind the cell that runs. Its status messages set the state
        in the order of iopub; its reply does if the subscription was too late for them.
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
