"""The panel in a browser: the work of the page for each piece of a growing answer."""

from __future__ import annotations

import asyncio
import json
import os
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from measure import Row, at_most, main, own_folders, server_command
from playwright.async_api import Browser, Page, async_playwright, expect
from serving import Server, serving

# The browser is the one of the tests.
from tests.browser.chromium import FLAGS, chromium
from tests.support.messages_api import Exchange
from tests.support.scripted_model import MODEL, Answer, ScriptedModel, Text

UPDATES = 200
PACE = 0.1
"""Seconds between two pieces of an answer."""
FRAME = 16
"""Milliseconds."""

MARK = "tk-piece"
ARRIVALS = """
mark => {
  const data = Object.getOwnPropertyDescriptor(MessageEvent.prototype, 'data').get;
  Object.defineProperty(MessageEvent.prototype, 'data', {
    configurable: true,
    get() {
      const value = data.call(this);
      if (typeof value === 'string' && /"(kind|type)": ?"text"/.test(value)) {
        performance.mark(mark);
      }
      return value;
    }
  });
}
"""
"""Marks each piece of text as it arrives over the page's WebSocket, before the panel has it."""


SHOW_PANEL = """
async () => {
  const app = window.jupyterapp;
  await app.started;
  await app.restored;
  await app.commands.execute('tk-ai:show-panel');
}
"""


async def measure(folder: Path, limited: Callable[[int], int]) -> AsyncGenerator[Row]:
    """Measure two answers in a page of JupyterLab, with a script for a model."""
    async with (
        ScriptedModel().running() as model,
        lab(folder, model.environment) as (server, browser),
    ):
        page = await opened(browser, server)
        count = limited(UPDATES)
        for name, text in (("with code and mathematics", varied()), ("in one block", code())):
            work = f"{count} updates of an answer of 5 kB {name}"
            found = await streamed(page, browser, model, text, count)
            yield at_most(
                f"{work}: most scripts", max(each.scripts for each in found) * 1_000, FRAME, "ms"
            )
            longest = max(each.longest for each in found) * 1_000
            yield at_most(f"{work}: longest task", longest, FRAME, "ms")


@asynccontextmanager
async def lab(folder: Path, model: Mapping[str, str]) -> AsyncGenerator[tuple[Server, Browser]]:
    """Start JupyterLab with the extension, and a browser."""
    root, home = folder / "root", folder / "lab"
    root.mkdir()
    environment = own_folders(home) | dict(model)
    quiet = home / "config" / "labconfig"
    quiet.mkdir()
    disabled = {"@jupyterlab/apputils-extension:announcements": True}
    (quiet / "page_config.json").write_text(json.dumps({"disabledExtensions": disabled}))
    command = server_command(
        root,
        "--ServerApp.jpserver_extensions=jupyterlab=True",
        "--ServerApp.jpserver_extensions=jupyter_server_ydoc=False",
        "--LabApp.expose_app_in_browser=True",
        f"--TkAIExtensionApp.data_dir={folder / 'data'}",
        f"--TkAIExtensionApp.chat_model={MODEL}",
    )
    async with (
        serving(command, home, environment, home / "server.log") as server,
        async_playwright() as playwright,
    ):
        found = chromium(Path(playwright.chromium.executable_path))
        browser = await playwright.chromium.launch(
            executable_path=found.path, args=FLAGS, env={**os.environ, **found.environment}
        )
        yield server, browser
        await browser.close()


async def opened(browser: Browser, server: Server) -> Page:
    """Open JupyterLab with the panel."""
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    await page.goto(f"{server.url}lab?token={server.token}&reset")
    await page.wait_for_function("() => window.jupyterapp !== undefined")
    await page.evaluate(SHOW_PANEL)
    await page.get_by_role("textbox", name="Message", exact=True).wait_for()
    return page


# -- an answer that grows --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paced:
    """An answer with events that come one by one, as a model writes them."""

    answer: Answer
    sent: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, to: Exchange) -> None:
        """Send it, with a pause after each event."""
        for event in self.answer.events(to.request):
            await to.event(event)
            await asyncio.sleep(PACE)
        self.sent.set()


async def streamed(
    page: Page, browser: Browser, model: ScriptedModel, text: str, count: int
) -> list[Update]:
    """Return what the page does for each piece of an answer, until the next one arrives."""
    answer = Paced(Answer((Text(text, -(-len(text) // count)),)))
    model.add(Answer.of(text[:500]), answer)
    await page.evaluate(
        "async () => void (await window.jupyterapp.commands.execute('tk-ai:new-chat'))"
    )
    box = page.get_by_role("textbox", name="Message", exact=True)
    done = page.locator('[aria-busy="false"].tk-Turn')
    # Then JupyterLab has loaded what it loads on first use (MathJax, syntax highlighting).
    await box.fill("Warm up.")
    await box.press("Enter")
    await expect(done).to_have_count(1)
    await page.evaluate(ARRIVALS, MARK)
    await box.fill("Write.")
    await browser.start_tracing(page=page, categories=CATEGORIES)
    await box.press("Enter")
    # Nothing is read from the page during the answer: that would be work for it.
    await answer.sent.wait()
    trace = await browser.stop_tracing()
    await expect(done).to_have_count(2)
    return updates(trace, MARK, PACE)


def varied() -> str:
    """An answer of 5 kB with 30 code blocks and mathematics."""
    parts = [
        f"Step {n}: for $x_{{{n}}}$ the *mean* is $\\bar x = \\frac{{1}}{{{n}}} \\sum_i x_i$.\n\n"
        f"```python\nmean_{n} = sum(values[:{n}]) / {n}\nprint(f'{{mean_{n}:.2f}}')\n```\n"
        for n in range(1, 31)
    ]
    return "\n".join(parts)


def code() -> str:
    """One block of code of 5 kB: all of it is the last block, which is rendered with each piece."""
    lines = [f"value_{n} = compute('column {n}', {n})  # step {n}" for n in range(1, 104)]
    return "\n".join(["```python", *lines, "```"])


# -- what the page's main thread did, from Chromium's trace -------------------------------------------

Json = Mapping[str, Any]

CATEGORIES = [
    "blink.user_timing",
    "devtools.timeline",
    "disabled-by-default-devtools.timeline",
    "v8",
]
"""The trace categories."""

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

    A task that contains a mark counts from the mark on.

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


if __name__ == "__main__":
    main(measure, __doc__)
