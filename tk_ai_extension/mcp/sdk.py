"""What the rest of this package needs from the SDK and the SDK does not hand out in public."""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

Context = ServerRequestContext[Any, Request | None]
"""What the SDK gives to a handler; ``request`` is None where there is no HTTP (stdio)."""


def connection_of(context: Context) -> Connection:
    """The connection that a request came by: its session's id, its state, its clean-up.

    The SDK says that handlers push clean-up to ``connection.exit_stack`` and gives them no way to
    it yet; this is the one place that takes one.
    """
    return context.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def is_modern(context: Context) -> bool:
    """Whether the request speaks the protocol without sessions (2026-07-28 and later)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS
