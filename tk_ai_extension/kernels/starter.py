"""Starts kernels: in their folders, without secrets, and with cleanup when a start fails.

A kernel that this process starts writes stderr to a pipe; the error of a failed start quotes its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import select
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tornado.ioloop import IOLoop
from tornado.web import HTTPError

from tk_ai_extension.kernels.base import KernelEnvironment
from tk_ai_extension.kernels.base_connection import ConnectionClosed, Ending
from tk_ai_extension.kernels.sockets import READ_TIME
from tk_ai_extension.model.errors import KernelStartFailed
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from tk_ai_extension.kernels.sandbox.provisioner import Confinement


TAIL_BYTES = 4000
"""Bytes of the end of stderr that are kept."""

BACKLOG = 1_000_000
"""Bytes that are queued for this process's stderr; beyond it the oldest are dropped."""

RETRY_INTERVAL = 0.1
"""Seconds between attempts to write to this process's stderr while it is blocked."""

_PIPE_BUF = 512  # POSIX: a writable pipe takes this many bytes without blocking

_PORT_TAKEN = re.compile(rb"Address already in use(?: \(addr='[^']*?(\d+)'\))?")
"""ZeroMQ's error for an address that is in use, with the port."""


class StderrTail:
    """A pipe for a process's stderr that is forwarded to this process's stderr.

    A pipe, not a file: a kernel writes to it throughout its life, and a file would grow.
    """

    def __init__(self) -> None:
        self._read_end, self.descriptor = os.pipe()
        os.set_blocking(self._read_end, False)
        self.port_taken = asyncio.Event()
        """Set when the process reports that one of its own ports is in use."""
        self._ports: frozenset[bytes] = frozenset()
        self._tail = b""
        self._backlog = bytearray()
        self._retry: object | None = None
        self._open = self._is_ours = True
        self._loop: Any = IOLoop.current()
        self._loop.add_handler(self._read_end, self._forward, IOLoop.READ)

    @staticmethod
    def is_possible() -> bool:
        """Return whether this system can wait for a pipe on the event loop."""
        return os.name == "posix"

    @property
    def text(self) -> str:
        """The end of what was written so far, in whole lines."""
        self._forward()
        text = self._tail.decode("utf-8", "replace").strip()
        return text if len(self._tail) < TAIL_BYTES else text.partition("\n")[2]

    def watch_ports(self, ports: Collection[int]) -> None:
        """Set the kernel's own ports: its code may report other ports in use."""
        self._ports = frozenset(str(port).encode() for port in ports)
        self._check_ports()

    @property
    def may_be_port_taken(self) -> bool:
        """Whether it reported an address in use that may be one of its own."""
        return any(port in {b"", *self._ports} for port in _PORT_TAKEN.findall(self._tail))

    def hand_over(self) -> None:
        """Close this process's copy of the write end, so that the pipe ends with the kernel."""
        if self._is_ours:
            self._is_ours = False
            os.close(self.descriptor)

    def close(self) -> None:
        """Close both ends. A process that still writes to it gets an error."""
        self.hand_over()
        if self._open:
            self._open = False
            if self._retry is not None:
                self._loop.remove_timeout(self._retry)
            self._loop.remove_handler(self._read_end)
            os.close(self._read_end)

    def _forward(self, *_: object) -> None:
        """Read for `READ_TIME` seconds at most: the loop calls again while the pipe is readable."""
        until = time.perf_counter() + READ_TIME
        with contextlib.suppress(BlockingIOError):
            while self._open:
                data = os.read(self._read_end, 65536)
                if not data:
                    self.close()
                self._tail = (self._tail + data)[-TAIL_BYTES:]
                self._check_ports()
                self._backlog += data
                del self._backlog[:-BACKLOG]
                self._write_backlog()
                if time.perf_counter() > until:
                    break

    def _check_ports(self) -> None:
        if self._ports.intersection(_PORT_TAKEN.findall(self._tail)):
            self.port_taken.set()

    def _write_backlog(self) -> None:
        """Write as much as stderr takes without blocking: a slow reader must not block the loop."""
        try:
            while self._backlog and select.select([], [2], [], 0)[1]:
                del self._backlog[: os.write(2, self._backlog[:_PIPE_BUF])]
        except OSError:
            self._backlog.clear()  # this process has no stderr
        if self._backlog and self._retry is None and self._open:
            self._retry = self._loop.call_later(RETRY_INTERVAL, self._write_again)

    def _write_again(self) -> None:
        self._retry = None
        self._write_backlog()


