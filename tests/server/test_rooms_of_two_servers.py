"""Two servers with collaboration on one folder: one of them has a notebook's room."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import httpx2
import nbformat
import pytest

from tests.servers import ServerProcess, StartServer

ROOMS = (
    "c.ServerApp.jpserver_extensions.update(jupyter_server_ydoc=True, jupyter_server_fileid=True)\n"
)
DELAY = "c.YDocExtension.document_cleanup_delay = 600\n"


async def call(server: ServerProcess, tool: str, **arguments: Any) -> tuple[int, Any]:
    async with httpx2.AsyncClient(
        base_url=server.url, headers=server.headers, params={"caller": "me"}, timeout=60
    ) as client:
        response = await client.post(
            f"api/tk-ai/tools/{tool}", json={"notebook": "a.ipynb"} | arguments
        )
        return response.status_code, response.json()


@pytest.mark.proves("fault:one-server")
async def test_an_acknowledged_change_is_in_the_notebook(start_server: StartServer) -> None:
    one = await start_server(config=ROOMS + DELAY)
    nbformat.write(nbformat.v4.new_notebook(), one.root / "a.ipynb")
    two = await start_server(config=ROOMS + DELAY, beside=one)

    async def work(server: ServerProcess, name: str) -> tuple[list[str], list[Any]]:
        written: list[str] = []
        errors: list[Any] = []
        for number in range(5):
            source = f"{name}_{number} = 1"
            status, answer = await call(server, "insert_cell", source=source, index=0)
            if status == 200:
                written.append(source)
            else:
                errors.append(answer["error"])
        return written, errors

    (first, errors), (second, more) = await asyncio.gather(work(one, "one"), work(two, "two"))
    assert not (first and second)
    refused = errors + more
    assert len(refused) == 5
    assert {error["code"] for error in refused} == {"notebook_open_elsewhere"}
    winner, loser = (one, two) if first else (two, one)
    assert refused[0]["details"]["server"].endswith(winner.url.rpartition(":")[2])
    cells = json.loads((one.root / "a.ipynb").read_text())["cells"]
    assert {*first, *second} <= {"".join(cell["source"]) for cell in cells}
    # Reading goes on, and the lease ends with its server, however that ends.
    status, read = await call(loser, "list_cells")
    assert (status, len(read["cells"]) >= 5) == (200, True)
    await winner.stop(signal.SIGKILL)
    status, answer = await call(loser, "insert_cell", source="after = 1", index=0)
    assert status == 200, answer


@pytest.mark.proves("fault:one-server")
async def test_the_room_of_a_renamed_notebook_is_still_its_servers(
    start_server: StartServer,
) -> None:
    one = await start_server(config=ROOMS + DELAY)
    folder = one.root / "old"
    folder.mkdir()
    nbformat.write(nbformat.v4.new_notebook(), folder / "a.ipynb")
    two = await start_server(config=ROOMS + DELAY, beside=one)
    insert = {"source": "1", "index": 0}
    assert (await call(one, "insert_cell", notebook="old/a.ipynb", **insert))[0] == 200
    async with httpx2.AsyncClient(base_url=one.url, headers=one.headers, timeout=60) as client:
        renamed = await client.patch("api/contents/old", json={"path": "new"})
        assert renamed.status_code == 200
    status, refused = await call(two, "insert_cell", notebook="new/a.ipynb", **insert)
    assert (status, refused["error"]["code"]) == (409, "notebook_open_elsewhere")
    # The path that it had is free for another notebook.
    folder.mkdir()
    nbformat.write(nbformat.v4.new_notebook(), folder / "a.ipynb")
    status, answer = await call(two, "insert_cell", notebook="old/a.ipynb", **insert)
    assert status == 200, answer
