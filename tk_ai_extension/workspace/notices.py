"""What a caller has to be told with their next answer."""

from __future__ import annotations

from collections import OrderedDict

from tk_ai_extension.model.callers import Caller

MAX_CALLERS = 1_000
MAX_NOTICES = 20


class Notices:
    """Sentences that wait for a caller's next call; the oldest go at the bounds."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, list[str]] = OrderedDict()

    def add(self, caller: str | Caller, notice: str) -> None:
        """Leaves a sentence for a caller (or the caller with this identity), once."""
        identity = caller if isinstance(caller, str) else caller.identity
        waiting = self._waiting.setdefault(identity, [])
        if notice not in waiting:
            waiting.append(notice)
            del waiting[:-MAX_NOTICES]
        while len(self._waiting) > MAX_CALLERS:
            self._waiting.popitem(last=False)

    def take(self, caller: Caller) -> list[str]:
        """What waits for this caller; it is told once."""
        return self._waiting.pop(caller.identity, [])
