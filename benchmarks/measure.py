"""How things are measured: side by side, by medians, with an eye on the event loop and on memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import psutil

from tests.support.faults import LoopMeter

Work = Callable[[], Awaitable[object]]
Samples = Sequence[float]
"""Seconds."""

SCALES = {"ms": 1_000.0, "s": 1.0}
WARM_UPS = 3
"""How often each work is done before it counts."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a piece of work beside its floor.

    Attributes:
        work: What was done.
        value: The median of what it took, in ``unit``.
        unit: ms, s, characters, MB, or times.
        floor: The median of the floor, in the same unit.
        goal: The goal in words; empty where there is none.
        bound: The goal as a number of ``unit`` which ``value`` may not pass.
        facts: What else was seen: how many samples, their spread, what was counted.
        skipped: Why it was not measured; the numbers then mean nothing.
    """

    work: str
    value: float
    unit: str
    floor: float | None = None
    goal: str = ""
    bound: float | None = None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    skipped: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the floor it is."""
        return self.value / self.floor if self.floor else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        return None if self.bound is None or self.skipped else self.value <= self.bound

    def as_dict(self) -> dict[str, Any]:
        """As the results have it."""
        numbers = ("value", "floor", "bound")
        data = asdict(self) | {"ratio": self.ratio, "met": self.met}
        return {k: round(v, 3) if k in (*numbers, "ratio") and v else v for k, v in data.items()}


def spread(samples: Samples, unit: str) -> dict[str, Any]:
    """How many samples there are, and how they lie."""
    scaled = sorted(sample * SCALES[unit] for sample in samples)
    return {
        "samples": len(scaled),
        "least": round(scaled[0], 3),
        "p90": round(scaled[min(int(len(scaled) * 0.9), len(scaled) - 1)], 3),
        "most": round(scaled[-1], 3),
    }


def timed(
    work: str,
    samples: Samples,
    floor: Samples | None = None,
    *,
    times: float | None = None,
    above: float | None = None,
    unit: str = "ms",
    **facts: Any,
) -> Row:
    """A row of durations; the goal is so many ``times`` the floor, or so much ``above`` it.

    Args:
        work: What was done.
        samples: Seconds that it took.
        floor: Seconds that the floor took, in the same run.
        times: The goal as a factor.
        above: The goal as a difference, in ``unit``.
        unit: ms or s.
        facts: What else was seen.
    """
    value = statistics.median(samples) * SCALES[unit]
    least = None if floor is None else statistics.median(floor) * SCALES[unit]
    goal, bound = "", None
    if least is not None and times is not None:
        goal, bound = f"at most {times:g} times", least * times
    elif least is not None and above is not None:
        goal, bound = f"at most + {above:g} {unit}", least + above
    beside = {} if floor is None else {"floor_spread": spread(floor, unit)}
    return Row(work, value, unit, least, goal, bound, spread(samples, unit) | beside | facts)


def at_most(work: str, value: float, bound: float, unit: str, **facts: Any) -> Row:
    """A row whose goal is a number of its own."""
    return Row(work, value, unit, None, f"at most {bound:,g} {unit}", bound, facts)


def skipped(work: str, reason: str) -> Row:
    """A row that could not be measured."""
    return Row(work, 0.0, "", skipped=reason)


async def seconds(work: Work) -> float:
    """How long a piece of work takes."""
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def interleaved(
    count: int, *works: Work, between: Work | None = None, warm_ups: int = WARM_UPS
) -> list[list[float]]:
    """What each work takes, in turns: ``count`` rounds after the warm-ups.

    Whatever the machine does besides falls on all of them alike.

    Args:
        count: How many rounds.
        works: What is measured.
        between: Done after each, and not measured.
        warm_ups: Rounds that do not count.
    """
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(warm_ups + count):
        for samples, work in zip(taken, works, strict=True):
            took = await seconds(work)
            if between is not None:
                await between()
            if turn >= warm_ups:
                samples.append(took)
    return taken


class Heartbeat(LoopMeter):
    """A meter of the event loop that watches the memory, too.

    Attributes:
        peak: The most memory that the process came to have over what it had, in bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss

    def _look(self) -> None:
        super()._look()
        self.peak = max(self.peak, self._process.memory_info().rss - self._before)
