"""Fixtures of the tools' tests."""

from tests.harness import backend, documents, harness, jp_server_config

__all__ = ["backend", "documents", "harness", "jp_server_config"]
