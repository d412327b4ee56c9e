"""A server that is killed in the middle of a cell: the kernel goes on, and what is lost is said."""

from __future__ import annotations

import asyncio
import json
import os
import time

import psutil
import pytest

from tests.cli.conftest import DEADLINE, Nb

WAITS = "print('before', flush=True)\nopen('go').read()\nprint('after')"

LONG_WAIT = 1.0
"""Seconds that a cell waits behind another one."""


@pytest.mark.proves("nb:killed-server")
async def test_the_cell_still_runs_its_lost_output_is_reported_and_the_next_one_takes_its_own_time(
    nb: Nb,
) -> None:
    os.mkfifo(nb.root / "go")
    nb.notebook("a.ipynb", WAITS, "print('next')")
    await asyncio.to_thread(nb, "open", "a.ipynb")
    begun = await asyncio.to_thread(nb, "exec", "0", "--wait", "1", status=4)
    assert "before" in begun.out
    host = psutil.Process((await asyncio.to_thread(nb, "status", "--json")).json["host"])
    host.kill()
    host.wait(DEADLINE)

    listed = (await asyncio.to_thread(nb, "cells", "--json")).json
    assert [cell["state"] for cell in listed["cells"]] == ["running", "never"]
    (notice,) = listed["notices"]
    assert "The server stopped while its kernel runs @" in notice
    assert notice.endswith("is not in the notebook. The kernel is still busy.")
    assert notice in (await asyncio.to_thread(nb, "cells")).out
    shown = " ".join((await asyncio.to_thread(nb.typed, "cells", columns=100)).split())
    assert "running" in shown
    assert notice in shown

    following = await nb.start("exec", "1", "--json")
    since = time.monotonic()
    while time.monotonic() - since < LONG_WAIT:
        await asyncio.to_thread(nb, "ps", env={"NB_CALLER": "somebody else"})
    await asyncio.to_thread((nb.root / "go").write_text, "now")
    out, _ = await following.communicate()
    answer = json.loads(out)
    assert answer["status"] == "ok"
    assert answer["runs"][0]["duration"] < LONG_WAIT
    assert "The server stopped" in answer["notices"][0]
    again = (await asyncio.to_thread(nb, "cells", "--json")).json
    assert [cell["state"] for cell in again["cells"]] == ["never", "fresh"]
    assert "notices" not in again
