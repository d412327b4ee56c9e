"""The toolset `omp` beside the default one, at a desk."""

from dataclasses import replace

import pytest

from tests.desk import backend, documents, jp_server_config
from tests.desk import desk as default_desk
from tk_ai_extension.tools.registry import Registry

__all__ = ["backend", "default_desk", "documents", "jp_server_config"]


@pytest.fixture
def desk(default_desk):
    return replace(default_desk, registry=Registry.load(("default", "omp")))


@pytest.fixture
def run(desk):
    """Runs cells by `python`: each a code, or a code and what else the cell says."""

    async def run(*cells, **arguments):
        given = [{"code": cell} if isinstance(cell, str) else cell for cell in cells]
        return await desk.call("python", cells=given, **arguments)

    return run
