"""Jupyter servers with the extension."""

from __future__ import annotations

import pytest
from traitlets.config import Config

from tests.servers import start_server

__all__ = ["jp_server_config", "start_server"]


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    """A server in the test's process, with the extension and what it stands on."""
    jp_server_config.ServerApp.jpserver_extensions = {
        "jupyter_server_nbmodel": True,
        "tk_ai_extension": True,
    }
    return jp_server_config
