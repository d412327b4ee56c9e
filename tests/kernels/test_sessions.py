"""A notebook's kernel is the one that people see at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.kernels.conftest import Server
from tk_ai_extension.kernels.sessions import JupyterSessions

pytestmark = pytest.mark.asyncio(loop_scope="module")

Start = Callable[[], Awaitable[str]]


@pytest.fixture(scope="module")
def backend() -> str:
    return "direct"


@pytest.fixture
def manager(server: Server) -> Iterator[Any]:
    yield server.app.session_manager
    server.app.session_manager.cursor.execute("DELETE FROM session")  # their kernels stay


@pytest.fixture
def sessions(manager: Any) -> JupyterSessions:
    return JupyterSessions(manager)


@pytest.mark.proves("kernel:session", "ext:session-visible")
async def test_a_bound_notebook_is_shown_connected(
    sessions: JupyterSessions, manager: Any, kernel_id: str
) -> None:
    assert await sessions.kernel_of("folder/new.ipynb") is None
    await sessions.bind("folder/new.ipynb", kernel_id)
    await sessions.bind("folder/new.ipynb", kernel_id)
    assert await sessions.kernel_of("folder/new.ipynb") == kernel_id
    assert await sessions.paths_of(kernel_id) == ["folder/new.ipynb"]
    (session,) = await manager.list_sessions()
    assert (session["name"], session["type"]) == ("new.ipynb", "notebook")


@pytest.mark.proves("kernel:session")
async def test_a_persons_session_is_found_and_kept(
    sessions: JupyterSessions, server: Server, manager: Any, kernel_id: str
) -> None:
    body = {"path": "theirs.ipynb", "name": "", "type": "notebook", "kernel": {"id": kernel_id}}
    await server.request("POST", "api/sessions", body)
    assert await sessions.kernel_of("theirs.ipynb") == kernel_id
    await sessions.bind("theirs.ipynb", kernel_id)
    assert len(await manager.list_sessions()) == 1


async def test_a_session_of_a_live_document_is_its_notebooks(
    sessions: JupyterSessions, manager: Any, kernel_id: str
) -> None:
    await manager.create_session(
        path="RTC:live.ipynb", name="live.ipynb", type="notebook", kernel_id=kernel_id
    )
    assert await sessions.kernel_of("live.ipynb") == kernel_id
    assert await sessions.paths_of(kernel_id) == ["live.ipynb"]


async def test_a_console_beside_the_notebook_is_another_thing(
    sessions: JupyterSessions, manager: Any, kernel_id: str
) -> None:
    await manager.create_session(
        path="n.ipynb", name="n.ipynb", type="console", kernel_id=kernel_id
    )
    assert await sessions.kernel_of("n.ipynb") is None


@pytest.mark.proves("kernel:session")
async def test_a_notebook_changes_its_kernel(
    sessions: JupyterSessions, server: Server, kernel_id: str, harmed: Start
) -> None:
    other = await harmed()
    await sessions.bind("n.ipynb", kernel_id)
    assert await sessions.bind("n.ipynb", other, replace=True) == other
    assert await sessions.kernel_of("n.ipynb") == other
    assert await sessions.paths_of(kernel_id) == []


@pytest.mark.proves("kernel:session", "kernel:shared-live")
async def test_a_kernel_that_somebody_bound_is_kept_and_returned(
    sessions: JupyterSessions, manager: Any, kernel_id: str, harmed: Start
) -> None:
    other = await harmed()
    await sessions.bind("n.ipynb", kernel_id)
    assert await sessions.bind("n.ipynb", other) == kernel_id
    assert await sessions.kernel_of("n.ipynb") == kernel_id


@pytest.mark.proves("kernel:session", "kernel:shared-live")
async def test_a_page_that_wants_a_kernel_while_one_starts_joins_it(
    sessions: JupyterSessions, server: Server, manager: Any, kernel_id: str
) -> None:
    body = {"path": "n.ipynb", "name": "", "type": "notebook", "kernel": {"name": "none such"}}
    async with sessions.lock("n.ipynb"):
        requested = asyncio.create_task(server.request("POST", "api/sessions", body))
        done, _ = await asyncio.wait([requested], timeout=0.2)
        assert not done
        await sessions.bind("n.ipynb", kernel_id)
    await requested
    assert await sessions.paths_of(kernel_id) == ["n.ipynb"]
    assert len(await manager.list_sessions()) == 1


async def test_a_session_whose_kernel_is_gone_is_none(
    sessions: JupyterSessions, server: Server, harmed: Start
) -> None:
    kernel_id = await harmed()
    await sessions.bind("gone.ipynb", kernel_id)
    await server.request("DELETE", f"api/kernels/{kernel_id}")
    assert await sessions.kernel_of("gone.ipynb") is None


@pytest.mark.proves("kernel:shared-live")
async def test_a_rename_is_followed(
    sessions: JupyterSessions, server: Server, manager: Any, kernel_id: str
) -> None:
    await sessions.bind("old.ipynb", kernel_id)
    (session,) = await manager.list_sessions()
    await server.request("PATCH", f"api/sessions/{session['id']}", {"path": "new.ipynb"})
    assert await sessions.paths_of(kernel_id) == ["new.ipynb"]
