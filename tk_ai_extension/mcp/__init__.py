"""MCP server over the registry of tools.

This package is imported only after the server's start: importing the ``mcp`` SDK alone takes half a
second.
"""

from __future__ import annotations

MODE = "tk-ai/mode"
"""Key in a call's ``_meta`` with a stricter permission mode for this call."""

TURN = "X-TK-Turn"
"""Header with the credential of a turn (`workspace.turn_credentials`), on each request of an agent."""

GONE = "tk_ai.gone"
"""Key in the ASGI scope of an `asyncio.Event` that is set when the client disconnects."""
