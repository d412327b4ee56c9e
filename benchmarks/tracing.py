"""What a page's main thread did, from Chromium's own trace: scripts, and with them style, layout, paint.

An update is more than one frame: what is rendered, and then what was scrolled or typeset because of that.
A person's key waits for the task that goes on, not for all of them.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Json = Mapping[str, Any]

CATEGORIES = [
    "blink.user_timing",
    "devtools.timeline",
    "disabled-by-default-devtools.timeline",
    "v8",
]
"""What has to be traced."""

TASK = frozenset({"RunTask"})
SCRIPT = frozenset(
    {
        *("EventDispatch", "FireAnimationFrame", "RunMicrotasks", "TimerFire"),
        *("v8.callFunction", "v8.run"),
    }
)
"""What scripts run in, one within another."""


@dataclass(frozen=True, slots=True)
class Update:
    """What happened on the main thread from one mark of the page to the next, in seconds.

    Attributes:
        scripts: What scripts computed, with the layouts that they asked for.
        longest: The longest task: a script's, or a frame's style, layout and paint.
        computed: What the thread computed in all its tasks.
        took: How long its tasks took: more than that, where the machine was busy with something else.
    """

    scripts: float
    longest: float
    computed: float
    took: float


def updates(trace: bytes, mark: str, last: float) -> list[Update]:
    """The main thread's work after each mark, until the next one.

    What a mark was made in counts from the mark on.

    Args:
        trace: As Chromium writes it.
        mark: The name that was given to ``performance.mark``.
        last: Seconds for which the last mark counts.
    """
    events: list[Json] = json.loads(trace)["traceEvents"]
    marks = [each for each in events if each["name"] == mark and "blink" in each["cat"]]
    thread = _thread(marks[0])
    timed = [
        each for each in events if "tts" in each and "tdur" in each and _thread(each) == thread
    ]
    tasks, scripts = ([each for each in timed if each["name"] in names] for names in (TASK, SCRIPT))
    computed, took = _spans(tasks, "tts", "tdur"), _spans(tasks, "ts", "dur")
    scripted = _spans(scripts, "tts", "tdur")
    return [
        Update(
            sum(_within(scripted, since["tts"], until["tts"])),
            max(_within(computed, since["tts"], until["tts"]), default=0.0),
            sum(_within(computed, since["tts"], until["tts"])),
            sum(_within(took, since["ts"], until["ts"])),
        )
        for since, until in pairwise(
            [*sorted(marks, key=lambda each: each["ts"]), _later(marks, last * 1e6)]
        )
    ]


def _thread(event: Json) -> tuple[int, int]:
    return event["pid"], event["tid"]


def _later(marks: Sequence[Json], microseconds: float) -> Json:
    return {key: max(each[key] for each in marks) + microseconds for key in ("ts", "tts")}


def _spans(events: Sequence[Json], begin: str, length: str) -> list[tuple[float, float]]:
    """Begin and end of each that is not within another, in microseconds."""
    found: list[tuple[float, float]] = []
    for since, until in sorted((each[begin], each[begin] + each[length]) for each in events):
        if found and since < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return found


def _within(spans: Sequence[tuple[float, float]], since: float, until: float) -> list[float]:
    """Seconds of each of the spans that lie in a time; all else is in microseconds."""
    found: list[float] = []
    for begin, end in spans[max(bisect_left(spans, (since, since)) - 1, 0) :]:
        if begin >= until:
            break
        if end > since:
            found.append((min(end, until) - max(begin, since)) / 1e6)
    return found
