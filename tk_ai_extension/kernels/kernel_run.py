"""Run code in a kernel: the events of an execution, and the seven ways in which it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tk_ai_extension.kernels.output_collector import OUTPUT_MESSAGES, OutputCollector, integer
from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.executions import (
    INTERRUPT_IGNORED,
    EndStatus,
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    ExecutionStarted,
    InputRequested,
    OutputsChanged,
)
from tk_ai_extension.model.json_values import Json, encodable

log = logging.getLogger(__name__)

END_OF_FILE = "\x04"
"""The input_reply value with which Jupyter clients signal end of file."""

OUTPUT_INTERVAL = 0.05
"""Minimum interval in seconds between OutputsChanged events: each event costs its consumers."""

MAX_QUESTIONS = 10
"""How often one execution may request input before it is interrupted."""

GAP_TIMEOUT = 5.0
"""Seconds to wait for idle after the reply, or the reply after idle, while no message arrives."""

INTERRUPT_TIMEOUT = 5.0
"""Seconds to wait for the end after an interrupt; then the code counts as ignoring it."""

STOP_TIMEOUT = 15.0
"""Seconds in which a kernel that is stopped must be gone, and one that is restarted must be replaced."""


@dataclass(frozen=True, slots=True)
class DisconnectReason:
    """Why a connection to a kernel has ended.

    Attributes:
        kind: ``lost`` if nothing is known about the kernel; ``closed`` by this server.
        message: A sentence for people.
    """

    kind: Literal["died", "restarted", "shutdown", "lost", "closed"]
    message: str


class KernelRun:
    """One request in a kernel: collects its outputs, and ends with one of `EndStatus`.

    It ends on the reply and idle; on one of them and a bounded wait for the other; with the kernel or
    the connection; or a bounded time after its timeout has interrupted the kernel. The timeout counts
    from when the kernel begins to run the code, so that a queued request never interrupts another
    client's cell.

    Args:
        request: The request.
        backend: The executor's name.
        interrupt: Interrupts the kernel.
        stopping: Returns whether the kernel is being stopped or restarted.
        grace: Seconds to wait after another client's interrupt: a stop may follow, which begins with one.
        max_output_bytes: Limit of the outputs that are kept.
    """

    is_ours = True
    """Whether this server sends the request."""

    def __init__(
        self,
        request: ExecutionRequest,
        *,
        backend: str,
        interrupt: Callable[[], Coroutine[Any, Any, None]],
        stopping: Callable[[], bool],
        grace: float,
        max_output_bytes: int,
    ) -> None:
        self.request = request
        self.interrupted = False
        """Whether this server has interrupted it."""
        self.aborted = False
        """Whether the kernel dropped it unrun, because an earlier request failed."""
        self.on_done: Callable[[], object] = lambda: None
        self._backend = backend
        self._interrupt = interrupt
        self._stopping = stopping
        self._grace = grace
        self._collector = OutputCollector(max_output_bytes)
        self._loop = asyncio.get_running_loop()
        self._began = self._received_at = self._loop.time()
        self._status: EndStatus | None = None
        self._message = ""
        self._wake = asyncio.Event()
        self._published_at = 0.0
        self._events: list[ExecutionEvent] = []
        self._reply: Mapping[str, Any] | None = None
        self._idle = self._busy = self._is_started = self._timed_out = False
        self._count: int | None = None
        self._prompt: str | None = None
        self._questions = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._interrupts = BackgroundTasks(log)

    @property
    def content(self) -> Json:
        """The content of the execute_request."""
        return {
            "code": self.request.code,
            "silent": self.request.silent,
            "store_history": not self.request.silent,
            "user_expressions": self.request.user_expressions,
            # Even if input() is refused: only an input_request has the prompt.
            "allow_stdin": not self.request.silent,
            # An error must not abort requests that other clients have queued in the kernel.
            "stop_on_error": False,
        }

    @property
    def is_running(self) -> bool:
        """Whether the kernel runs the code. With the reply or idle it is free for other clients."""
        return self._busy and self._reply is None and not self._idle and self._status is None

    async def events(self) -> AsyncGenerator[ExecutionEvent]:
        """Yield events as they happen; the last one is the `Execution`."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            events, self._events = self._events, []
            for event in events:
                yield event
            changes = self._collector.drain()
            self._published_at = self._loop.time()
            for event in self._collector.drain_events():
                yield event
            if changes:
                yield OutputsChanged(changes)
            if self._status is not None and not self._wake.is_set():
                break
        yield self._execution(self._status)

    # -- called by the connection

    def on_iopub(self, kind: str, content: Mapping[str, Any]) -> None:
        """Handle an iopub message of this execution."""
        self._received_at = self._loop.time()
        if kind in OUTPUT_MESSAGES:
            self._collector.add(kind, content)
            self._start()
            delay = self._published_at + OUTPUT_INTERVAL - self._received_at
            if delay <= 0:
                self._wake.set()
            elif "wake" not in self._timers:
                self._after("wake", delay, self._wake.set)
        elif kind == "execute_input":
            self._count = integer(content.get("execution_count"))
            self._start()
        elif kind == "status" and content.get("execution_state") == "busy":
            self._begin()
            if self.request.silent:  # it may have no other message before the reply
                self._start()
        elif kind == "status" and content.get("execution_state") == "idle":
            self._idle = True
            self._settle()

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """Handle the reply."""
        if self._reply is None:
            self._reply = content
            for page in _pages(content):  # IPython's ``name?``, shown as JupyterLab does
                self._collector.add("display_data", page)
            self._settle()

    def on_input(self, content: Mapping[str, Any]) -> str | None:
        """Return the reply to an input request, end of file; None to send none."""
        self._questions += 1
        if self._questions > MAX_QUESTIONS:
            self._interrupt_soon()
            return None
        prompt = self._prompt = str(content.get("prompt", ""))
        self._publish(InputRequested(prompt))
        self._collector.warn(f"[input({prompt[:1000]!r}) was refused: no person can answer here.]")
        return END_OF_FILE

    def on_end(self, ending: DisconnectReason) -> None:
        """End with the connection, unless a reply says how the code has ended before."""
        reply, stopped = self._reply, ending.kind in {"restarted", "shutdown"}
        if reply is not None and (reply.get("status") == "ok" or not stopped):
            self._finish()
        elif ending.kind == "restarted":
            self._finish_as("kernel_restarted", ending.message)
        elif ending.kind in {"died", "shutdown"}:
            self._finish_as("kernel_died", ending.message)
        else:
            self._finish_as("connection_lost", ending.message)

    # -- progress

    def _begin(self) -> None:
        """Start the timeout when the kernel begins to run it: time in its queue does not count."""
        if not self._busy:
            self._busy = True
            self._began = self._loop.time()
            if self.request.timeout is not None:
                self._after("timeout", self.request.timeout, self._time_out)

    def _start(self) -> None:
        self._begin()  # busy may be lost
        if not self._is_started:
            self._is_started = True
            self._publish(ExecutionStarted(self._count))

    def _publish(self, event: ExecutionEvent) -> None:
        self._events.append(event)
        self._wake.set()

    def _settle(self) -> None:
        """End if reply and idle have arrived; otherwise wait a bounded time for the other."""
        reply = self._reply
        if reply is None or not self._idle:
            self._after("end", GAP_TIMEOUT, self._give_up)
        elif reply.get("status") != "ok" and self._stopping():
            # Stopping a kernel interrupts it first: the reply to that is not the outcome.
            self._after("end", STOP_TIMEOUT, self._finish)
        elif (
            reply.get("ename") == "KeyboardInterrupt"
            and not (self.interrupted or self._timed_out)
            and self._grace
        ):
            self._after("end", self._grace, self._finish)
        else:
            self._finish()

    def _give_up(self) -> None:
        left = self._received_at + GAP_TIMEOUT - self._loop.time()
        if left > 0:  # a flood is still being read
            self._after("end", left, self._give_up)
            return
        missing = "reply" if self._reply is None else "idle"
        log.warning("An execution ends without the kernel's %s, which did not arrive", missing)
        self._finish()

    def _finish(self) -> None:
        """End as the reply says. An error output is a failure even if the reply is ok."""
        error = self._collector.error
        reply = self._reply or {"status": "ok"}
        status = reply.get("status")
        count = integer(reply.get("execution_count"))
        self._count = self._count if count is None else count
        if self._timed_out:
            self._finish_as("timed_out", self._timeout_message)
        elif status == "ok":
            self._finish_as("error" if error else "ok")
        elif status == "error":
            if self.interrupted or reply.get("ename") == "KeyboardInterrupt":
                self._finish_as("interrupted", "The kernel was interrupted.")
            else:
                self._finish_as("error")
        elif self._count is not None or self._is_started or self.interrupted:
            # Kernels other than IPython reply "aborted" when an interrupt has ended the code. Busy is
            # no evidence that it ran: it is published for dropped requests, too.
            self._finish_as("interrupted", "The kernel was interrupted.")
        else:
            self.aborted = True
            self._finish_as(
                "interrupted", "The kernel dropped it because an earlier request failed."
            )

    def _finish_as(self, status: EndStatus, message: str = "") -> None:
        if self._status is None:
            self._status, self._message = status, message
            self._collector.finish()
            for timer in self._timers.values():
                timer.cancel()
            self.on_done()
            self._wake.set()

    # -- timeout and interrupts

    @property
    def _timeout_message(self) -> str:
        # Clients of `python` match these words.
        return f"Command timed out after {self.request.timeout:g} seconds."  # pyrefly: ignore[invalid-format-spec]

    def _time_out(self) -> None:
        if self.is_running:
            self._timed_out = True
            self._interrupt_soon()
            self._after("ignored", INTERRUPT_TIMEOUT, self._interrupt_was_ignored)

    def _interrupt_was_ignored(self) -> None:
        self._finish_as(
            "timed_out",
            f"{self._timeout_message} {INTERRUPT_IGNORED}: the kernel was interrupted but still runs "
            "the code. Further requests wait until it ends; restart the kernel to stop it.",
        )

    def _interrupt_soon(self) -> None:
        self._interrupts.spawn(self._interrupt(), "Interrupting a kernel")

    def _after(self, name: str, delay: float, action: Callable[[], None]) -> None:
        def act() -> None:
            del self._timers[name]
            action()

        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._loop.call_later(delay, act)

    def _execution(self, status: EndStatus) -> Execution:
        reply = self._reply or {}
        error: Json | None = None
        if status != "ok":
            error = self._collector.error
            if error is None and reply.get("status") == "error":
                error = {key: reply.get(key) for key in ("ename", "evalue", "traceback")}
        return Execution(
            status=status,
            outputs=self._collector.outputs,
            execution_count=self._count,
            error=error,
            duration=self._loop.time() - self._began,
            message=self._message,
            prompt=self._prompt,
            user_expressions=reply.get("user_expressions") or {},
            backend=self._backend,
            dropped=self._collector.dropped,
            displays=self._collector.displays,
            pages=tuple(encodable(page.get("data")) for page in _pages(reply)),
        )


class OtherClientRun(KernelRun):
    """A run of another client's request. Only that client gets the reply, so the run ends with idle."""

    is_ours = False

    def on_iopub(self, kind: str, content: Mapping[str, Any]) -> None:
        """Handle an iopub message of this execution."""
        if kind == "status" and content.get("execution_state") == "idle":
            error = self._collector.error
            self._reply = {"status": "ok" if self._is_started else "aborted"}
            if error is not None:
                self._reply = {"status": "error", **error}
        super().on_iopub(kind, content)


def _pages(reply: Mapping[str, Any]) -> list[Json]:
    """Return the parts of a reply that IPython sends to a pager."""
    return [part for part in reply.get("payload") or () if part.get("source") == "page"]
