"""One JupyterHub for the tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.hub.hubs import Hub, running_hub

KEY = "sk-ant-a-key-of-the-team"
"""A key that the spawner gives to each server."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """A Hub for two users; their servers are not started.

    The Hub's administrator allows one toolset more than the default one; bob's own configuration, all.
    """
    users = {"alice": "", "bob": 'c.TkAIExtensionApp.allowed_toolsets = ["omp"]\n'}
    async with running_hub(
        tmp_path_factory.mktemp("hub"),
        users,
        environment={"ANTHROPIC_API_KEY": KEY},
        arguments=["--TkAIExtensionApp.allowed_toolsets=claude-code"],
    ) as hub:
        yield hub
