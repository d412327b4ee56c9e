"""Fixtures of the tools' tests."""

import pytest

from tests import preloaded
from tests.harness import backend, documents, harness, jp_server_config

__all__ = ["backend", "documents", "harness", "jp_server_config"]


@pytest.fixture(autouse=True)
def preloaded_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are forked from a process that has imported ipykernel."""
    preloaded.install(monkeypatch)
