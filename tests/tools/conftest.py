"""The tools are tested at a desk."""

from tests.desk import backend, desk, documents, jp_server_config

__all__ = ["backend", "desk", "documents", "jp_server_config"]
