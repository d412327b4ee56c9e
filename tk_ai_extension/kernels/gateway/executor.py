"""The executor for kernels behind a gateway."""

from __future__ import annotations

from tk_ai_extension.kernels.direct import DirectExecutor


class GatewayExecutor(DirectExecutor):
    """Sends code to a kernel over the WebSocket that is kept for it.

    As `DirectExecutor`; where the connection is lost an execution ends as ``connection_lost``, and the
    code is not sent again: it may have run.
    """

    name = "gateway"
    too_fast = "the kernel made them faster than it, or its gateway, passes them on"
