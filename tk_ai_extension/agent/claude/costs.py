"""What each turn of a chat costs, from the totals that Claude's process reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claude_agent_sdk import ResultMessage


class CostMeter:
    """Difference between the totals of two results of one process.

    ``total_cost_usd`` and ``model_usage`` of a result cover the session, ``usage`` covers the turn. A
    process that resumes a session continues its total where it was the last process to save it, and
    starts at 0 otherwise (measured with the CLI of claude-agent-sdk 0.2).

    Args:
        resumed: The session's total in dollars before this process, where it resumes one; None where
            that is not known. A process that begins a session has 0.
    """

    def __init__(self, resumed: float | None = 0.0) -> None:
        self._total = resumed
        self._is_first = resumed != 0.0

    def turn(self, result: ResultMessage) -> float | None:
        """Return what the turn that ends with this result cost, in dollars; None if unknown."""
        total = result.total_cost_usd
        if total is None:
            return None
        before, self._total = self._total, total
        if self._is_first:
            self._is_first = False
            if _session_tokens(result.model_usage or {}) <= _tokens(result.usage or {}):
                before = 0.0
        if before is None:
            return None
        return round(total - before if before <= total else total, 9)


def _tokens(usage: dict[str, Any]) -> int:
    names = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    return sum(int(usage.get(name) or 0) for name in names)


def _session_tokens(usage: dict[str, Any]) -> int:
    names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return sum(int(each.get(name) or 0) for each in usage.values() for name in names)
