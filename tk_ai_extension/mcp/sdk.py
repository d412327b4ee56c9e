"""Access to private parts of the SDK."""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

Context = ServerRequestContext[Any, Request | None]
"""Context that the SDK passes to a handler; ``request`` is None without HTTP (stdio)."""


def connection_of(context: Context) -> Connection:
    """Return the connection of a request: its session id, state and clean-up.

    The SDK documents that handlers push clean-up to ``connection.exit_stack``, but offers no public
    access to it yet.
    """
    return context.session._connection  # noqa: SLF001


def is_modern(context: Context) -> bool:
    """Whether the request uses the protocol without sessions (2026-07-28 and later)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS
