"""Servers for other projects' clients."""

from __future__ import annotations

from tests.servers import start_server

__all__ = ["start_server"]
