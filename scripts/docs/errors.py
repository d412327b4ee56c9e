"""The errors, from their tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

import tk_ai_extension.model.agent_errors  # noqa: F401
from scripts.docs.markdown import code, page, prose, table
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.executions import EndStatus

ENDS: Mapping[str, str] = {
    "ok": "It ran to its end.",
    "error": "The code raised an exception; name, value and a shortened traceback are in the answer.",
    "interrupted": "It was interrupted: by the caller, another agent or a person.",
    "timed_out": "`timeout` had passed and the kernel was interrupted.",
    "kernel_died": "The kernel's process ended, or was shut down; its variables are gone.",
    "kernel_restarted": "The kernel was restarted under it; its variables are gone.",
    "connection_lost": "The connection to the kernel was lost. It is unknown whether the code "
    "finished; it is never sent again.",
}
"""What each end of an execution means."""


def error_classes(root: type[ToolError] = ToolError) -> Iterator[type[ToolError]]:
    """All error classes with their own code, in the order of definition."""
    for kind in root.__subclasses__():
        if "code" in vars(kind):
            yield kind
        yield from error_classes(kind)


def errors_page(route_errors: Mapping[int, tuple[str, str]]) -> str:
    """Every code that a caller can get.

    Args:
        route_errors: Code and hint by status, of requests refused before a tool is called.
    """
    return page(
        "Errors",
        "*For authors of agents and programs that handle errors.*",
        "An error has a stable `code`, a `message` that names what is wrong, a `hint` that says what to do "
        "next, and `retryable`: whether the same call can succeed later without anything being changed. MCP "
        'gives it as an `isError` result, REST with its status and `{"error": {…}}` in the body. '
        "A call that ends in an error changed nothing, unless the text below says otherwise.",
        "## Errors of tools",
        table(
            ["code", "status", "meaning, and the usual hint"],
            (
                [
                    code(kind.code),
                    f"{kind.status}{', retryable' if kind.retryable else ''}",
                    f"{prose(kind.__doc__)} *{kind.default_hint}*",
                ]
                for kind in error_classes()
            ),
        ),
        "## Errors of routes",
        "What a request meets before it reaches a tool.",
        table(
            ["code", "status", "hint"],
            ([code(name), str(status), hint] for status, (name, hint) in route_errors.items()),
        ),
        "## How an execution ends",
        "Every execution ends as one of these, with whatever it had printed. All but `ok` make the answer an "
        "error; `queued` and `running` do not: `wait_execution` follows them.",
        table(
            ["status", "meaning"], ([code(status), ENDS[status]] for status in get_args(EndStatus))
        ),
    )
