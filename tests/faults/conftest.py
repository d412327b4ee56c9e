"""Fault injection, for each executor with each kind of document."""

from tests.harness import backend, harness, jp_server_config
from tests.servers import start_server

__all__ = ["backend", "harness", "jp_server_config", "start_server"]
