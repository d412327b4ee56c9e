"""The registry as an MCP server.

No module of this package is imported before the server is up: the ``mcp`` SDK alone takes half a
second.
"""

from __future__ import annotations

MODE = "tk-ai/mode"
"""The entry of a call's ``_meta`` that names a permission mode, to be stricter with just that call."""

TURN = "X-TK-Turn"
"""The header with the credential of a turn (`workspace.turn_credentials`), on each request of an agent."""

GONE = "tk_ai.gone"
"""The entry of the ASGI scope that holds an `asyncio.Event`: set when the client has gone away."""
