"""MCP server over the registry of tools.

This package is imported only after the server's start: importing the ``mcp`` SDK alone takes half a
second.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tk_ai_extension.tools.registry import Registry
    from tk_ai_extension.workspace.turn_credentials import ActiveTurn

MODE = "tk-ai/mode"
"""Key in a call's ``_meta`` with a stricter permission mode for this call."""

TURN = "X-TK-Turn"
"""Header with the credential of a turn (`workspace.turn_credentials`), on each request of an agent."""


@dataclass(frozen=True, slots=True)
class McpClient:
    """The client of a request, as its transport knows it.

    Attributes:
        user: The user that Jupyter Server authenticated.
        registry: The tools of its toolsets.
        session: The id of its session over HTTP, if any.
        key: The key that it gave itself, for a client without a session.
        turn: The turn whose credential it sent, if any.
        gone: Set when it has disconnected.
    """

    user: str
    registry: Registry
    session: str | None = None
    key: str | None = None
    turn: ActiveTurn | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
