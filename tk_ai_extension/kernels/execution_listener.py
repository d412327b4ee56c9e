"""One execution as it is heard: what it prints, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.kernels.base_connection import Ending
from tk_ai_extension.kernels.collector import MAX_OUTPUT_BYTES, OUTPUT_MESSAGES, OutputCollector
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.executions import (
    EndStatus,
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    InputRequested,
    OutputsChanged,
    Started,
)

log = logging.getLogger(__name__)

END_OF_FILE = "\x04"
"""The answer to a question for input by which Jupyter's clients say that there is none."""

OUTPUT_INTERVAL = 0.05
"""Seconds between two tellings of outputs that keep coming: a reader's cost is by the telling."""

FLOOD = 500
"""Messages of one execution from which on a kernel may have dropped some."""

GATEWAY_HOLDS_BACK = re.compile(r"IOPub (message|data) rate exceeded")
"""What a gateway says, under an id of its own, when it holds messages of a kernel back."""

KERNEL_TOO_FAST = "the kernel made them faster than it could send them"

MAX_QUESTIONS = 10
"""How often one execution may ask for input before it is interrupted."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long an execution is waited for when something does not come; seconds.

    Attributes:
        reply_idle_gap: For idle after the reply, or for the reply after idle, with nothing heard.
        interrupt: For the end after an interrupt, before the code counts as ignoring it.
        stopping: For the end of a kernel that is being stopped or restarted.
        external_interrupt_grace: For word that the kernel is being stopped, after an interrupt from
            outside: a stop begins with one. 0 if this server always knows beforehand.
    """

    reply_idle_gap: float = 5.0
    interrupt: float = 5.0
    stopping: float = 15.0
    external_interrupt_grace: float = 0.0


