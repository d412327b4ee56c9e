"""The panel in JupyterLab."""

from __future__ import annotations

from tests.browser.conftest import OpenLab


async def test_panel_is_a_tab_of_the_right_sidebar(open_lab: OpenLab) -> None:
    lab = await open_lab()
    await lab.open()
    tab = lab.page.locator(".jp-SideBar.jp-mod-right").get_by_role("tab", name="Claude")
    await tab.wait_for()
