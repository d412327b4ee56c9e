"""Hostile text from a model, a notebook or a file name: nothing runs, nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import pytest
from playwright.async_api import Dialog, Page, Request, expect

from tests.browser.agents import NOTEBOOK, Agent, Open, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, write_notebook
from tests.browser.open_notebook import close, save, shown
from tests.support.scripted_model import Answer, ScriptedModel, ToolUse

AWAY = "http://elsewhere.invalid"
CORPUS = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    f"<img src='{AWAY}/html.png'>",
    f"![remote]({AWAY}/markdown.png)",
    f"![by reference][away]\n\n[away]: {AWAY}/reference.png",
    "<svg onload='window.pwned = 1'><script>window.pwned = 1</script></svg>",
    f"<svg><image href='{AWAY}/svg.png' xlink:href='{AWAY}/xlink.png'/></svg>",
    "<a href='javascript:window.pwned = 1' class='hostile'>press</a>",
    "[press](javascript:window.pwned=1)",
    "<iframe srcdoc='<script>parent.pwned = 1</script>'></iframe>",
    f"<iframe src='{AWAY}/frame'></iframe>",
    f"<object data='{AWAY}/object'></object><embed src='{AWAY}/embed'>",
    f"<style>@import url({AWAY}/style.css); body {{ background: url({AWAY}/css.png) }}</style>",
    f"<div style='background: url({AWAY}/inline.png)'>styled</div>",
    f"<div style='font-family:\"url(\";background-image:url({AWAY}/hidden.png)'>styled</div>",
    f"<link rel=stylesheet href='{AWAY}/link.css'><base href='{AWAY}/'>",
    f"<meta http-equiv=refresh content='0; url={AWAY}/meta'>",
    f"<form action='{AWAY}/form'><button autofocus onfocus='window.pwned = 1'>go</button></form>",
    "<details open ontoggle='window.pwned = 1'>open</details>",
    f"<video src='{AWAY}/video' poster='{AWAY}/poster'></video><audio src='{AWAY}/audio' autoplay>",
    "<math><mtext></p><style><!--</style><img src=x onerror='window.pwned = 1'>",
    "$\\href{javascript:window.pwned=1}{x}$",
    "```html\n<img src=x onerror='window.pwned = 1'>\n```",
    "<button data-commandlinker-command='notebook:run-all-cells'>press</button>",
    f"# Heading ![]({AWAY}/heading.png)",
    f"<input type=image src='{AWAY}/input.png'>",
    f"<ul style='list-style-image: url({AWAY}/list.png); cursor: url({AWAY}/cursor.png), auto'></ul>",
    f"$\\style{{background-image: url({AWAY}/tex.png)}}{{x}}$",
    f"$\\style{{cursor: url({AWAY}/tex-cursor.png), auto}}{{x}}$",
    f"$\\unicode[x; background-image: url({AWAY}/tex-font.png)]{{65}}$",
    f"$\\mmlToken{{mglyph}}[src='{AWAY}/tex-glyph.png']{{}}$",
    f"$\\class{{jp-Dialog}}{{\\cssId{{main}}{{\\href{{{AWAY}/tex-link}}{{x}}}}}}$",
    f"- Diagram\n\n  ```mermaid\n  graph LR\n  A[\"<img src='{AWAY}/diagram.png'>\"]-->B\n  ```",
)
SHOWING = """
from IPython.display import HTML, Latex, Markdown, display
for text in {texts!r}:
    for kind in (HTML, Markdown, Latex):
        display(kind(text))
    for mime in ("image/svg+xml", "application/javascript", "text/vnd.mermaid"):
        display({{mime: text}}, raw=True)