log = logging.getLogger(__name__)

Confine = Callable[[str | None], Awaitable["Confinement | None"]]
"""Returns the sandbox for the kernel of a notebook's path, None for none."""

ATTEMPTS = 3
"""How often a start is tried if a port was taken between its choice and its use."""


class KernelStarter:
    """Starts the kernels of a multi-kernel manager and waits for their first answer.

    Args:
        manager: The multi-kernel manager.
        specs: The kernelspec manager.
        environment: Chooses a kernel's environment.
        root: The folder that paths are relative to, for a manager without a root of its own.
        ready_timeout: Seconds in which a kernel must answer.
        confine: Returns the sandbox for a notebook's kernel, None for none.
        connect: Waits until a kernel answers; raises `ConnectionClosed` if it dies.
        launched: Awaits a launch, which it completes even if the caller is cancelled.
        discard: Removes the remains of a kernel, also if the caller is cancelled.
    """

    def __init__(
        self,
        manager: Any,
        specs: Any,
        environment: KernelEnvironment,
        *,
        root: Path | None,
        ready_timeout: float,
        confine: Confine | None = None,
        connect: Callable[[str], Awaitable[None]],
        launched: Callable[[Coroutine[Any, Any, str]], Awaitable[str]],
        discard: Callable[[str], Awaitable[None]],
    ) -> None:
        self._manager = manager
        self._specs = specs
        self._environment = environment
        self._root = root
        self._ready_timeout = ready_timeout
        self._confine = confine
        self._connect = connect
        self._launched = launched
        self._discard = discard
        self._tails: dict[str, StderrTail] = {}

    async def start(self, name: str, path: str | None) -> str:
        """Start a kernel in the folder of ``path``, wait until it answers, and return its id.

        Raises:
            KernelStartFailed: it did not start; no process is left.
            SandboxUnavailable: it needs a sandbox, and this machine has none.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return await self._start(name, path)
            except _PortTakenError:
                log.warning("A port of the new kernel `%s` is in use: starting it again", name)
        return await self._start(name, path)

    def forget(self, kernel_id: str) -> None:
        """Release the resources of a kernel that has ended."""
        tail = self._tails.pop(kernel_id, None)
        if tail is not None:
            tail.close()

    async def _start(self, name: str, path: str | None) -> str:
        kernel_id = await self._launched(self._launch_watched(name, path))
        try:
            seconds = await self._first_answer(kernel_id, name)
        except BaseException:
            await self._discard(kernel_id)
            raise
        log.info("Kernel %s (%s) answered after %.2f s", kernel_id, name, seconds)
        return kernel_id

    async def _launch_watched(self, name: str, path: str | None) -> str:
        """Launch a kernel, with a pipe for its stderr if possible."""
        tail = StderrTail() if StderrTail.is_possible() and self._is_local(name) else None
        try:
            kernel_id = await self._launch(name, path, tail)
        except BaseException as error:
            if tail is not None:
                tail.close()
            if isinstance(error, OSError | RuntimeError | ValueError | HTTPError):
                message = f"The kernel `{name}` could not be started: {error}"
                raise KernelStartFailed(message) from error
            raise
        if tail is not None:
            self._tails[kernel_id] = tail
            info: Json = self._manager.get_kernel(kernel_id).get_connection_info()
            tail.watch_ports([port for name, port in info.items() if name.endswith("_port")])
            self._hand_over(kernel_id, tail)
        return kernel_id

    async def _launch(self, name: str, path: str | None, tail: StderrTail | None) -> str:
        arguments: Json = {} if tail is None else {"stderr": tail.descriptor}
        folder: str | None
        if hasattr(self._manager, "cwd_for_path"):
            arguments["path"] = path
            folder = self._manager.cwd_for_path(path) if path else None
        else:
            below = self._root and path and Path(self._root, path).parent
            folder = str(below or self._root) if self._root else None
            arguments["cwd"] = folder
        environment = dict(self._environment.environment(name, path))
        if path and folder:
            # As in Jupyter's session manager: gives the kernel's code the path of its notebook.
            environment["JPY_SESSION_NAME"] = str(Path(folder, Path(path).name))
        confinement = await self._confine(path) if self._confine is not None else None
        if confinement is not None:
            arguments["confinement"] = confinement
        kernel_id = str(uuid4())
        try:
            started = await self._manager.start_kernel(
                kernel_name=name, kernel_id=kernel_id, env=environment, **arguments
            )
        except BaseException:
            # jupyter_client keeps it as pending, and shutdown_all then fails to stop it.
            getattr(self._manager, "_pending_kernels", {}).pop(kernel_id, None)
            raise
        if confinement is None and await self._has_escaped_sandbox(started, path):
            return await self._launch(name, path, tail)
        return started

    async def _has_escaped_sandbox(self, kernel_id: str, path: str | None) -> bool:
        """Return whether a sandbox was switched on while a kernel started; discard the kernel then.

        Raises:
            SandboxUnavailable: no sandbox works on this machine; the kernel is discarded.
        """
        if self._confine is None:
            return False
        try:
            confinement = await self._confine(path)
        except BaseException:
            await self._discard(kernel_id)
            raise
        if confinement is None:
            return False
        await self._discard(kernel_id)
        return True

    def _hand_over(self, kernel_id: str, tail: StderrTail) -> None:
        """Remove the pipe from the launch arguments: after a restart stderr is inherited."""
        arguments: Any = getattr(self._manager.get_kernel(kernel_id), "_launch_args", None)
        if isinstance(arguments, dict) and "stderr" in arguments:
            del arguments["stderr"]
            tail.hand_over()

    async def _first_answer(self, kernel_id: str, name: str) -> float:
        clock = asyncio.get_running_loop().time
        began = clock()
        tail = self._tails.get(kernel_id)
        try:
            async with asyncio.timeout(self._ready_timeout):
                await self._connect_unless(tail.port_taken if tail else asyncio.Event(), kernel_id)
        except ConnectionClosed as closed:
            problem = closed.ending.message.removeprefix("The kernel ").rstrip(".")
        except TimeoutError:
            problem = f"did not answer within {self._ready_timeout:g} s"
        else:
            return clock() - began
        said = tail.text if tail is not None else ""
        is_taken = tail is not None and tail.may_be_port_taken
        failure = _PortTakenError if is_taken else KernelStartFailed
        wrote = f" Its last output:\n{said}" if said else ""
        raise failure(f"The kernel `{name}` {problem}.{wrote}", stderr=said)

    async def _connect_unless(self, port_taken: asyncio.Event, kernel_id: str) -> None:
        """Connect to a new kernel; fail at once if it reports that its ports are in use."""
        connected = asyncio.ensure_future(self._connect(kernel_id))
        taken = asyncio.ensure_future(port_taken.wait())
        try:
            await asyncio.wait({connected, taken}, return_when=asyncio.FIRST_COMPLETED)
            if not connected.done():
                raise ConnectionClosed(Ending("died", "The kernel found its ports in use."))
            await connected
        finally:
            connected.cancel()
            taken.cancel()
            await asyncio.wait({connected, taken})

    def _is_local(self, name: str) -> bool:
        """Return whether a kernelspec's kernels are child processes of this one."""
        provisioner = self._specs.get_kernel_spec(name).metadata.get("kernel_provisioner")
        return not provisioner or provisioner.get("provisioner_name") == "local-provisioner"


class _PortTakenError(KernelStartFailed):
    """Another process took a port after it was chosen for the kernel."""
