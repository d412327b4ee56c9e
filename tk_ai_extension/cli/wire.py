"""Protocol between a command and a server: one JSON object per line (see `connecting`).

The command begins with its call::

    {"argv": [...], "cwd": "/...", "columns": 100, "tty": true, "env": {"TERM": ...}, "version": "..."}

and sends ``{"interrupt": true}`` for each Ctrl-C, in lines of at most `LONGEST_LINE` bytes. The server sends
any number of ``{"out": text}``, ``{"err": text}`` and ``{"browse": url}``. It asks with ``{"ask": "stdin"}``,
``{"ask": "file", "path": ...}``, ``{"ask": "write", "path": ..., "text": ...}``, ``{"ask": "edit", "text":
..., "name": ...}`` or ``{"ask": "line", "prompt": ...}``, which is answered with ``{"answer": ...}``,
``{"problem": ...}`` or ``{"too_long": true}``. It ends with ``{"exit": status}``. With ``"ending": true``
the server stops as well, and the command waits for the end of the connection. ``{"redirect": url, "token":
..., "notebook": ...}`` is sent instead if the command belongs to another server.
"""

from __future__ import annotations

from tk_ai_extension.model.agent_variables import FOR_CHATS

LONGEST_LINE = 1 << 28
"""Maximum length of a line, in bytes: input of a command, or a message of MCP."""

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
"""Variables that a server receives from a command's environment: the terminal and the caller; the
project's own server also receives the token of the server that the command names. They are not stored."""


def environment(argv: list[str], *, own: bool) -> tuple[str, ...]:
    """Return the names of the environment variables that a server receives.

    Args:
        argv: The command.
        own: Whether it is the project's own server: only this one receives tokens and keys.
    """
    if not own:
        return tuple(name for name in ENVIRONMENT if name != "JUPYTER_TOKEN")
    return ENVIRONMENT + FOR_CHATS if argv[:1] in (["chat"], ["doctor"]) else ENVIRONMENT


OK, FAILED, REFUSED, UNREACHABLE, RUNNING = 0, 1, 2, 3, 4
"""Exit statuses: success; the cell failed; refused (invalid call, unknown cell, conflict); no
kernel or server answers; still running after ``--wait``."""

INTERRUPTED = 130
"""Exit status after a second Ctrl-C: the command has stopped waiting."""

PIPE_CLOSED = 141
"""Exit status of a command that stopped at a closed pipe without a result, as of one that SIGPIPE ends."""
