"""The relay: acts as a kernel for its clients, and as a client of the shared kernel.

``python -P -m tk_ai_extension.kernels.sharing --share .nb/shared-kernel.json -f CONNECTION_FILE``

A program that launches a kernelspec's argv gets a process that behaves like a kernel: it uses the
program's connection file and key, and ends on request. Each message's signature is verified with one key,
and the message is signed with the other; its identity frames are kept, so that each client gets its own
replies.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple, cast

import zmq
import zmq.asyncio
from jupyter_client.connect import channel_socket_types
from jupyter_client.session import DELIM, Session
from zmq.utils.monitor import recv_monitor_message

from tk_ai_extension.kernels.sharing.share import LOG, NoConnection, read_connection

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

CHANNELS = ("shell", "iopub", "stdin", "control")


class Message(NamedTuple):
    """A message with a verified signature.

    Attributes:
        identities: The routing prefix back to the sender; on iopub the topic.
        body: Header, parent header, metadata, content and buffers, as received.
        header: The unpacked header.
        parent: The id of the request that it answers; empty if there is none.
    """

    identities: list[bytes]
    body: list[bytes]
    header: dict[str, Any]
    parent: str

    @property
    def kind(self) -> str:
        """The message's type, such as ``execute_request``."""
        return str(self.header.get("msg_type", ""))


