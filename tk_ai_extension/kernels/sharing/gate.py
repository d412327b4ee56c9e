"""The gate: a relay of the control channel alone, beside clients that reach the kernel themselves."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future

from tk_ai_extension.kernels.sharing.relay import Ended, Relay
from tk_ai_extension.kernels.sharing.share import Connection, NoConnection, Share


class ControlGate:
    """Takes what a program's clients say on the control channel, and keeps ``shutdown_request`` back.

    It lives in a thread of its own, with an event loop of its own: a program that blocks, or that
    runs a loop for each call, has none that would go on.

    Args:
        front: Where clients find the control channel, and their key.
        share: Where the kernel is.
    """

    def __init__(self, front: Connection, share: Share) -> None:
        self._front = front
        self._share = share
        self._opened: Future[tuple[asyncio.AbstractEventLoop, Relay]] = Future()
        self._ended: Future[Ended] = Future()
        self._thread = threading.Thread(target=self._live, name="nb-control-gate", daemon=True)

    def open(self) -> None:
        """Listens for clients, when it returns.

        Raises:
            NoConnection: the address is taken.
        """
        self._thread.start()
        self._opened.result()

    @property
    def is_open(self) -> bool:
        """Whether there is a kernel behind it; false a while after it is gone."""
        return not self._ended.done()

    def interrupt(self) -> None:
        """Interrupts the kernel."""
        self._call("interrupt")

    def close(self) -> None:
        """Ends it, and waits until it has; the kernel goes on."""
        self._call("stop", "Nobody needs it any more.")
        self._thread.join()

    def _call(self, method: str, *arguments: str) -> None:
        loop, relay = self._opened.result()
        with contextlib.suppress(RuntimeError):  # its loop has just ended
            loop.call_soon_threadsafe(getattr(relay, method), *arguments)

    def _live(self) -> None:
        asyncio.run(self._relay())

    async def _relay(self) -> None:
        try:
            relay = Relay(self._front, self._share, channels=("control",), ends_on_request=False)
            relay.open()
        except BaseException as problem:
            self._opened.set_exception(problem)
            if isinstance(problem, NoConnection):
                return
            raise
        self._opened.set_result((asyncio.get_running_loop(), relay))
        try:
            self._ended.set_result(await relay.run())
        except BaseException as problem:
            self._ended.set_exception(problem)
            raise
