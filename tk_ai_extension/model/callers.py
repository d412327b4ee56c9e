"""The caller of a tool: a user and a session."""

from __future__ import annotations

import getpass
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tk_ai_extension.model.errors import InvalidArguments

Mode = Literal["plan", "ask", "edit", "auto"]
"""A permission mode: what runs without approval (see `workspace.permissions`)."""

Interface = Literal["mcp", "rest", "chat", "nb", "python"]
"""The interface that a call came through."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user and the session in which they act.

    The current notebook, the cells that were read, permissions, the place in the queue and undo
    belong to a caller. The key is a name and grants nothing: access depends on ``user`` alone.

    >>> caller = Caller("ada", key="k1", interface="rest")
    >>> caller.session, caller.author
    ('rest:k1', 'ada')

    Attributes:
        user: Jupyter's user name.
        key: The MCP session id, ``?caller=``, ``X-TK-Caller``, the chat id or the nb project; None
            if calls cannot be assigned to a session. Keys of different interfaces are independent.
        interface: The interface that the call came through.
        mode: The permission mode.
        name: The author of a change as people see it, for example ``claude-code 2.1``.
        turn: The id of the chat's turn. The changes of a turn are undone together.
        model: The model that answers in a chat; empty if it is not known.
    """

    user: str
    key: str | None = None
    interface: Interface = "python"
    mode: Mode = "auto"
    name: str = ""
    turn: str | None = None
    model: str = ""

    @property
    def author(self) -> str:
        """The name shown in history."""
        return self.name or self.user

    @property
    def session(self) -> str | None:
        """The name of the session, ``interface:key``; None without a key.

        Clients choose keys freely, so the same key in another interface is another session.
        """
        return None if self.key is None else f"{self.interface}:{self.key}"

    @property
    def identity(self) -> str:
        """One string for user, interface and key; equal only for calls of one session."""
        return f"{self.user}\x1f{self.session or self.interface}"


EmitEvent = Callable[[Literal["edit", "run", "approval"], Caller, str, str, str], None]
"""Emits an event: what happened, the caller, the path (empty for none), the tool, the outcome."""


MAX_KEY = 200
"""Maximum characters of a caller's key."""


def checked_key(key: str | None) -> str | None:
    """Return a key that a client chose; None for an empty one.

    Raises:
        InvalidArguments: The key is too long or not printable.
    """
    if key is not None and not (key.isprintable() and len(key) <= MAX_KEY):
        raise InvalidArguments(
            "The caller's key is not printable or too long.",
            hint=f"Set `?caller=` or X-TK-Caller to at most {MAX_KEY} printable characters.",
        )
    return key or None


def owner() -> str:
    """Return the name of the user who runs this process, or ``uid-N`` if the system has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


MAX_CALLERS = 1_000
MAX_NOTICES = 20


class CallerNotices:
    """Notices that are delivered with a caller's next result. At the limits, the oldest are dropped."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[str]] = OrderedDict()
        self._for_anybody: list[str] = []

    def add(self, caller: str | Caller, notice: str) -> None:
        """Add a notice for a caller or an identity, unless it is already pending."""
        identity = caller if isinstance(caller, str) else caller.identity
        waiting = self._waiting.setdefault(identity, [])
        if notice not in waiting:
            waiting.append(notice)
            del waiting[:-MAX_NOTICES]
        while len(self._waiting) > MAX_CALLERS:
            self._waiting.popitem(last=False)

    def add_for_anybody(self, notice: str) -> None:
        """Add a notice to the next result of any caller."""
        self._for_anybody.append(notice)
        del self._for_anybody[:-MAX_NOTICES]

    def forget(self, caller: Caller) -> None:
        """Drop the notices of a caller after its session has ended."""
        self._waiting.pop(caller.identity, None)

    def take(self, caller: Caller) -> list[str]:
        """Remove and return the notices for this caller."""
        for_anybody, self._for_anybody = self._for_anybody, []
        return self._waiting.pop(caller.identity, []) + for_anybody
