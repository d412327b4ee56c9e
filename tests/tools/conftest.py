"""The tools are tested at a desk."""

import pytest

from tests import preloaded
from tests.desk import backend, desk, documents, jp_server_config

__all__ = ["backend", "desk", "documents", "jp_server_config"]


@pytest.fixture(autouse=True)
def preloaded_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are forked from a process that has imported ipykernel."""
    preloaded.install(monkeypatch)
