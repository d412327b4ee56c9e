"""How long `1+1` takes by each way into the kernel, beside one kernel client kept open."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from contents import cell_id, write
from family import Options, main
from harness import CallFailed, start_harness
from kept import kept
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from measure import Row, interleaved, timed
from serving import Server, own_folders, server_command, serving

CODE = "1+1"
EXECUTORS = ("direct", "stack")
CELLS = 500
SAMPLES = 50


async def measure(options: Options) -> AsyncGenerator[Row]:
    """All ways, with both executors."""
    for way in (in_process, over_http):
        for executor in EXECUTORS:
            for row in await way(options, executor):
                yield row


async def in_process(options: Options, executor: str) -> list[Row]:
    """Through the registry, in the server's own process."""
    root = options.new_folder(f"in-process-{executor}")
    write(root / "many.ipynb", [CODE] * CELLS)
    count = options.count(SAMPLES)
    async with start_harness(root, executor) as here:
        many = await here.call("use_notebook", notebook="many.ipynb")
        async with kept(here.connection(many["kernel_id"])) as client:
            floor, scratch, cell = await interleaved(
                count,
                lambda: client.execute(CODE),
                lambda: here.call("execute_ipython", code=CODE),
                lambda: here.call("execute_cell", cell=cell_id(CELLS // 2)),
                # Receiving messages of others' requests does not count as its time.
                between=client.drain,
            )
    way = f"in process, {executor}"
    return [
        timed(f"1+1 by execute_ipython, {way}", scratch, floor, times=1.2),
        timed(f"1+1 by execute_cell in {CELLS} cells, {way}", cell, floor, above=15),
    ]


@dataclass(frozen=True, slots=True)
class Served:
    """A server in a process of its own, with its two interfaces."""

    server: Server
    http: httpx2.AsyncClient
    client: Client

    async def mcp(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool by MCP."""
        result = await self.client.call_tool(tool, arguments)
        if result.is_error:
            raise CallFailed(f"{tool}: {result.content}")
        return result.structured_content

    async def rest(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool by REST."""
        address = f"{self.server.url}api/tk-ai/tools/{tool}"
        answer = await self.http.post(address, json=arguments)
        if answer.status_code != 200:
            raise CallFailed(f"{tool}: {answer.text}")
        return answer.json()


@asynccontextmanager
async def served(folder: Path, root: Path, executor: str) -> AsyncGenerator[Served]:
    """A plain Jupyter Server with the extension, notebooks as files, and clients of it."""
    environment = own_folders(folder)
    del environment["JUPYTER_NO_CONFIG"]
    command = server_command(
        root,
        "--ServerApp.jpserver_extensions=jupyter_server_ydoc=False",
        f"--TkAIExtensionApp.executor={executor}",
    )
    async with (
        serving(command, folder, environment, folder / "server.log") as server,
        httpx2.AsyncClient(headers=server.headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(server.mcp, http_client=http), mode="legacy") as client,
    ):
        yield Served(server, http, client)


async def over_http(options: Options, executor: str) -> list[Row]:
    """Through MCP and REST, by a client in another process than the server's."""
    folder = options.new_folder(f"http-{executor}")
    root = options.new_folder(f"http-{executor}-root")
    write(root / "many.ipynb", [CODE] * CELLS)
    count = options.count(SAMPLES)
    async with served(folder, root, executor) as there:
        many = await there.mcp("use_notebook", notebook="many.ipynb")
        connection_file = folder / "runtime" / f"kernel-{many['kernel_id']}.json"
        async with kept(json.loads(connection_file.read_text(encoding="utf-8"))) as client:
            floor, mcp, rest, cell = await interleaved(
                count,
                lambda: client.execute(CODE),
                lambda: there.mcp("execute_ipython", code=CODE),
                lambda: there.rest("execute_ipython", code=CODE, notebook="many.ipynb"),
                lambda: there.mcp("execute_cell", cell=cell_id(CELLS // 2)),
                between=client.drain,
            )
    return [
        timed(f"1+1 by execute_ipython, MCP over HTTP, {executor}", mcp, floor, above=6),
        timed(f"1+1 by execute_ipython, REST, {executor}", rest, floor, above=4),
        timed(
            f"1+1 by execute_cell in {CELLS} cells, MCP over HTTP, {executor}",
            cell,
            floor,
            above=15,
        ),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
