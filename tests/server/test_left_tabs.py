"""Questions to a renamed notebook that leaves its page before the page uses the new name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tk_ai_extension.notebooks.tabs.protocol import TabGone
from tk_ai_extension.server import tabs
from tk_ai_extension.server.tabs import Page, Tabs


class Connection:
    """A page that receives questions and does not answer."""

    async def send(self, text: str) -> None:
        raise AssertionError(text)

    def drop(self) -> None:
        """Nothing is connected."""


def leave(made: Tabs, page: Page, connection: Any, way: str) -> None:
    match way:
        case "closed":
            made.handle(page, {"tabs": []})
        case "left":
            made.disconnect(page, connection, left=True)
        case "lost":
            made.disconnect(page, connection, left=False)
            made._on_grace_over(("ada", "page"))
        case _:
            made.disconnect(page, connection, left=False)
            made._grace.pop(("ada", "page")).cancel()
            made.discard("ada", "b.ipynb")


@pytest.mark.proves("fault:tab-lost")
@pytest.mark.parametrize("way", ["closed", "left", "lost", "discarded"])
@pytest.mark.parametrize("method", ["save", "refresh"])
async def test_a_question_to_a_notebook_that_left_its_page_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, way: str, method: str
) -> None:
    monkeypatch.setattr(tabs, "GRACE", 3600.0)
    made = Tabs()
    connection: Any = Connection()
    page = made.connect("ada", "page", connection)
    made.handle(page, {"tabs": [{"id": "x", "path": "a.ipynb"}]})
    (tab,) = made.present("a.ipynb")
    made.renamed("a.ipynb", "b.ipynb")
    asking: asyncio.Task[Any] = asyncio.create_task(tab.ask(method))
    await asyncio.sleep(0)
    assert not asking.done()
    leave(made, page, connection, way)
    assert not made._renames
    async with asyncio.timeout(10):
        with pytest.raises(TabGone):
            await asking
    made.close()