class Relay:
    """Relays between clients and a shared kernel, through restarts of the kernel.

    Clients can do everything with the kernel that its owner's clients can, except shut it down:
    ``shutdown_request`` is answered here.

    Args:
        front: The connection file with the addresses to listen on and the clients' key.
        share: The link to the connection file of the shared kernel.
        grace: Grace period in seconds in which a kernel that is gone may be restarted.

    Raises:
        NoConnection: There is no kernel.
        ZMQError: An address to listen on is in use.
    """

    def __init__(self, front: Path, share: Path, *, grace: float = GRACE) -> None:
        if not share.is_symlink():
            raise NoConnection(f"No kernel is shared at {share}.")
        listen, kernel = read_connection(front), read_connection(share)
        self._share = share
        self._grace = grace
        self._clients, self._kernel = _session(listen), _session(kernel)
        self._context = zmq.asyncio.Context()
        for queue in (zmq.SNDHWM, zmq.RCVHWM):
            self._context.setsockopt(queue, HIGH_WATER_MARK)
        self._front = {
            channel: self._context.socket(zmq.PUB if channel == "iopub" else zmq.ROUTER)
            for channel in (*CHANNELS, "hb")
        }
        for channel, socket in self._front.items():
            if channel != "iopub":
                # A client that reconnects with its identity replaces its old connection.
                socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
            socket.bind(_address(listen, channel))
        self._back = {
            channel: self._context.socket(channel_socket_types[channel]) for channel in CHANNELS
        }
        self._back["iopub"].subscribe(b"")
        self._monitor: Any = self._back["control"].get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        )
        for channel, socket in self._back.items():
            # A kernel sends input_request on stdin to the identity of the request on shell.
            socket.setsockopt(zmq.IDENTITY, self._kernel.bsession)
            socket.connect(_address(kernel, channel))
        self._ready = asyncio.Event()  # what the kernel publishes arrives
        self._waiting: dict[str, tuple[str, Message]] = {}
        self._own: set[str] = set()
        self._ended = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Relay until `stop` is called.

        Raises:
            NoConnection: The kernel is gone for good.
        """
        work = [self._follow(), self._echo(), self._nudge(), self._await_launcher()]
        work += [self._from_clients(channel) for channel in ("shell", "control", "stdin")]
        work += [self._from_kernel(channel) for channel in CHANNELS]
        tasks = {asyncio.ensure_future(each) for each in work}
        try:
            done, _ = await asyncio.wait({*tasks, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._context.destroy(linger=LINGER)

    def stop(self, reason: str) -> None:
        """End the relay; the kernel keeps running."""
        if not self._ended.done():
            log.info("Ended: %s", reason)
            self._ended.set_result(None)

    # --- the kernel's side

    async def _follow(self) -> None:
        """Follow the kernel through restarts: it has the same address and key after one."""
        clock = asyncio.get_running_loop().time
        until: float | None = clock() + self._grace
        while True:
            try:
                async with asyncio.timeout_at(until):
                    event: Any = await recv_monitor_message(self._monitor)
            except TimeoutError:
                late = f"The kernel of {self._share} did not answer within {self._grace:g} s."
                raise NoConnection(late) from None
            if event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                until = None
                continue
            if until is None:  # else a dying kernel accepted, and ZeroMQ tries again
                log.info("The kernel is gone; waiting %g s for a restart", self._grace)
                until = clock() + self._grace
                self._ready.clear()
                self._own.clear()
                waiting, self._waiting = self._waiting, {}
                for channel, request in waiting.values():
                    self._fail(channel, request)
            if not self._share.is_symlink():
                self.stop("The kernel is no longer shared.")

    async def _nudge(self) -> None:
        """Ask the kernel for messages until they arrive.

        Slow joiner: no event reports when the subscription takes effect, and the kernel drops what it
        publishes before.
        """
        while True:
            if not self._ready.is_set():
                message = self._kernel.msg("kernel_info_request", {})
                self._own.add(message["header"]["msg_id"])  # its reply is not forwarded
                self._back["control"].send_multipart(self._kernel.serialize(message))
            await asyncio.sleep(NUDGE_INTERVAL)

    async def _from_kernel(self, channel: str) -> None:
        while True:
            frames = await self._back[channel].recv_multipart()
            message = _opened(self._kernel, channel, frames)
            if message is None:
                continue
            if message.parent in self._own:
                if channel == "iopub":
                    self._ready.set()
                continue
            if channel in ("shell", "control"):
                self._waiting.pop(message.parent, None)
            self._front[channel].send_multipart(_signed(message, self._clients))

    # --- the clients' side

    async def _echo(self) -> None:
        """Answer heartbeats: the relay ends when the kernel does."""
        while True:
            await self._front["hb"].send_multipart(await self._front["hb"].recv_multipart())

    async def _from_clients(self, channel: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            frames = await self._front[channel].recv_multipart()
            message = _opened(self._clients, channel, frames)
            if message is None:
                continue
            if message.kind == "shutdown_request":
                content: Any = self._clients.unpack(message.body[3])
                done = {"status": "ok", "restart": content.get("restart") is True}
                self._reply(channel, message, "shutdown_reply", done)
                self.stop("A client shut the relay down; the kernel keeps running.")
            elif message.kind == "interrupt_request":
                loop.call_later(INTERRUPT_DELAY, self._forward, channel, message)
            else:
                if channel != "control":
                    await self._ready.wait()
                self._forward(channel, message)

    def _forward(self, channel: str, message: Message) -> None:
        if self._ended.done():
            return
        if message.kind.endswith("_request"):
            self._waiting[str(message.header["msg_id"])] = channel, message._replace(body=[])
        self._back[channel].send_multipart(_signed(message, self._kernel))

    def _fail(self, channel: str, request: Message) -> None:
        """Answer a request with an error, because the kernel will not answer it."""
        reason = "The shared kernel was restarted, or died."
        error: dict[str, Any] = {"ename": "KernelGone", "evalue": reason, "traceback": []}
        if request.kind == "execute_request":
            self._reply("iopub", request, "error", error)
        kind = request.kind.replace("_request", "_reply")
        self._reply(channel, request, kind, {"status": "error", **error})
        self._reply("iopub", request, "status", {"execution_state": "idle"})

    def _reply(self, channel: str, request: Message, kind: str, content: dict[str, Any]) -> None:
        identities = [kind.encode()] if channel == "iopub" else request.identities
        message = self._clients.msg(kind, content, parent={"header": request.header})
        self._front[channel].send_multipart(self._clients.serialize(message, identities))

    async def _await_launcher(self) -> None:
        """End with the launching program (``JPY_PARENT_PID``, set by jupyter_client)."""
        parent = os.getppid()
        # Poll: there is no event to wait for.
        while os.environ.get("JPY_PARENT_PID") != str(parent) or os.getppid() == parent:  # noqa: ASYNC110
            await asyncio.sleep(1)
        self.stop("The launching program has ended.")


def _address(connection: dict[str, Any], channel: str) -> str:
    between = ":" if connection["transport"] == "tcp" else "-"
    port = connection[f"{channel}_port"]
    return f"{connection['transport']}://{connection['ip']}{between}{port}"


def _session(connection: dict[str, Any]) -> Session:
    return Session(key=connection["key"].encode(), signature_scheme=connection["signature_scheme"])


def _opened(session: Session, channel: str, frames: list[bytes]) -> Message | None:
    """Verify a received message; return None if it must not be used."""
    try:
        identities, parts = session.feed_identities(frames)
        opened: Any = session.deserialize(parts, content=False)
        parent = str(opened["parent_header"].get("msg_id", ""))
        return Message(list(identities), cast("list[bytes]", parts[1:]), opened["header"], parent)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        log.warning("Refused a message on %s: %s", channel, problem)
        return None


def _signed(message: Message, session: Session) -> list[bytes]:
    """Return the frames of a message, signed with a session's key."""
    return [*message.identities, DELIM, session.sign(message.body[:4]), *message.body]


async def _relay(front: Path, share: Path, grace: float) -> None:
    relay = Relay(front, share, grace=grace)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, relay.stop, f"Received {number.name}.")
    await relay.run()


def main() -> int:
    """Relay until the relay is stopped or the kernel is gone; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tk_ai_extension.kernels.sharing")
    parser.add_argument("--share", type=Path, required=True, help="link in .nb")
    parser.add_argument("-f", type=Path, required=True, help="connection file to serve")
    parser.add_argument("--grace", type=float, default=GRACE, help="seconds to wait for a restart")
    arguments = parser.parse_args()
    share: Path = arguments.share.absolute()
    file = share.with_name(LOG)
    logging.basicConfig(
        filename=file,
        level=logging.INFO,
        format=f"%(asctime)s relay {os.getpid()}: %(message)s",
    )
    file.chmod(0o600)
    try:
        asyncio.run(_relay(arguments.f, share, arguments.grace))
    except NoConnection as problem:
        log.error("%s", problem)  # noqa: TRY400 - the message is complete
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
