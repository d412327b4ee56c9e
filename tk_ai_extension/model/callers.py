"""Who is acting."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from typing import Literal

from tk_ai_extension.model.errors import InvalidArguments

Mode = Literal["plan", "ask", "edit", "auto"]
"""A permission mode: what runs without asking (see `workspace.permissions`)."""

Face = Literal["mcp", "rest", "chat", "nb", "python"]
"""The way in by which a call came."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The user, and the session in which they act.

    The current notebook, what was read, permissions, fairness in the queue and undo belong to a
    caller. The key is a name, never authority: what a caller may reach depends on ``user`` alone.

    Attributes:
        user: Jupyter's user name.
        key: The MCP session id, ``?caller=``, ``X-TK-Caller``, the chat id or the nb project; None
            where two calls of one user cannot be told to be of one session. It counts for its face
            alone.
        face: The way in.
        mode: The permission mode.
        name: What people see as the author of a change, for example ``claude-code 2.1``.
        turn: The turn of a chat in which they act, by which the journal takes it back as one.
    """

    user: str
    key: str | None = None
    face: Face = "python"
    mode: Mode = "auto"
    name: str = ""
    turn: str | None = None

    @property
    def author(self) -> str:
        """The name shown in history."""
        return self.name or self.user

    @property
    def session(self) -> str | None:
        """The name of the session: the key, of one face; None where there is no key.

        Keys are chosen freely, so the same one by another way in is another session.
        """
        return None if self.key is None else f"{self.face}:{self.key}"

    @property
    def identity(self) -> str:
        """One string for user, face and key; equal for calls of one session only."""
        return f"{self.user}\x1f{self.session or self.face}"


MAX_KEY = 200
"""Characters of a key."""


def checked_key(key: str | None) -> str | None:
    """A key that a client chose, or None where it chose none.

    Raises:
        InvalidArguments: it is too long or not printable.
    """
    if key is not None and not (key.isprintable() and len(key) <= MAX_KEY):
        raise InvalidArguments(
            "The caller's key is not printable or too long.",
            hint=f"Give `?caller=` or X-TK-Caller up to {MAX_KEY} printable characters.",
        )
    return key or None


def owner() -> str:
    """The name of the user who runs this process; its number where the system knows no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"
