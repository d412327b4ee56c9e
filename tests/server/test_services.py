"""What the extension keeps for a server, when it is put together and when not."""

from __future__ import annotations

from typing import Any, cast

from tk_ai_extension.server.services import InterfaceSettings, Services

SETTINGS = InterfaceSettings(("default",), (), 1_000, frozenset(), 1.0, 1)


async def test_a_server_that_stops_before_anybody_called_puts_nothing_together() -> None:
    def wire(*_: Any) -> Any:
        raise AssertionError

    services = Services(cast("Any", None), wire, wire, SETTINGS)
    await services.close()
    await services.renamed("a.ipynb", "b.ipynb")


async def test_the_workspace_is_put_together_once(extension: Any) -> None:
    workspace = extension.services.workspace
    await extension.services.ready()
    assert extension.services.workspace is workspace
    assert extension.workspace is workspace
