"""The listener for one execution: collects its outputs and determines how it ended."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, cast

from tk_ai_extension.kernels.base_connection import (
    REPLY_IDLE_GAP,
    REPLY_IDLE_LIMIT,
    Ending,
    ReplyIdleWait,
)
from tk_ai_extension.kernels.collector import (
    MAX_OUTPUT_BYTES,
    OUTPUT_MESSAGES,
    OutputCollector,
    integer,
)
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.executions import (
    INTERRUPT_IGNORED,
    EndStatus,
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    InputRequested,
    OutputsChanged,
    Started,
)
from tk_ai_extension.model.json_values import Json

log = logging.getLogger(__name__)

END_OF_FILE = "\x04"
"""The input_reply value with which Jupyter clients signal end of file."""

OUTPUT_INTERVAL = 0.05
"""Minimum interval in seconds between OutputsChanged events; consumer cost is per event."""

FLOOD = 500
"""Messages of one execution above which the kernel may have dropped some."""

GATEWAY_HOLDS_BACK = re.compile(r"IOPub (message|data) rate exceeded")
"""The text, in a message with the gateway's own id, that reports the gateway's rate limit."""

KERNEL_TOO_FAST = "the kernel produced them faster than it could send them"

MAX_QUESTIONS = 10
"""How often one execution may request input before it is interrupted."""

MAX_PROMPT = 1_000
"""Characters of a prompt that the outputs quote."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for messages of an execution that do not arrive; seconds.

    Attributes:
        reply_idle_gap: For idle after the reply, or the reply after idle, while no message arrives.
        reply_idle_limit: For the same at most. A request's own timeout may shorten it down to the gap.
        interrupt: For the end after an interrupt; then the code counts as ignoring it.
        stopping: For the end of a kernel that is being stopped or restarted.
        external_interrupt_grace: For the event that the kernel is being stopped, after an interrupt by
            another client: a stop begins with one. 0 if this server knows of every stop.
    """

    reply_idle_gap: float = REPLY_IDLE_GAP
    reply_idle_limit: float = REPLY_IDLE_LIMIT
    interrupt: float = 5.0
    stopping: float = 15.0
    external_interrupt_grace: float = 0.0


class ExecutionListener:
    """Listens to one request, collects its outputs, and ends with one of `EndStatus`.

    It ends on the reply and idle; on one of them and a bounded wait for the other; with the kernel or
    the connection; or a bounded time after its timeout has interrupted the kernel. The timeout counts
    from when the kernel begins to run the code, so that a queued request never interrupts another
    client's cell.

    Args:
        request: The request.
        backend: The executor's name.
        interrupt: Interrupts the kernel.
        stopping: Returns whether the kernel is being stopped or restarted.
        timeouts: How long to wait for messages that do not arrive.
        max_output_bytes: Limit of the outputs that are kept.
        loss_reason: Why messages are lost in a flood, for the note in the outputs.
    """

    def __init__(
        self,
        request: ExecutionRequest,
        *,
        backend: str,
        interrupt: Callable[[], Awaitable[None]],
        stopping: Callable[[], bool],
        timeouts: Timeouts | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        loss_reason: str = KERNEL_TOO_FAST,
    ) -> None:
        self.started = False
        """Whether the kernel has begun to run the code."""
        self.aborted = False
        """Whether it was dropped before it ran because an earlier request failed."""
        self.status: EndStatus | None = None
        self._request = request
        self._backend = backend
        self._interrupt = interrupt
        self._stopping = stopping
        self._timeouts = timeouts or Timeouts()
        self._collector = OutputCollector(max_output_bytes)
        self._loss_reason = loss_reason
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.ended = asyncio.Event()
        self._wake = asyncio.Event()
        self._wake_timer: asyncio.TimerHandle | None = None
        self._published_at = 0.0
        self._events: list[ExecutionEvent] = []
        self._reply: Mapping[str, Any] | None = None
        self._idle = False
        self._count: int | None = None
        self._prompt: str | None = None
        self._questions = 0
        self._interrupt_is_due = self._is_interrupting = False
        self._received = 0
        self._wait = ReplyIdleWait(
            self._stop_waiting, self._timeouts.reply_idle_gap, self._timeouts.reply_idle_limit
        )
        self._held_back = False
        self._missing_before: int | None = None
        self._last_missing: int | None = None
        self._message = ""
        self._interrupted = False
        self._timed_out = False
        self._published_start = False
        self._has_run = False
        self._timers: list[asyncio.TimerHandle] = []
        self._tasks = BackgroundTasks(log)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.status is not None

    def drop(self, message: str) -> None:
        """End the execution before it was submitted to the kernel."""
        self.aborted = True
        self.finish("interrupted", message)

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
            if self.status is not None and not self._wake.is_set():
                break
        yield self._execution(self.status)

    async def close(self) -> None:
        """Stop the timers. Called by the executor when the listener is no longer needed."""
        self._wait.stop()
        for timer in (*self._timers, self._wake_timer):
            if timer is not None:
                timer.cancel()
        await self._tasks.close(grace=1)

    # -- called by the connection

    def on_iopub(self, kind: str, content: Mapping[str, Any], missing: int | None) -> None:
        """Handle an iopub message of this execution."""
        if self.done:
            return
        self._received += 1
        self._wait.on_message()
        self._last_missing = missing
        if kind in OUTPUT_MESSAGES:
            if missing is None and GATEWAY_HOLDS_BACK.match(str(content.get("text", ""))):
                self._held_back = True
            self._collector.add(kind, content)
            self._has_run = True
            self._start()  # busy may be lost
            self._publish_start()
            self._wake_in_time()
        elif kind == "execute_input":
            self._count = integer(content.get("execution_count"))
            self._has_run = True
            self._start()
            self._publish_start()
        elif kind == "status":
            match content.get("execution_state"):
                case "busy":
                    self._start()
                    self._missing_before = missing
                    if self._request.silent:
                        self._publish_start()
                case "idle":
                    self._idle = True
                    self._report_losses()
                    self._settle()
                case _:
                    pass

    def on_reply(self, content: Mapping[str, Any]) -> None:
        """Handle the reply."""
        if self._reply is None and not self.done:
            self._reply = content
            self._add_pages(content)
            self._settle()

    def on_input(self, content: Mapping[str, Any], answer: Callable[[str], None]) -> None:
        """Answer an input request with end of file, or with an empty line if input is allowed."""
        if self.done:
            return
        self._questions += 1
        if self._questions > MAX_QUESTIONS + 1:
            self._interrupt_soon()  # The code has caught the interrupt, or asks without waiting.
            return
        prompt = self._prompt = str(content.get("prompt", ""))
        self._publish(InputRequested(prompt))
        what = "answered with an empty line" if self._request.allow_stdin else "refused"
        shown = prompt if len(prompt) <= MAX_PROMPT else f"{prompt[:MAX_PROMPT]}…"
        self._collector.warn(f"[input({shown!r}) was {what}: no person can answer here.]")
        if self._questions > MAX_QUESTIONS:
            self._interrupt_soon()
        else:
            answer("" if self._request.allow_stdin else END_OF_FILE)

    def running_since(self, request: ExecutionRequest) -> float | None:
        """Return when the kernel began to run this request; None if it does not run it now."""
        return self._began if self._is_running and request is self._request else None

    def on_interrupt(self) -> None:
        """Note that this server interrupts the kernel."""
        self._interrupted = self._interrupted or self._is_running

    def on_end(self, ending: Ending) -> None:
        """End the execution with the connection."""
        if self.done:
            return
        reply, stopped = self._reply, ending.kind in {"restarted", "shutdown"}
        if reply is not None and (reply.get("status") == "ok" or not stopped):
            self._finish_with_reply(reply)
            return
        match ending.kind:
            case "restarted":
                self.finish("kernel_restarted", ending.message)
            case "died" | "shutdown":
                self.finish("kernel_died", ending.message)
            case "lost" | "closed":
                self.finish("connection_lost", ending.message)

    def finish(self, status: EndStatus, message: str = "") -> None:
        """End the execution."""
        if not self.done:
            self.status = status
            self._message = message
            self._collector.finish()
            self.ended.set()
            self._wake.set()

    # -- progress

    @property
    def _is_running(self) -> bool:
        """Whether the kernel runs the code. With the reply or idle it is free for other clients."""
        has_ended = self._reply is not None or self._idle or self.done
        return self.started and not has_ended

    def _start(self) -> None:
        if self.started:
            return
        self.started = True
        # Time in the queue behind other clients' code does not count.
        self._began = self._loop.time()
        if self._request.timeout is not None:
            self._after(self._request.timeout, self._time_out)

    def _publish_start(self) -> None:
        if not self._published_start:
            self._published_start = True
            self._publish(Started(self._count))

    def _publish(self, event: ExecutionEvent) -> None:
        self._events.append(event)
        self._wake.set()

    def _wake_in_time(self) -> None:
        """Wake the reader at once, or throttle it to one event per `OUTPUT_INTERVAL`."""
        delay = self._published_at + OUTPUT_INTERVAL - self._loop.time()
        if delay <= 0:
            self._wake.set()
        elif self._wake_timer is None:
            self._wake_timer = self._loop.call_later(delay, self._wake_now)

    def _wake_now(self) -> None:
        self._wake_timer = None
        self._wake.set()

    def _settle(self) -> None:
        """End the execution if reply and idle have arrived; otherwise wait a bounded time."""
        if self._reply is None or not self._idle:
            timeout = self._request.timeout
            self._wait.start(inf if timeout is None else self._began + timeout)
        elif self._stopping() and self._reply.get("status") != "ok":
            # Stopping a kernel interrupts it first: the reply to that is not the outcome.
            self._after(self._timeouts.stopping, self._finish)
        elif self._timeouts.external_interrupt_grace and self._is_interrupted_by_others:
            self._after(self._timeouts.external_interrupt_grace, self._finish)
        else:
            self._finish()

    @property
    def _is_interrupted_by_others(self) -> bool:
        ours = self._interrupted or self._timed_out
        return not ours and (self._reply or {}).get("ename") == "KeyboardInterrupt"

    def _stop_waiting(self) -> None:
        if not self.done and (self._reply is None or not self._idle):
            missing = "reply" if self._reply is None else "idle"
            log.warning("An execution ends without the kernel's %s, which did not arrive", missing)
            self._report_losses()
            if not self._idle and self._may_have_losses:
                # Without idle there is no later message id by which to count the lost ones.
                self._collector.warn(
                    f"[The last messages with output were lost: {self._loss_reason}.]"
                )
            elif not self._idle and self._wait.cut_short:
                self._collector.warn("[Outputs that arrive later are not shown.]")
            self._finish()

    def _finish(self) -> None:
        if not self.done:
            failed = "error" if self._collector.error else "ok"
            self._finish_with_reply(
                self._reply or {"status": failed, **(self._collector.error or {})}
            )

    def _finish_with_reply(self, reply: Mapping[str, Any]) -> None:
        status = reply.get("status")
        count = integer(reply.get("execution_count"))
        self._count = self._count if count is None else count
        if self._timed_out:
            self.finish("timed_out", self._timeout_message)
        elif status == "ok":
            self.finish("ok")
        elif status == "error":
            if self._interrupted or reply.get("ename") == "KeyboardInterrupt":
                self.finish("interrupted", "The kernel was interrupted.")
            else:
                self.finish("error")
        elif self._count is not None or self._has_run or self._interrupted:
            # Kernels other than IPython reply "aborted" when an interrupt has ended the code. Busy is
            # no evidence that it ran: it is published for dropped requests, too.
            self.finish("interrupted", "The kernel was interrupted.")
        else:
            self.drop("The kernel dropped it because an earlier request failed.")

    @property
    def _may_have_losses(self) -> bool:
        """Whether messages may be lost; replies to other clients leave gaps in the numbers, too."""
        return self._held_back or self._received >= FLOOD

    def _report_losses(self) -> None:
        missing = self._last_missing
        if self._missing_before is None or missing is None or not self._may_have_losses:
            return
        # The reply to this request and each input_request are numbered, but not on iopub.
        lost = missing - self._missing_before - 1 - self._questions
        if lost > 0:
            log.warning("%d messages from a kernel were lost", lost)
            self._collector.warn(f"[{lost:,} messages with output were lost: {self._loss_reason}.]")

    # -- timeout and interrupts

    @property
    def _timeout_message(self) -> str:
        return f"Timed out after {self._request.timeout:g} seconds."  # pyrefly: ignore[invalid-format-spec]

    def _time_out(self) -> None:
        if not self._is_running:
            return
        self._timed_out = True
        self._interrupt_soon()
        self._after(self._timeouts.interrupt, self._interrupt_was_ignored)

    def _interrupt_was_ignored(self) -> None:
        self.finish(
            "timed_out",
            f"{self._timeout_message} {INTERRUPT_IGNORED}: the kernel was interrupted but still runs "
            "the code. Further requests wait until it ends; restart the kernel to stop it.",
        )

    def _interrupt_soon(self) -> None:
        """Interrupt the kernel, one interrupt after the other."""

        async def interrupt() -> None:
            try:
                while self._interrupt_is_due:
                    self._interrupt_is_due = False
                    await self._interrupt()
            finally:
                self._is_interrupting = False

        self._interrupt_is_due = True
        if not self._is_interrupting:
            self._is_interrupting = True
            self._tasks.spawn(interrupt(), "Interrupting a kernel")

    def _after(self, delay: float, action: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(delay, action))

    # -- the result

    def _add_pages(self, reply: Mapping[str, Any]) -> None:
        """Add the text that IPython's ``name?`` sends to a pager, as JupyterLab does."""
        for page in _pages(reply):
            self._collector.add("display_data", page)

    def _execution(self, status: EndStatus) -> Execution:
        error: Json | None = None
        reply = self._reply or {}
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


def _pages(reply: Mapping[str, Any]) -> list[Json]:
    """Return the parts of a reply that IPython sends to a pager."""
    payload = reply.get("payload")
    parts = cast("list[Any]", payload) if isinstance(payload, list) else []
    pages = [cast("Json", part) for part in parts if isinstance(part, dict)]
    return [page for page in pages if page.get("source") == "page"]