class ExecutionListener:
    """Listens to one request, collects its outputs, and ends as one of `EndStatus`.

    It ends with the reply and idle; with one of them and a bounded wait for the other; with the
    kernel or the connection; or a bounded time after its timeout has interrupted the kernel. The
    timeout counts from when the kernel begins to run the code: what waits behind somebody else's
    cell interrupts nobody.

    Args:
        request: What was asked.
        backend: The executor's name.
        interrupt: Interrupts the kernel.
        stopping: Whether the kernel is being stopped or restarted.
        max_output_bytes: The bound of what is kept of the outputs.
        loss_reason: Why messages of a flood were lost, where some were.
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
        """Whether it was dropped before it ran, because a request before it had failed."""
        self.status: EndStatus | None = None
        self._request = request
        self._backend = backend
        self._interrupt = interrupt
        self._stopping = stopping
        self._timeouts = timeouts or Timeouts()
        self._collector = OutputCollector(max_output_bytes)
        self._too_fast = loss_reason
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
        self._received = 0
        self._received_at = 0.0
        self._held_back = False
        self._missing_before: int | None = None
        self._last_missing: int | None = None
        self._message = ""
        self._interrupted = False
        self._timed_out = False
        self._published_start = False
        self._timers: list[asyncio.TimerHandle] = []
        self._tasks = BackgroundTasks(log)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.status is not None

    def drop(self, message: str) -> None:
        """Ends it without its having been submitted to the kernel."""
        self.aborted = True
        self.finish("interrupted", message)

    async def events(self) -> AsyncGenerator[ExecutionEvent]:
        """What happens, as it happens; the last event is the `Execution`."""
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
        """Stops its timers: whoever has submitted it calls this when nobody listens any more."""
        for timer in (*self._timers, self._wake_timer):
            if timer is not None:
                timer.cancel()
        await self._tasks.close(grace=1)

    # -- what the connection tells

    def on_iopub(self, kind: str, content: Mapping[str, Any], missing: int | None) -> None:
        """A message of this execution."""
        if self.done:
            return
        self._received += 1
        self._received_at = self._loop.time()
        self._last_missing = missing
        if kind in OUTPUT_MESSAGES:
            if missing is None and GATEWAY_HOLDS_BACK.match(str(content.get("text", ""))):
                self._held_back = True
            self._collector.add(kind, content)
            self._publish_start()
            self._wake_in_time()
        elif kind == "execute_input":
            self._count = content.get("execution_count")
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
        """The reply to it."""
        if self._reply is None and not self.done:
            self._reply = content
            self._add_pages(content)
            self._settle()

    def on_input(self, content: Mapping[str, Any], answer: Callable[[str], None]) -> None:
        """The code asks for input: it gets the end of file, or an empty line where it may ask."""
        if self.done:
            return
        prompt = self._prompt = str(content.get("prompt", ""))
        self._questions += 1
        self._publish(InputRequested(prompt))
        what = "answered with an empty line" if self._request.allow_stdin else "refused"
        self._collector.warn(f"[input({prompt!r}) was {what}: nobody can answer it here.]")
        if self._questions > MAX_QUESTIONS:
            self._interrupt_soon()
        else:
            answer("" if self._request.allow_stdin else END_OF_FILE)

    def on_interrupt(self) -> None:
        """Somebody interrupts the kernel."""
        self._interrupted = self._interrupted or self.started

    def on_end(self, ending: Ending) -> None:
        """The connection has ended."""
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
        """Ends it."""
        if not self.done:
            self.status = status
            self._message = message
            self._collector.finish()
            self.ended.set()
            self._wake.set()

    # -- how it goes on

    def _start(self) -> None:
        if self.started:
            return
        self.started = True
        # What waits behind somebody else's code takes no time of its own.
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
        """Has outputs told at once where it is quiet, and in batches where they come in a flood."""
        delay = self._published_at + OUTPUT_INTERVAL - self._loop.time()
        if delay <= 0:
            self._wake.set()
        elif self._wake_timer is None:
            self._wake_timer = self._loop.call_later(delay, self._wake_now)

    def _wake_now(self) -> None:
        self._wake_timer = None
        self._wake.set()

    def _settle(self) -> None:
        """Ends it if reply and idle are both there; otherwise waits a bounded time."""
        if self._reply is None or not self._idle:
            self._after(self._timeouts.reply_idle_gap, self._stop_waiting)
        elif self._stopping() and self._reply.get("status") != "ok":
            # Stopping a kernel interrupts it first: what the code says to that is not its end.
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
        quiet = self._loop.time() - self._received_at
        if not self.done and quiet < self._timeouts.reply_idle_gap:
            # The reply may be long there while a flood of outputs is still being read.
            self._after(self._timeouts.reply_idle_gap - quiet, self._stop_waiting)
        elif not self.done:
            missing = "reply" if self._reply is None else "idle"
            log.warning("An execution ends without the kernel's %s, which did not come", missing)
            self._report_losses()
            if not self._idle and self._may_have_losses:
                # What was lost before it was lost with it, and nothing came after to count it by.
                self._collector.warn(
                    f"[Messages with the last of the output were lost: {self._too_fast}.]"
                )
            self._finish()

    def _finish(self) -> None:
        if not self.done:
            failed = "error" if self._collector.error else "ok"
            self._finish_with_reply(
                self._reply or {"status": failed, **(self._collector.error or {})}
            )

    def _finish_with_reply(self, reply: Mapping[str, Any]) -> None:
        status = reply.get("status")
        if reply.get("execution_count") is not None:
            self._count = reply["execution_count"]
        if self._timed_out:
            self.finish("timed_out", self._timeout_message)
        elif status == "ok":
            self.finish("ok")
        elif status == "error":
            if self._interrupted or reply.get("ename") == "KeyboardInterrupt":
                self.finish("interrupted", "The kernel was interrupted.")
            else:
                self.finish("error")
        elif self._count is not None or self._published_start:
            # Kernels that are no IPython say so when an interrupt has ended the code.
            self.finish("interrupted", "The kernel was interrupted.")
        else:
            self.drop("The kernel dropped it: a request before it had failed.")

    @property
    def _may_have_losses(self) -> bool:
        """Whether some may be missing; answers to other clients have numbers of the kernel's, too."""
        return self._held_back or self._received >= FLOOD

    def _report_losses(self) -> None:
        missing = self._last_missing
        if self._missing_before is None or missing is None or not self._may_have_losses:
            return
        # One that was not heard is the reply to this request, and one more is each question.
        lost = missing - self._missing_before - 1 - self._questions
        if lost > 0:
            log.warning("%d messages of a kernel were lost before they got here", lost)
            self._collector.warn(f"[{lost:,} messages with output were lost: {self._too_fast}.]")

    # -- timeout and interrupts

    @property
    def _timeout_message(self) -> str:
        return f"Timed out after {self._request.timeout:g} seconds."

    def _time_out(self) -> None:
        if self.done:
            return
        self._timed_out = True
        self._interrupt_soon()
        self._after(self._timeouts.interrupt, self._interrupt_was_ignored)

    def _interrupt_was_ignored(self) -> None:
        self.finish(
            "timed_out",
            f"{self._timeout_message} interrupt_ignored: the kernel was interrupted and still runs "
            "the code; what is asked of it next waits until it ends.",
        )

    def _interrupt_soon(self) -> None:
        async def interrupt() -> None:
            await self._interrupt()

        self._tasks.spawn(interrupt(), "Interrupting a kernel")

    def _after(self, delay: float, action: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(delay, action))

    # -- what is told at the end

    def _add_pages(self, reply: Mapping[str, Any]) -> None:
        """Shows what IPython's ``name?`` pages, as JupyterLab does."""
        for page in reply.get("payload") or ():
            if isinstance(page, dict) and page.get("source") == "page":  # pyright: ignore[reportUnknownMemberType]
                self._collector.add("display_data", page)  # pyright: ignore[reportUnknownArgumentType]

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
        )
