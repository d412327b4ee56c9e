"""Notices for callers, delivered with their next result."""

from __future__ import annotations

from collections import OrderedDict

from tk_ai_extension.model.callers import Caller

MAX_CALLERS = 1_000
MAX_NOTICES = 20


class Notices:
    """Notices that are delivered with a caller's next result. At the limits, the oldest are dropped."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[str]] = OrderedDict()
        self._for_anybody: list[str] = []

    def add(self, caller: str | Caller, notice: str) -> None:
        """Add a notice for a caller, given as such or by identity, unless it is pending already."""
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
        """Drop the notices of a caller whose session has ended."""
        self._waiting.pop(caller.identity, None)

    def take(self, caller: Caller) -> list[str]:
        """Remove and return the notices for this caller."""
        for_anybody, self._for_anybody = self._for_anybody, []
        return self._waiting.pop(caller.identity, []) + for_anybody
