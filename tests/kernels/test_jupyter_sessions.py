"""A notebook's kernel is the one that people see at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.kernels.conftest import Server
from tk_ai_extension.kernels.jupyter_sessions import JupyterSessions
from tk_ai_extension.notebooks.notebook import Notebooks

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
def notebooks() -> Notebooks:
    return Notebooks()


@pytest.fixture
def sessions(manager: Any, notebooks: Notebooks) -> Iterator[JupyterSessions]:
    replaced = manager.create_session, manager.update_session
    yield JupyterSessions(manager, lambda path: notebooks.at(path).starting)
    manager.create_session, manager.update_session = replaced


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
async def test_a_notebook_changes_its_kernel(
    sessions: JupyterSessions, server: Server, kernel_id: str, harmed: Start
) -> None:
    other = await harmed()
    await sessions.bind("n.ipynb", kernel_id)
    assert await sessions.bind("n.ipynb", other, replace=True) == other
    assert await sessions.kernel_of("n.ipynb") == other
    assert await sessions.paths_of(kernel_id) == []


async def open_in_lab(
    server: Server, folder: str, name: str, kernel: dict[str, str] | None = None
) -> dict[str, Any]:
    """Open a notebook as JupyterLab does: it sets the path when it has the session."""
    asked = {"path": f"{folder}{uuid4()}", "name": name, "type": "notebook", "kernel": kernel or {}}
    session = await server.request("POST", "api/sessions", asked)
    path = {"path": f"{folder}{name}"}
    return await server.request("PATCH", f"api/sessions/{session['id']}", path)


@pytest.mark.proves("kernel:session", "kernel:shared-live")
async def test_a_page_joins_the_kernel_that_an_agent_has_or_starts(
    sessions: JupyterSessions, notebooks: Notebooks, server: Server, manager: Any, kernel_id: str
) -> None:
    async with notebooks.at("x/n.ipynb").starting:
        opening = asyncio.create_task(open_in_lab(server, "x/", "n.ipynb", {"name": "none such"}))
        done, _ = await asyncio.wait([opening], timeout=0.2)
        assert not done
        await sessions.bind("x/n.ipynb", kernel_id)
    opened = [await opening, await open_in_lab(server, "x/", "n.ipynb")]
    assert [each["kernel"]["id"] for each in opened] == [kernel_id] * 2
    (session,) = await manager.list_sessions()
    assert (session["path"], session["name"]) == ("x/n.ipynb", "n.ipynb")
    # A notebook of this name in another folder is another one.
    other = await open_in_lab(server, "", "n.ipynb", {"id": kernel_id})
    assert other["id"] != session["id"]
    assert await sessions.paths_of(kernel_id) == ["x/n.ipynb", "n.ipynb"]


@pytest.mark.proves("kernel:session", "kernel:shared-live")
async def test_a_session_that_gets_the_path_of_another_replaces_it(
    sessions: JupyterSessions, server: Server, manager: Any, kernel_id: str, harmed: Start
) -> None:
    former = await harmed()
    await sessions.bind("target.ipynb", former)
    await sessions.bind("n.ipynb", kernel_id)
    [_, session] = await manager.list_sessions()
    await server.request("PATCH", f"api/sessions/{session['id']}", {"path": "target.ipynb"})
    assert await sessions.kernel_of("target.ipynb") == kernel_id
    assert await sessions.paths_of(former) == []
    assert former in [each["kernel"]["id"] for each in await manager.list_sessions()]


@pytest.mark.proves("kernel:shared-live")
async def test_a_session_follows_its_notebook_and_leaves_the_path_of_a_deleted_one(
    sessions: JupyterSessions, manager: Any, kernel_id: str
) -> None:
    await manager.create_session(
        path="RTC:old.ipynb", name="old.ipynb", type="notebook", kernel_id=kernel_id
    )
    await sessions.move("old.ipynb", "x/new.ipynb")
    (session,) = await manager.list_sessions()
    assert (session["path"], session["name"]) == ("RTC:x/new.ipynb", "new.ipynb")
    await sessions.detach("x/new.ipynb")
    assert await sessions.kernel_of("x/new.ipynb") is None
    assert [each["kernel"]["id"] for each in await manager.list_sessions()] == [kernel_id]


@pytest.mark.proves("kernel:shared-live")
async def test_a_rename_is_followed(
    sessions: JupyterSessions, server: Server, manager: Any, kernel_id: str
) -> None:
    await sessions.bind("old.ipynb", kernel_id)
    (session,) = await manager.list_sessions()
    await server.request("PATCH", f"api/sessions/{session['id']}", {"path": "new.ipynb"})
    assert await sessions.paths_of(kernel_id) == ["new.ipynb"]
