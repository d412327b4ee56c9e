"""Executions: a request to run code, its events, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import OutputChange

EndStatus = Literal[
    "ok", "error", "interrupted", "timed_out", "kernel_died", "kernel_restarted", "connection_lost"
]
"""The final status of an execution."""

INTERRUPT_IGNORED = "interrupt_ignored"
"""Marks the message of an execution that was interrupted and still runs."""

RunStatus = Literal["queued", "running"] | EndStatus


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """Code to run in a kernel.

    Attributes:
        code: The source, in the kernel's language.
        silent: Whether to run it without an execution count, history and outputs, as this package's
            queries do.
        timeout: Seconds of wall clock after which the code is interrupted; None for no limit.
        user_expressions: Expressions to evaluate; the reply has their values.
    """

    code: str
    silent: bool = False
    timeout: float | None = None
    user_expressions: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ExecutionStarted:
    """The kernel started to run the code."""

    execution_count: int | None


@dataclass(frozen=True, slots=True)
class OutputsChanged:
    """Outputs were added or changed; changes that arrived together are in one event."""

    changes: tuple[OutputChange, ...]


@dataclass(frozen=True, slots=True)
class StatusDisplay:
    """A display of a status MIME type (``application/x-*-status``): data for programs, without text."""

    mime: str
    data: Any


@dataclass(frozen=True, slots=True)
class InputRequested:
    """The code requested input, which was refused."""

    prompt: str


@dataclass(frozen=True, slots=True)
class Execution:
    """The result of an execution.

    Attributes:
        status: The final status.
        outputs: All outputs, in nbformat.
        execution_count: The kernel's count; None if the code never ran.
        error: ename, evalue and traceback, if the code raised an exception.
        duration: Seconds of wall clock from the start in the kernel (or from submission, if it never
            started) to the end.
        message: For a status other than ok and error, a sentence that says what happened.
        prompt: The prompt of ``input()``, if it was called.
        user_expressions: The values of the request's expressions, as in the reply.
        backend: The executor that ran it: ``stack`` or ``direct``.
        dropped: Characters of output that exceeded the limit and were dropped.
        displays: The indices of the outputs with each display id.
        pages: The MIME bundles among the outputs that a front end may show in a pager instead.
    """

    status: EndStatus
    outputs: tuple[Json, ...] = ()
    execution_count: int | None = None
    error: Json | None = None
    duration: float = 0.0
    message: str = ""
    prompt: str | None = None
    user_expressions: dict[str, Any] = field(default_factory=dict[str, Any])
    backend: str = ""
    dropped: int = 0
    displays: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    pages: tuple[Json, ...] = ()


ExecutionEvent = ExecutionStarted | OutputsChanged | StatusDisplay | InputRequested | Execution
"""An event of an executor. The last one is always an `Execution`."""
