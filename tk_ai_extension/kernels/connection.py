"""This server's own connection to a kernel over ZeroMQ sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import zmq
from jupyter_client.client import KernelClient
from jupyter_client.session import Session

from tk_ai_extension.kernels.base import Message
from tk_ai_extension.kernels.base_connection import BaseKernelConnection, Channel, Observer
from tk_ai_extension.kernels.sockets import DisconnectMonitor, SocketReader
from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.executions import ExecutionRequest

log = logging.getLogger(__name__)


class KernelConnection(BaseKernelConnection):
    """A connection over a kernel's ZeroMQ sockets.

    It has its own `Session`: a client that shares the manager's has the same ZeroMQ identity as other
    clients, and the kernel would reply only to the last of them. The context sets a high RCVHWM before
    the sockets connect, so that a flood of messages is not dropped.

    Args:
        info: The result of `KernelManager.get_connection_info`.
        context: Makes the sockets (`sockets.client_context`).
        observer: Notified of everything that is not for one listener.
    """

    def __init__(
        self, info: Mapping[str, Any], context: zmq.Context[Any], observer: Observer
    ) -> None:
        # Typed as Any: jupyter_client annotates its sockets only in part.
        session: Any = Session(key=_bytes(info["key"]), signature_scheme=info["signature_scheme"])
        super().__init__(session, observer)
        client: Any = KernelClient(context=context, session=session)
        client.load_connection_info(dict(info))
        identity = session.bsession
        iopub = client.connect_iopub()
        self._disconnects = DisconnectMonitor(iopub, self._on_disconnect)
        self._iopub = self._reader("iopub", iopub)
        self._readers = {
            "iopub": self._iopub,
            "shell": self._reader("shell", client.connect_shell(identity)),
            "control": self._reader("control", client.connect_control(identity)),
            # The kernel sends input_request to the identity that sent the execute_request.
            "stdin": self._reader("stdin", client.connect_stdin(identity)),
        }

    def running_since(self, request: ExecutionRequest) -> float | None:
        """Return when the kernel began to run a request, after reading what has arrived already."""
        for channel in ("shell", "iopub"):
            if self._readers[channel].read_batch():
                self._readers[channel].schedule_read()
        return super().running_since(request)

    async def drained(self, timeout: float) -> None:
        """Wait until everything that a kernel sent before it ended is read.

        Args:
            timeout: Seconds to wait at most.
        """
        if not self._receiving.is_set():
            return
        try:
            async with asyncio.timeout(timeout):
                await self._disconnects.lost.wait()
        except TimeoutError:
            log.debug("The sockets of a kernel that has ended are still open")
        while self._ending is None and self._iopub.read_batch():  # noqa: ASYNC110 - in turns
            await asyncio.sleep(0)

    # -- transport

    def _transmit(self, channel: Channel, message: Message) -> None:
        reader = self._readers[channel]
        self.session.send(reader.socket, message)
        # ZMQ_FD is edge-triggered, and sending can consume the edge of a message that arrived.
        reader.schedule_read()

    def _close_transport(self) -> None:
        self._disconnects.close()
        for reader in self._readers.values():
            reader.close()

    def _reader(self, channel: Channel, socket: zmq.Socket[bytes]) -> SocketReader:
        def deliver(parts: list[bytes]) -> None:
            message = self._unpack(parts)
            if message is not None:
                self._receive(channel, message)

        return SocketReader(socket, deliver)

    def _unpack(self, parts: list[bytes]) -> Message | None:
        try:
            _, rest = self.session.feed_identities(parts)
            message = self.session.deserialize(rest)
        except MALFORMED as error:
            log.warning("Dropped a malformed message from a kernel: %s", error)
            return None
        return message


def _bytes(key: str | bytes) -> bytes:
    return key if isinstance(key, bytes) else key.encode()
