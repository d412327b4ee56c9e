"""The relay: acts as a kernel for its clients, and as a client of the shared kernel.

``python -P -m tk_ai_extension.kernels.sharing.relay .nb/shared-kernel.json CONNECTION_FILE [GRACE]``

A program that launches a kernelspec's argv gets a process that behaves like a kernel: it uses the
program's connection file and key, and ends on request. Each message's signature is verified with one key,
and the message is signed with the other; its identity frames are kept, so that each client gets its own
replies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.session import DELIM, Session
from zmq.utils.monitor import recv_monitor_message

from tk_ai_extension.kernels.sharing.kernelspec import LOG

log = logging.getLogger(__name__)

GRACE = 30.0
"""Grace period in seconds in which the owner may restart a kernel that is gone."""

NUDGE_INTERVAL = 0.25
"""Seconds after which a kernel_info request is repeated while iopub is not subscribed."""

INTERRUPT_DELAY = 0.1
"""Seconds in which an interrupt may prove to be the start of a shutdown.

jupyter_client interrupts a kernel before it shuts it down or kills its process. Forwarded, that interrupt
would stop another client's code.
"""

HIGH_WATER_MARK = 100_000
"""Messages that are queued for a slow client; further ones are dropped."""

LINGER = 500
"""Milliseconds in which the last replies are sent when the relay ends."""


class SharedKernelMissing(Exception):
    """There is no shared kernel; the message says why."""


class SharedKernelRelay:
    """Relays between clients and a shared kernel, through restarts of the kernel.

    Clients can do everything with the kernel that its owner's clients can, except shut it down:
    ``shutdown_request`` is answered here.

    Args:
        front: The connection file with the addresses to listen on and the clients' key.
        share: The link to the connection file of the shared kernel.
        grace: Grace period in seconds in which a kernel that is gone may be restarted.

    Raises:
        SharedKernelMissing: No kernel is shared.
        OSError: A connection file cannot be read, or an address to listen on is in use.
    """

    def __init__(self, front: Path, share: Path, *, grace: float = GRACE) -> None:
        if not share.is_symlink():
            raise SharedKernelMissing(f"No kernel is shared at {share}.")
        self._share = share
        self._grace = grace
        self._context = zmq.asyncio.Context()
        for queue in (zmq.SNDHWM, zmq.RCVHWM):
            self._context.setsockopt(queue, HIGH_WATER_MARK)
        kernel = AsyncKernelClient(context=self._context)
        kernel.load_connection_file(str(share))
        self._kernel = kernel.session
        # A kernel sends input_request on stdin to the identity of the request on shell.
        identity = self._kernel.bsession
        self._back: dict[str, Any] = {
            "iopub": kernel.connect_iopub(),
            "shell": kernel.connect_shell(identity),
            "stdin": kernel.connect_stdin(identity),
            "control": kernel.connect_control(identity),
        }
        self._monitor: Any = self._back["control"].get_monitor_socket(zmq.EVENT_DISCONNECTED)
        listen = json.loads(front.read_bytes())
        self._clients = Session(
            key=listen["key"].encode(), signature_scheme=listen["signature_scheme"]
        )
        self._front = {channel: self._listen(listen, channel) for channel in (*self._back, "hb")}
        self._ready = asyncio.Event()  # what the kernel publishes arrives
        self._asked: set[str] = set()
        self._stopped = asyncio.get_running_loop().create_future()

    def _listen(self, connection: dict[str, Any], channel: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(zmq.PUB if channel == "iopub" else zmq.ROUTER)
        if channel != "iopub":
            # A client that reconnects with its identity replaces its old connection.
            socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        between = ":" if connection["transport"] == "tcp" else "-"
        port = connection[f"{channel}_port"]
        socket.bind(f"{connection['transport']}://{connection['ip']}{between}{port}")
        return socket

    async def run(self) -> None:
        """Relay until `stop` is called.

        Raises:
            SharedKernelMissing: The kernel is gone for good.
        """
        work = [self._follow(), self._echo(), self._await_launcher()]
        work += [self._from_clients(channel) for channel in ("shell", "control", "stdin")]
        work += [self._from_kernel(channel) for channel in self._back]
        tasks = {asyncio.ensure_future(each) for each in work}
        try:
            done, _ = await asyncio.wait(
                {*tasks, self._stopped}, return_when=asyncio.FIRST_COMPLETED
            )
            for each in done:
                each.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._context.destroy(linger=LINGER)

    def stop(self, reason: str) -> None:
        """End the relay; the kernel keeps running."""
        if not self._stopped.done():
            log.info("Ended: %s", reason)
            self._stopped.set_result(None)

    # --- the kernel's side

    async def _follow(self) -> None:
        """Follow the kernel through restarts: it has the same address and key after one."""
        while True:
            try:
                async with asyncio.timeout(self._grace):
                    await self._subscribe()
            except TimeoutError:
                late = f"The kernel of {self._share} did not answer within {self._grace:g} s."
                raise SharedKernelMissing(late) from None
            await recv_monitor_message(self._monitor)
            log.info("The kernel is gone; waiting %g s for a restart", self._grace)
            self._ready.clear()
            self._asked.clear()
            # As Jupyter Server does: clients then drop their requests, which are not answered any more.
            status = {"execution_state": "restarting"}
            self._clients.send(self._front["iopub"], "status", status, ident=b"status")
            if not self._share.is_symlink():
                self.stop("The kernel is no longer shared.")

    async def _subscribe(self) -> None:
        """Ask the kernel for messages until they arrive.

        Slow joiner: no event reports when the subscription takes effect, and the kernel drops what it
        publishes before.
        """
        while not self._ready.is_set():
            request = self._kernel.send(self._back["control"], "kernel_info_request", {})
            self._asked.add(request["header"]["msg_id"])
            with suppress(TimeoutError):
                async with asyncio.timeout(NUDGE_INTERVAL):
                    await self._ready.wait()

    async def _from_kernel(self, channel: str) -> None:
        while True:
            frames = await self._back[channel].recv_multipart()
            signed, message = _signed_anew(frames, self._kernel, self._clients)
            if channel == "iopub" and message.get("parent_header", {}).get("msg_id") in self._asked:
                self._ready.set()
            if signed:
                self._front[channel].send_multipart(signed)

    # --- the clients' side

    async def _echo(self) -> None:
        """Answer heartbeats: the relay ends when the kernel does."""
        while True:
            await self._front["hb"].send_multipart(await self._front["hb"].recv_multipart())

    async def _from_clients(self, channel: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            frames = await self._front[channel].recv_multipart()
            signed, message = _signed_anew(frames, self._clients, self._kernel)
            kind = message.get("msg_type")
            if kind == "shutdown_request":
                identities, _ = self._clients.feed_identities(frames)
                done = {"status": "ok", "restart": False}
                socket = self._front[channel]
                self._clients.send(socket, "shutdown_reply", done, message, identities)
                self.stop("A client shut the relay down; the kernel keeps running.")
            elif kind == "interrupt_request":
                loop.call_later(INTERRUPT_DELAY, self._interrupt, channel, signed)
            elif signed:
                if channel != "control":
                    await self._ready.wait()
                self._back[channel].send_multipart(signed)

    def _interrupt(self, channel: str, request: list[bytes]) -> None:
        if not self._stopped.done():
            self._back[channel].send_multipart(request)

    async def _await_launcher(self) -> None:
        """End with the launching program (``JPY_PARENT_PID``, set by jupyter_client)."""
        parent = os.getppid()
        # Poll: there is no event to wait for.
        while os.environ.get("JPY_PARENT_PID") != str(parent) or os.getppid() == parent:  # noqa: ASYNC110
            await asyncio.sleep(1)
        self.stop("The launching program has ended.")


def _signed_anew(
    frames: list[bytes], source: Session, target: Session
) -> tuple[list[bytes], dict[str, Any]]:
    """Verify a message's signature and sign the message with another key.

    Returns:
        Its frames and the message with its content packed; nothing if the message is invalid.
    """
    try:
        identities, parts = source.feed_identities(frames)
        message = source.deserialize(parts, content=False)
        body: Any = parts[1:]
        return [*identities, DELIM, target.sign(body[:4]), *body], message
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        log.warning("Refused a message: %s", problem)
        return [], {}


async def _relay(front: Path, share: Path, grace: float) -> None:
    relay = SharedKernelRelay(front, share, grace=grace)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, relay.stop, f"Received {number.name}.")
    await relay.run()


def main() -> int:
    """Relay until the relay is stopped or the kernel is gone; return the exit status."""
    named, front, *given = sys.argv[1:]
    share, grace = Path(named).absolute(), float(given[0]) if given else GRACE
    file = share.with_name(LOG)
    logging.basicConfig(
        filename=file,
        level=logging.INFO,
        format=f"%(asctime)s relay {os.getpid()}: %(message)s",
    )
    file.chmod(0o600)
    try:
        asyncio.run(_relay(Path(front), share, grace))
    except (SharedKernelMissing, OSError) as problem:
        log.error("%s", problem)  # noqa: TRY400 - the message is complete
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
