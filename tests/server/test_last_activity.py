"""Activity that the cullers of Jupyter and JupyterHub read: a server in use is not idle."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Call
from tk_ai_extension.server import activity


@pytest.mark.proves("fault:idle-culler")
async def test_a_call_that_waits_is_activity_until_it_is_answered(
    call: Call,
    extension: Any,
    notebook: str,
    jp_root_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(activity, "INTERVAL", 0.05)
    server = extension.serverapp
    times = server.web_app.settings["last_activity_times"]
    looking = activity.ServerActivity(server.web_app.settings, extension.services.working)
    looking.start()
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)"
    waiting = asyncio.ensure_future(call("execute_ipython", notebook=notebook, code=code, wait=60))
    seen: set[Any] = set()
    async with asyncio.timeout(60):
        # It rises as long as the call waits.
        while len(seen) < 3:
            await asyncio.wait([waiting], timeout=0.05)
            assert not waiting.done()
            seen |= {times[activity.NAME]} if activity.NAME in times else set()
        assert extension.current_activity()
        assert server.extension_manager.any_activity()
        (jp_root_dir / "go").touch()
        await waiting
    looking.stop()
    assert extension.current_activity() is None
    assert not server.extension_manager.any_activity()
    assert server.web_app.last_activity() >= max(seen)
