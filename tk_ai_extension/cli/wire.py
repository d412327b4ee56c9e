"""What a command and a server say to each other: a JSON object a line (see `connecting`).

The command says once what it was called with::

    {"argv": [...], "cwd": "/...", "columns": 100, "tty": true, "env": {"TERM": ...}, "version": "..."}

and ``{"interrupt": true}`` for each Ctrl-C, in lines of at most `LONGEST_LINE` bytes. The server answers
with any number of ``{"out": text}``, ``{"err": text}`` and ``{"browse": url}``, asks with ``{"ask":
"stdin"}``, ``{"ask": "file", "path": ...}``, ``{"ask": "edit", "text": ..., "name": ...}`` or ``{"ask":
"line", "prompt": ...}`` (answered with ``{"answer": ...}``, ``{"problem": ...}`` or ``{"too_long":
true}``), and ends with ``{"exit": status}``. Where ``"ending": true`` is with it the server ends, too,
and the command waits for the end of the connection. ``{"redirect": url, "token": ..., "notebook": ...}``
comes in place of all that where the command belongs to another server.
"""

from __future__ import annotations

from tk_ai_extension.model.agent_variables import FOR_CHATS

LONGEST_LINE = 1 << 28
"""Bytes of one line: what a command read from standard input, or a message of MCP."""

ENVIRONMENT = (
    "COLORTERM",
    "JUPYTER_TOKEN",
    "KITTY_WINDOW_ID",
    "LANG",
    "LC_ALL",
    "NB_CALLER",
    "NO_COLOR",
    "TERM",
    "TERM_PROGRAM",
    "TMUX",
)
"""What a server receives of a command's environment: how to draw, and who calls; the project's own also
what lets in at the server that the command names. It is kept nowhere."""


def environment(argv: list[str], *, own: bool) -> tuple[str, ...]:
    """The names of what a server receives of a command's environment.

    Args:
        argv: The command.
        own: Whether it is the project's own server: no other one gets tokens and keys.
    """
    if not own:
        return tuple(name for name in ENVIRONMENT if name != "JUPYTER_TOKEN")
    return ENVIRONMENT + FOR_CHATS if argv[:1] == ["chat"] else ENVIRONMENT


OK, FAILED, REFUSED, UNREACHABLE, RUNNING = 0, 1, 2, 3, 4
"""Exit statuses: done; the cell failed; refused (a wrong call, an unknown cell, a conflict); no
kernel or server answers; it still runs, and the time to wait is over."""

INTERRUPTED = 130
"""Exit status after a second Ctrl-C: nobody waits any more."""
