"""Programs of jupyter_client in a shared kernel: managers, nbclient, consoles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import pytest_asyncio
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.kernels.guests import DEADLINE, connect, run, until
from tests.kernels.sharing.conftest import Owner
from tests.support.faults import RUN_FOREVER, run_until

pytestmark = [pytest.mark.proves("nb:serve")]


@pytest.fixture
def installed(owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The kernelspec, where the test's own programs find it."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return owner.share()


@pytest_asyncio.fixture
async def guest(installed: dict[str, str], tmp_path: Path) -> AsyncIterator[Any]:
    """A guest's kernel manager."""
    manager = AsyncKernelManager(
        kernel_name=installed["kernelspec"], connection_file=str(tmp_path / "guest.json")
    )
    await manager.start_kernel()
    yield manager
    await manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("owner", ["tcp", "ipc"], indirect=True)
async def test_nbclient_runs_a_notebook_in_the_shared_kernel(
    owner: Owner, installed: dict[str, str]
) -> None:
    agent = await owner.client()
    await run(agent, "X = 42")
    cells = [nbformat.v4.new_code_cell("Y = X + 1"), nbformat.v4.new_code_cell("print(Y)")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, kernel_name=installed["kernelspec"], timeout=DEADLINE)
    await client.async_execute()
    assert notebook.cells[1].outputs[0]["text"] == "43\n"
    # It has shut its kernel down: the owner's goes on.
    assert await owner.manager.is_alive()
    assert await run(agent, "print(Y)") == "43"


@pytest.mark.parametrize("now", [True, False])
async def test_a_guests_shutdown_leaves_what_the_owner_runs(
    owner: Owner, guest: Any, now: bool, tmp_path: Path
) -> None:
    agent, listener = await owner.client(), await owner.client()
    running = asyncio.ensure_future(run(agent, run_until(tmp_path / "go", "print('to the end')")))
    await until(listener, "waiting")
    await guest.shutdown_kernel(now=now)
    assert not await guest.is_alive()
    (tmp_path / "go").touch()
    assert await running == "waiting\nto the end"


async def test_a_guests_restart_leaves_the_variables(owner: Owner, guest: Any) -> None:
    agent = await owner.client()
    await run(agent, "X = 42")
    for now in (True, False):
        await guest.restart_kernel(now=now)
        client = await connect(guest.get_connection_info())
        assert await run(client, "print(X)") == "42"
        client.stop_channels()


async def test_a_guests_interrupt_reaches_the_kernel(owner: Owner, guest: Any) -> None:
    agent, listener = await owner.client(), await owner.client()
    running = asyncio.ensure_future(run(agent, RUN_FOREVER))
    await until(listener, "running")
    await guest.interrupt_kernel()
    assert "KeyboardInterrupt" in await running
