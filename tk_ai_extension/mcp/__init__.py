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

MODE = "tk-ai/mode"
"""Key in a call's ``_meta`` with a stricter permission mode for this call."""


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """The client of a request, as identified by its transport.

    Attributes:
        user: The user that Jupyter Server authenticated.
        registry: The tools of its toolsets.
        session: The id of its session over HTTP, if any.
        key: The key that it chose, for a client without a session.
        gone: Set when it has disconnected.
    """

    user: str
    registry: Registry
    session: str | None = None
    key: str | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
