"""Fixtures of the toolset `omp` with the default one."""

from dataclasses import replace

import pytest

from tests.harness import backend, jp_server_config, registry_of
from tests.harness import harness as default_harness

__all__ = ["backend", "default_harness", "jp_server_config"]


@pytest.fixture
def harness(default_harness):
    return replace(default_harness, registry=registry_of(("default", "omp")))


@pytest.fixture
def run(harness):
    """Runs cells by `python`: each a code, or a code and what else the cell says."""

    async def run(*cells, **arguments):
        given = [{"code": cell} if isinstance(cell, str) else cell for cell in cells]
        return await harness.call("python", cells=given, **arguments)

    return run
