"""An agent's first steps through MCP, in plain Python.

python examples/client.py http://localhost:8888/api/tk-ai/mcp TOKEN
"""

import asyncio
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

NOTEBOOK = "hello.ipynb"


async def main(address: str, token: str) -> None:
    """Makes a notebook, runs a cell in it and reads what came of it."""
    headers = {"Authorization": f"Bearer {token}"}
    http = httpx2.AsyncClient(headers=headers, timeout=300)
    transport = streamable_http_client(address, http_client=http)
    async with http, Client(transport) as client:
        used = {"notebook": NOTEBOOK, "mode": "create"}
        await client.call_tool("use_notebook", used)

        cell = {"notebook": NOTEBOOK, "source": "print(6 * 7)"}
        ran = await client.call_tool("insert_and_execute_cell", cell)
        print(ran.content[0].text)  # what a model reads
        print(ran.structured_content["status"])  # what a program reads

        read = await client.call_tool("read_notebook", {"notebook": NOTEBOOK})
        print(read.content[0].text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
