"""Our own line to a kernel: its ZeroMQ sockets."""

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

log = logging.getLogger(__name__)


class KernelConnection(BaseKernelConnection):
    """A conversation over the sockets of a kernel.

    It has a `Session` of its own: a client that shared the manager's would have the same ZeroMQ
    identity as others, and the kernel would answer only the last of them. The high-water mark of
    what is received is high (a flood loses nothing), set on the context, so before connecting.

    Args:
        info: As `KernelManager.get_connection_info` gives it.
        context: A context whose sockets hold a flood and do not linger (`sockets.client_context`).
        observer: Told of everything that is not for one listener.
    """

    def __init__(
        self, info: Mapping[str, Any], context: zmq.Context[Any], observer: Observer
    ) -> None:
        # Typed as Any: the stubs of jupyter_client know the types of its sockets in part only.
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
            # The kernel sends a question to the identity that asked it to run the code.
            "stdin": self._reader("stdin", client.connect_stdin(identity)),
        }

    async def drained(self, timeout: float) -> None:
        """Waits until all is read that a kernel said before its end, for ``timeout`` s at most."""
        if not self._receiving.is_set():
            return
        try:
            async with asyncio.timeout(timeout):
                await self._disconnects.lost.wait()
        except TimeoutError:
            log.debug("The sockets of an ended kernel stay open")
        while self._ending is None and self._iopub.read_batch():  # noqa: ASYNC110 - in turns
            await asyncio.sleep(0)

    # -- what carries it

    def _transmit(self, channel: Channel, message: Message) -> None:
        reader = self._readers[channel]
        self.session.send(reader.socket, message)
        # Sending may take the mark away that something has arrived meanwhile.
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
        except (ValueError, TypeError, KeyError) as error:
            log.warning("A message of a kernel is not understood: %s", error)
            return None
        if isinstance(message["content"], dict) and isinstance(message["parent_header"], dict):
            return message
        log.warning("A message of a kernel is not understood: %s", message["msg_type"])
        return None


def _bytes(key: str | bytes) -> bytes:
    return key if isinstance(key, bytes) else key.encode()
