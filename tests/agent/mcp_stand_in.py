"""A small MCP server over stdio, as people have their own."""

import os
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import ToolAnnotations

server = MCPServer("stand-in")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(what: str) -> str:
    """Look at something."""
    return f"{what}: {os.environ.get('STAND_IN', '')}, {[*Path().iterdir()]}"


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


@server.tool()
def refuse(code: int) -> str:
    """Answer with an error of the protocol."""
    raise MCPError(code=code, message="no such row")


@server.tool()
def stop() -> str:
    """End the process."""
    os._exit(3)


@server.tool()
def environment() -> str:
    """The names of the variables."""
    return " ".join(sorted(os.environ))


if "--broken" in sys.argv:
    sys.exit(f"cannot start with {os.environ.get('STAND_IN')}")
server.run()
