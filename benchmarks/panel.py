"""The panel in JupyterLab in a browser: streaming, a chat of 500 messages, its size, JupyterLab's load."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from family import Options, main
from lab_page import LabPage, lab_page
from measure import Row, Samples, at_most, spread, timed
from playwright.async_api import expect
from tracing import CATEGORIES, Update, updates

from tests.support.messages_api import Exchange
from tests.support.scripted_model import MODEL, Answer, ScriptedModel, Text
from tk_ai_extension.agent.events import (
    Began,
    Done,
    Event,
    EventPayload,
    Sent,
    TextDelta,
    ToolAnswered,
    ToolCalled,
    Used,
)
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.model.callers import owner
from tk_ai_extension.workspace.state_folder import state_folder

UPDATES = 200
PACE = 0.1
"""Seconds between two pieces of an answer."""
FRAME = 16
"""Milliseconds."""
MESSAGES = 500
OPENINGS = 5
LOADS = 10

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

OPENED = """
last => new Promise(resolve => {
  const entry = document.querySelector('.tk-Entry-open');
  const look = () => {
    const log = document.querySelector('.tk-Log');
    const seen = log?.querySelector('.tk-Turn:last-of-type .tk-Answer strong');
    if (seen?.textContent !== last || seen.getBoundingClientRect().bottom > innerHeight) {
      requestAnimationFrame(look);
    } else {
      // What is to be painted in this frame has been, when the next one begins.
      requestAnimationFrame(() => resolve((performance.now() - began) / 1000));
    }
  };
  const began = performance.now();
  entry.click();
  look();
})
"""
"""Clicks on the first chat of the list; seconds until its last message is on the screen."""


async def measure(options: Options) -> AsyncGenerator[Row]:
    """All in one page, with the same server; a script for a model."""
    data = options.new_folder("data")
    await write_chat(state_folder(data, options.folder / "root"), MESSAGES)
    async with (
        ScriptedModel().running() as model,
        lab_page(options, data, model.environment) as lab,
    ):
        count = options.count(UPDATES)
        for name, text in (
            ("with 30 code blocks and mathematics", varied()),
            ("in one block", code()),
        ):
            work = f"{count} updates of an answer of 5 kB {name}"
            for row in during(work, await streamed(lab, model, text, count)):
                yield row
        taken = [await opened(lab) for _ in range(options.count(OPENINGS))]
        yield within(f"a chat of {MESSAGES} messages opens", taken, 1)
        with_it, without = await loaded(lab, options.count(LOADS))
        work = "JupyterLab loads in a new browser profile, beside without the extension"
        yield timed(work, with_it, without, unit="s")


# -- an answer that grows --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paced:
    """An answer whose events come one by one, as a model writes them."""

    answer: Answer
    sent: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, to: Exchange) -> None:
        """Sends it, with a pause after each event."""
        for event in self.answer.events(to.request):
            await to.event(event)
            await asyncio.sleep(PACE)
        self.sent.set()


async def streamed(lab: LabPage, model: ScriptedModel, text: str, count: int) -> list[Update]:
    """What the page does for each piece of an answer, from its arrival to the next one's.

    All of it counts: the event, the state, React, the renderers, style, layout, paint.
    """
    answer = Paced(Answer((Text(text, -(-len(text) // count)),)))
    model.add(Answer.of(text[:500]), answer)
    await lab.load()
    # The chat of before is there again.
    await lab.page.evaluate("() => window.jupyterapp.commands.execute('tk-ai:new-chat')")
    box = lab.page.get_by_role("textbox", name="Message", exact=True)
    done = lab.page.get_by_role("button", name="Copy the answer")
    # What JupyterLab loads when it is first needed (MathJax, how code is coloured) is there then.
    await box.fill("Warm up.")
    await box.press("Enter")
    await expect(done).to_have_count(1)
    await lab.page.evaluate(ARRIVALS, MARK)
    await box.fill("Write.")
    await lab.browser.start_tracing(page=lab.page, categories=CATEGORIES)
    await box.press("Enter")
    # Nobody looks while it comes: that would be work for the page, too.
    await answer.sent.wait()
    trace = await lab.browser.stop_tracing()
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


def during(work: str, found: list[Update]) -> Iterator[Row]:
    """The most that the page computed for an update, and the longest that it was held, beside a frame.

    Clocks of the thread, not of the wall: what else the machine does is no work of the page's.
    """
    parts = {
        "most that React and the renderers computed for one": [each.scripts for each in found],
        "the longest task, with style, layout, paint": [each.longest for each in found],
    }
    all_of_it = {
        "all its tasks": spread([each.computed for each in found], "ms"),
        "took": spread([each.took for each in found], "ms"),
    }
    for what, samples in parts.items():
        median = round(statistics.median(samples) * 1000, 3)
        facts = {**spread(samples, "ms"), "median": median, **all_of_it}
        yield at_most(f"{work}: {what}", max(samples) * 1000, FRAME, "ms", **facts)


# -- a long chat -----------------------------------------------------------------------------------


async def write_chat(state: Path, messages: int) -> None:
    """Writes a chat as a server keeps it: each message with a call, its result and an answer."""
    transcripts = Transcripts(state / "chats.sqlite")
    chat = await transcripts.create(owner(), "long", "A long chat", "sales.ipynb")
    events: list[Event] = []
    for turn in range(messages):
        for what in turn_of(chat.id, turn + 1):
            events.append(Event.of(len(events) + 1, f"turn-{turn}", 1.7e9 + turn, what))
    await transcripts.add(chat.id, events)
    await transcripts.close()


def turn_of(chat: str, number: int) -> list[EventPayload]:
    """All that happens because of one message."""
    answer = (
        f"Month {number} has {number} rows, and $\\bar x = {number}$:\n\n"
        f"```python\nrows = sales[sales.month == {number}]\nrows.describe()\n```\n\n"
        f"- the least is *{number}*\n- the most is `{number * 2}`\n\nThat is **all of {number}**."
    )
    found = {"columns": ["month", "rows"], "rows": [[n, number] for n in range(10)]}
    return [
        Sent(chat, f"What about month {number}?", "sales.ipynb", "ask", MODEL),
        Began(),
        ToolCalled("c1", "read_cell", {"notebook": "sales.ipynb", "cell": "a1"}),
        ToolAnswered("c1", "read_cell", ok=True, text=f"rows = {number}\n" * 20, structured=found),
        TextDelta(0, 0, answer),
        Used(900, 300, 0, 0, 0.01, 0.01 * number, 2.5, 2),
        Done("done", answer),
    ]


async def opened(lab: LabPage) -> float:
    """Opens the chat from the history of a page that has just been loaded; seconds."""
    await lab.load()
    await lab.page.get_by_role("button", name="History", exact=True).click()
    await lab.page.get_by_role("searchbox", name="Search chats").fill("long")
    await expect(lab.page.locator(".tk-Entry-open")).to_have_count(1)
    return await lab.page.evaluate(OPENED, f"all of {MESSAGES}")


# -- JupyterLab's own load -------------------------------------------------------------------------

RESTORED = """
async () => {
  await window.jupyterapp.restored;
  return performance.now() / 1000;
}
"""
"""Seconds from the navigation until JupyterLab has restored its layout."""


async def loaded(lab: LabPage, count: int) -> list[list[float]]:
    """Seconds that JupyterLab takes to load with the extension and without it, in turns."""
    settings = lab.folder / "config" / "labconfig" / "page_config.json"
    disabled = json.loads(settings.read_text(encoding="utf-8"))["disabledExtensions"]
    taken: list[list[float]] = [[], []]
    for turn in range(1 + count):
        for samples, is_disabled in zip(taken, (False, True), strict=True):
            config = {"disabledExtensions": disabled | {"tk-ai-extension": is_disabled}}
            settings.write_text(json.dumps(config), encoding="utf-8")
            context = await lab.browser.new_context()
            page = await context.new_page()
            await page.goto(f"{lab.server.url}lab?token={lab.server.token}&reset")
            await page.wait_for_function("() => window.jupyterapp !== undefined")
            seconds = await page.evaluate(RESTORED)
            has_panel = "() => window.jupyterapp.commands.hasCommand('tk-ai:show-panel')"
            assert await page.evaluate(has_panel) is not is_disabled
            if turn:
                samples.append(seconds)
            await context.close()
    return taken


def within(work: str, samples: Samples, seconds: float) -> Row:
    """A row whose longest sample has to be below so many seconds."""
    return at_most(f"{work}: the longest", max(samples), seconds, "s", **spread(samples, "s"))


if __name__ == "__main__":
    main(measure, __doc__)
