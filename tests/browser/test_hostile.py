"""Whatever a model, a notebook or a file is called or says: nothing of it runs, nothing leaves the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Dialog, Page, Request, expect

from tests.browser.lab import Lab, write_notebook
from tk_ai_extension.testing.scripted_model import Answer, ScriptedModel, ToolUse

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
    f"<link rel=stylesheet href='{AWAY}/link.css'><base href='{AWAY}/'>",
    f"<meta http-equiv=refresh content='0; url={AWAY}/meta'>",
    f"<form action='{AWAY}/form'><button autofocus onfocus='window.pwned = 1'>go</button></form>",
    "<details open ontoggle='window.pwned = 1'>open</details>",
    f"<video src='{AWAY}/video' poster='{AWAY}/poster'></video><audio src='{AWAY}/audio' autoplay>",
    "<math><mtext></p><style><!--</style><img src=x onerror='window.pwned = 1'>",
    "$\\href{javascript:window.pwned=1}{x}$",
    "```html\n<img src=x onerror='window.pwned = 1'>\n```",
)
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

    def dialog(self, dialog: Dialog) -> None:
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
async def test_nothing_that_a_model_says_runs_or_fetches_anything(
    lab: Lab, model: ScriptedModel, watch: Watch
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    model.add(*(Answer.of(f"{text}\n\nPiece {place}.") for place, text in enumerate(CORPUS)))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    for place in range(len(CORPUS)):
        await lab.say(f"<b onclick='window.pwned = 1'>Say</b> {CORPUS[place]}")
        await expect(lab.log.get_by_text(f"Piece {place}.", exact=False).first).to_be_visible()
    for link in await lab.log.locator("a").all():
        assert not (await link.get_attribute("href") or "").startswith("javascript:")
    loading = lab.log.locator("script, iframe, object, embed, form, style, link")
    assert [await each.evaluate("node => node.outerHTML") for each in await loading.all()] == []
    await watch.nothing()


@pytest.mark.proves("threat:html")
async def test_nor_what_a_file_is_called_and_what_tools_and_outputs_say_in_the_panel(
    lab: Lab, model: ScriptedModel, watch: Watch
) -> None:
    """The notebook is not open: what JupyterLab shows of one is for JupyterLab to say."""
    whole = "\n\n".join(CORPUS)
    write_notebook(lab.server.root / "sales.ipynb", "1")
    write_notebook(lab.server.root / NAME, whole)
    shown = f"from IPython.display import HTML, display\ndisplay(HTML({whole!r}))\nprint({whole!r})"
    hostile = {"notebook": NAME, "index": 0}
    model.add(
        Answer.of(
            ToolUse("read_notebook", {"notebook": NAME}),
            ToolUse("insert_cell", {**hostile, "source": whole}),
            ToolUse("insert_and_execute_cell", {**hostile, "source": shown}),
            ToolUse(
                "insert_and_execute_cell", {**hostile, "source": f"raise ValueError({whole!r})"}
            ),
        ),
        Answer.of("All is read."),
    )
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.say("Read it.")
    await expect(lab.log.get_by_text("All is read.")).to_be_visible()
    for summary in await lab.panel.locator("summary").all():
        if await summary.is_visible():
            await summary.click()
    await watch.nothing()
