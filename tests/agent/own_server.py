"""A small user-defined MCP server over stdio."""

import os
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("own")


@server.tool()
def note(text: str) -> str:
    """Note a text."""
    with Path(os.environ["NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return "Noted."


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("no such thing")


server.run()
