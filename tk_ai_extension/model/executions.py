"""Executions: a request to run code, what is heard while it runs, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.outputs import OutputChange

EndStatus = Literal[
    "ok", "error", "interrupted", "timed_out", "kernel_died", "kernel_restarted", "connection_lost"
]
"""How an execution ended; every execution ends as one of these."""

RunStatus = Literal["queued", "running"] | EndStatus


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """Code to run in a kernel.

    Attributes:
        code: The source, in the kernel's language.
        silent: Neither counted nor kept in history nor shown (our own questions to the kernel).
        allow_stdin: Whether ``input()`` may ask; off, the code gets an error.
        timeout: Seconds of wall clock after which it is interrupted; None for no limit.
        user_expressions: Expressions whose values come back in the reply.
    """

    code: str
    silent: bool = False
    allow_stdin: bool = False
    timeout: float | None = None
    user_expressions: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Started:
    """The kernel began to run the code."""

    execution_count: int | None


@dataclass(frozen=True, slots=True)
class OutputsChanged:
    """Outputs came or changed; those that came together are together here."""

    changes: tuple[OutputChange, ...]


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """A display of a status MIME type (``application/x-*-status``): data for programs, no text."""

    mime: str
    data: Any


@dataclass(frozen=True, slots=True)
class InputRequested:
    """The code asked for input; it was refused, or answered empty."""

    prompt: str


@dataclass(frozen=True, slots=True)
class Execution:
    """How an execution ended.

    Attributes:
        status: The final status.
        outputs: All outputs, as they stand in the notebook (nbformat).
        execution_count: The kernel's count, or None where it never ran.
        error: ename, evalue and traceback, where the code raised.
        duration: Seconds of wall clock from when the kernel began it (where it did not, from its
            submission) to the end.
        message: For a status other than ok and error, a sentence that says what happened.
        prompt: What ``input()`` asked, where it did.
        user_expressions: The reply's values of the request's expressions.
        backend: The executor that ran it: ``stack`` or ``direct``.
        dropped: Characters of output that went over the bound of what is kept.
        displays: The numbers of the outputs with each display id.
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


ExecutionEvent = Started | OutputsChanged | StatusEvent | InputRequested | Execution
"""What an executor yields; the last one is always an `Execution`."""
