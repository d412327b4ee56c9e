"""Fixtures of the tools' tests."""

from tests.harness import backend, harness, jp_server_config

__all__ = ["backend", "harness", "jp_server_config"]
