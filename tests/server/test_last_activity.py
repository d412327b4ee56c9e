"""Activity that the cullers of Jupyter and JupyterHub read: a server in use is not idle."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from jupyter_server._tz import utcnow

from tests.server.conftest import Ask, Call
from tk_ai_extension.server import services


@pytest.mark.proves("hub:tokens")
async def test_a_call_that_waits_is_activity_until_it_is_answered(
    call: Call,
    extension: Any,
    notebook: str,
    jp_root_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "ACTIVITY_INTERVAL", 0.05)
    server = extension.serverapp
    times = server.web_app.settings["last_activity_times"]
    looking = services.LastActivityReporter(
        server.web_app.settings,
        server.kernel_manager,
        extension.services.working,
        extension.services.kernels_in_use,
    )
    looking.start()
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)"
    waiting = asyncio.ensure_future(call("execute_ipython", notebook=notebook, code=code, wait=60))
    seen: set[Any] = set()
    async with asyncio.timeout(60):
        # It rises as long as the call waits.
        while len(seen) < 3:
            await asyncio.wait([waiting], timeout=0.05)
            assert not waiting.done()
            seen |= {times[services.NAME]} if services.NAME in times else set()
        assert extension.current_activity()
        assert server.extension_manager.any_activity()
        (jp_root_dir / "go").touch()
        await waiting
    looking.stop()
    assert extension.current_activity() is None
    assert not server.extension_manager.any_activity()
    assert server.web_app.last_activity() >= max(seen)


def age(kernel: Any) -> None:
    """Makes a kernel look as if nothing had happened in it for an hour."""
    kernel.last_activity = utcnow() - timedelta(hours=1)


class Culled:
    """A server's kernel after a look for activity and one of Jupyter's culler."""

    def __init__(self, extension: Any) -> None:
        server = extension.serverapp
        self._manager = server.kernel_manager
        self._manager.cull_idle_timeout = 60
        self._activity = services.LastActivityReporter(
            server.web_app.settings,
            self._manager,
            extension.services.working,
            extension.services.kernels_in_use,
        )

    async def __call__(self, kernel_id: str) -> bool:
        """Whether the kernel, in which nothing ran for an hour, is culled."""
        age(self._manager.get_kernel(kernel_id))
        await self._activity.report()
        await self._manager.cull_kernel_if_idle(kernel_id)
        return kernel_id not in self._manager


class TestKernelsOfWaitingWork:
    @pytest.fixture(autouse=True)
    def no_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in os.environ:
            if name.startswith(("ANTHROPIC_", "CLAUDE_CODE_")):
                monkeypatch.delenv(name)

    @pytest.mark.proves("hub:tokens")
    async def test_the_kernel_of_a_turn_that_waits_for_approval_is_not_culled_until_it_ends(
        self, call: Call, ask: Ask, extension: Any, notebook: str, jp_auth_header: dict[str, str]
    ) -> None:
        _, used = await call("use_notebook", notebook=notebook)
        _, other = await call("use_notebook", notebook="other.ipynb", mode="create")
        policy = extension.services.workspace.policy
        events = policy.follow(extension.services.owner)
        message = {"message": "start", "notebook": notebook, "mode": "ask"}
        turn = asyncio.ensure_future(ask("POST", "api/tk-ai/mcp/chat", message, **jp_auth_header))
        async with asyncio.timeout(60):
            while (event := await anext(events)).kind != "asked":
                pass
        culled = Culled(extension)
        assert not await culled(used["kernel_id"])
        assert await culled(other["kernel_id"])
        policy.answer(extension.services.owner, event.request.id, "deny")
        async with asyncio.timeout(60):
            assert (await turn).code == 200
        await events.aclose()
        assert await culled(used["kernel_id"])
