"""Faults are injected at a desk, for each executor with each kind of document."""

from tests.desk import backend, desk, documents, jp_server_config
from tests.servers import start_server

__all__ = ["backend", "desk", "documents", "jp_server_config", "start_server"]
