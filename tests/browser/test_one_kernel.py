"""A person and an agent share one kernel, whatever happened to it or to the tab."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.async_api import Page

from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, write_notebook
from tests.browser.open_notebook import BOTH, another, call, close, opened, save
from tests.servers import StartServer

KERNEL = """
() => {
  const session = window.jupyterapp.shell.currentWidget?.context?.sessionContext.session;
  return session?.kernel?.connectionStatus === 'connected' ? session.kernel.id : null;
}
"""
PRINT = """
async code => {
  const { kernel } = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
  const request = kernel.requestExecute({ code });
  let text = '';
  request.onIOPub = message => { text += message.content.text ?? message.content.ename ?? ''; };
  await request.done;
  return text.trim();
}
"""
RENAME = """
name => {
  const { context } = window.jupyterapp.shell.currentWidget;
  return context.rename(name).then(() => context.path);
}
"""
RESTART = """
() => window.jupyterapp.shell.currentWidget.context.sessionContext.session?.kernel?.restart()
"""


async def sessions(lab: Lab) -> list[tuple[str, str]]:
    """The path and the kernel of each session, as every client sees them."""
    async with httpx2.AsyncClient(headers=lab.server.headers) as http:
        found: Any = (await http.get(f"{lab.server.url}api/sessions")).json()
    return [(each["path"].removeprefix("RTC:"), each["kernel"]["id"]) for each in found]


async def share(lab: Lab, pages: list[Page], path: str, number: int) -> None:
    """An agent sets a variable, and each page prints it in the kernel that its tab shows."""
    ran = await call(lab, "execute_cell", notebook=path, cell=0)
    assert ran["status"] == "ok", ran
    await call(lab, "execute_ipython", notebook=path, code=f"shared = {number}")
    [(name, kernel_id)] = await sessions(lab)
    assert name == path
    for page in pages:
        await page.wait_for_function(f"() => ({KERNEL})() === '{kernel_id}'")
        assert await page.evaluate(PRINT, "print(shared)") == str(number)


@BOTH
@pytest.mark.proves("kernel:shared-live", "kernel:session")
async def test_whatever_happens_tabs_and_agents_share_one_kernel(
    open_lab: OpenLab, start_server: StartServer, collaboration: bool
) -> None:
    # Without collaboration the server is killed at the end.
    lab = await open_lab(collaboration=collaboration, own=not collaboration)
    path = "k.ipynb"
    write_notebook(lab.server.root / path, "x0 = 0")
    page = await opened(lab, path)
    await lab.command("kernelmenu:shutdown")
    await share(lab, [page], path, 1)
    await page.evaluate(RESTART)
    await share(lab, [page], path, 2)
    await save(lab)
    await close(page)
    await asyncio.gather(
        lab.command("docmanager:open", path=path),
        call(lab, "execute_cell", notebook=path, cell=0),
    )
    await share(lab, [page], path, 3)
    if collaboration:
        second = await another(lab, path)
        await share(lab, [page, second], path, 4)
        await second.context.close()
    path = str(await page.evaluate(RENAME, "renamed.ipynb")).removeprefix("RTC:")
    await share(lab, [page], path, 5)
    if not collaboration:
        port = urlsplit(lab.server.url).port
        await lab.server.stop(signal.SIGKILL)
        again = await start_server(beside=lab.server, port=port)
        await share(replace(lab, server=again), [page], path, 6)
