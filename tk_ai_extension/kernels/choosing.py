"""Which kernels a Jupyter Server has: its own, or those of a gateway."""

from __future__ import annotations

import logging
from typing import Any

from jupyter_server.gateway.managers import GatewayMappingKernelManager

from tk_ai_extension.kernels.base import KernelEnvironment
from tk_ai_extension.kernels.collector import MAX_OUTPUT_BYTES
from tk_ai_extension.kernels.gateway.service import GatewayKernels
from tk_ai_extension.kernels.run import Patience
from tk_ai_extension.kernels.service import Backend, JupyterKernels

log = logging.getLogger(__name__)


def kernels_of(
    manager: Any,
    specs: Any,
    *,
    environment: KernelEnvironment,
    ready_timeout: float,
    patience: Patience | None = None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    stack: Any = None,
    backend: Backend = "auto",
) -> JupyterKernels | GatewayKernels:
    """The service over the kernels of a server; arguments as those of `JupyterKernels`.

    Kernels behind a gateway have one executor, whatever ``backend`` says: the stack does not keep an
    executor's promises there.
    """
    if not isinstance(manager, GatewayMappingKernelManager):
        return JupyterKernels(
            manager,
            specs,
            environment=environment,
            ready_timeout=ready_timeout,
            patience=patience,
            max_output_bytes=max_output_bytes,
            stack=stack,
            backend=backend,
        )
    level = logging.INFO if backend == "auto" else logging.WARNING
    log.log(level, "Kernels are behind a gateway: executions go over WebSockets")
    return GatewayKernels(
        manager,
        specs,
        environment=environment,
        ready_timeout=ready_timeout,
        patience=patience,
        max_output_bytes=max_output_bytes,
        stack=stack,
    )