print("All is shown.")
"""
SCRIPT = """
from IPython.display import HTML
HTML("<script>window.{name} = 1</script>" + "by " + "{name}")
"""
CALL = ToolUse("list_cells")
SUMMARIES = "summary:not([data-tool=list_cells] *)"
COMMANDS = "[data-commandlinker-command]"
NAME = "<img src=x onerror=window.pwned=1>.ipynb"


@dataclass
class Watch:
    """What happened in a page that should not have."""

    page: Page
    home: str
    found: list[str] = field(default_factory=list[str])

    def request(self, request: Request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:", "ws")):
            self.found.append(request.url)

    async def dialog(self, dialog: Dialog) -> None:
        if dialog.type == "beforeunload":  # The browser's own.
            await dialog.accept()
        else:
            self.found.append(f"dialog: {dialog.message}")

    async def nothing(self) -> None:
        """Asserts that nothing did, a frame after everything that was waited for."""
        await self.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert await self.page.evaluate("() => window.pwned") is None
        assert self.found == []


@pytest.fixture
def watch(lab: Lab) -> Iterator[Watch]:
    watch = Watch(lab.page, lab.server.url)
    lab.page.on("request", watch.request)
    lab.page.on("dialog", watch.dialog)
    yield watch
    lab.page.remove_listener("request", watch.request)
    lab.page.remove_listener("dialog", watch.dialog)


@pytest.mark.proves("threat:html")
async def test_nothing_in_messages_file_names_calls_and_outputs_runs_or_fetches_anything(
    lab: Lab, model: ScriptedModel, watch: Watch
) -> None:
    """The notebook is not open: what JupyterLab shows of one is for JupyterLab to say."""
    whole = "\n\n".join(CORPUS)
    write_notebook(lab.server.root / "sales.ipynb", "1")
    write_notebook(lab.server.root / NAME, whole)
    shown = f"from IPython.display import HTML, display\ndisplay(HTML({whole!r}))\nprint({whole!r})"
    hostile = {"notebook": NAME, "index": 0}
    pieces = [(f"{text}\n\nPiece {place}.", CALL) for place, text in enumerate(CORPUS)]
    # A call is between any two pieces, so that none is inside markup that another one opens.
    model.add(Answer.of(*chain.from_iterable(pieces)))
    model.add(
        Answer.of(
            ToolUse("read_notebook", {"notebook": NAME}),
            ToolUse("insert_cell", {**hostile, "source": whole}),
            ToolUse("insert_and_execute_cell", {**hostile, "source": shown}),
            ToolUse(
                "insert_and_execute_cell", {**hostile, "source": f"raise ValueError({whole!r})"}
            ),
        ),
        Answer.of("All is said."),
    )
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.say("\n\n".join(["<b onclick='window.pwned = 1'>Say</b>", *CORPUS]))
    await expect(lab.log.get_by_text("All is said.")).to_be_visible()
    for place in range(len(CORPUS)):
        await expect(lab.log.get_by_text(f"Piece {place}.", exact=False).first).to_be_visible()
    for link in await lab.log.locator("a").all():
        assert not (await link.get_attribute("href") or "").startswith("javascript:")
    loading = lab.log.locator(f"script, iframe, object, embed, form, style, link, {COMMANDS}")
    assert [await each.evaluate("node => node.outerHTML") for each in await loading.all()] == []
    await watch.nothing()
    for summary in await lab.panel.locator(SUMMARIES).all():
        if await summary.is_visible():
            await summary.click()
    await watch.nothing()


@pytest.mark.proves("threat:html")
async def test_nothing_runs_that_an_agent_writes_into_the_notebook_that_is_open_and_shows_there(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    write_cells(lab.server.root, first000=SCRIPT.format(name="mine"), shows000="2")
    seen, agent, page = Open(lab), Agent(lab), lab.page
    await lab.open(NOTEBOOK)
    await seen.run(0)
    output = seen.cells.filter(has_text="<script>").locator(".jp-OutputArea-output")
    await expect(output).to_contain_text("by mine")
    # JupyterLab trusts a cell that the person has run.
    await page.wait_for_function("() => window.mine === 1")

    # An agent's run in a trusted cell is not trusted.
    await agent.changes("first000", SCRIPT.format(name="pwned"))
    await agent("execute_cell", cell="first000")
    await expect(output).to_contain_text("by pwned")
    await opens_again(lab)
    await expect(output).to_contain_text("by pwned")
    assert await page.evaluate("() => window.pwned") is None

    # Nor is what it writes and shows in other cells.
    for text in CORPUS:
        await agent("insert_cell", source=text, index=0, cell_type="markdown")
    whole = "\n\n".join(CORPUS)
    await agent.changes("shows000", SHOWING.format(texts=[whole, *CORPUS]))
    await agent("execute_cell", cell="shows000")
    await expect(seen.cells.last).to_contain_text("All is shown.")
    assert await page.evaluate("() => window.pwned") is None
    await opens_again(lab)
    await expect(seen.cells.last).to_contain_text("All is shown.")
    assert await page.evaluate("() => window.pwned") is None


async def opens_again(lab: Lab) -> None:
    """A person saves the notebook, closes it, and opens it again."""
    await save(lab)
    await close(lab.page)
    await lab.command("docmanager:open", path=NOTEBOOK)
    await shown(lab.page, NOTEBOOK)
