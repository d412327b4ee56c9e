"""Background tasks: none is lost before it ends, and no failure is."""

from __future__ import annotations

import ast
import asyncio
import logging
from pathlib import Path

import pytest

import tk_ai_extension
from tk_ai_extension.model.background import BackgroundTasks, outcome
from tk_ai_extension.model.errors import DiskFull

logger = logging.getLogger(__name__)


async def fails(error: Exception, after: asyncio.Event | None = None) -> None:
    if after is not None:
        await after.wait()
    raise error


async def test_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks(logger)
    tasks.spawn(fails(DiskFull("No room.")), "Saving")
    tasks.spawn(fails(KeyError("x")), "Counting")
    await tasks.join()
    assert [record.getMessage() for record in caplog.records] == [
        "Saving failed: No room.",
        "Counting failed",
    ]
    assert [record.exc_info is not None for record in caplog.records] == [False, True]


async def test_a_failure_is_logged_only_where_nobody_awaits_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go = asyncio.Event()
    work = asyncio.create_task(fails(KeyError("x"), go), name="Work")
    awaiting = asyncio.create_task(outcome(work, logger))
    go.set()
    with pytest.raises(KeyError):
        await awaiting
    assert not caplog.records

    go.clear()
    work = asyncio.create_task(fails(KeyError("x"), go), name="Work")
    awaiting = asyncio.create_task(outcome(work, logger))
    await asyncio.sleep(0)
    awaiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await awaiting
    go.set()
    await asyncio.wait([work])
    await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == ["Work failed"]


async def test_closing_ends_what_runs() -> None:
    tasks, ended = BackgroundTasks(logger), asyncio.Event()

    async def runs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tasks.spawn(runs(), "Waiting")
    await asyncio.sleep(0)
    await tasks.close(grace=0.01)
    assert ended.is_set()
    assert len(tasks) == 0


def test_no_set_of_tasks_is_kept_by_hand_that_drops_failures() -> None:
    """``add_done_callback(tasks.discard)`` alone: asyncio reports such a failure late, or never."""
    package = Path(tk_ai_extension.__file__).parent
    found = [
        f"{file}:{node.lineno}"
        for file in package.rglob("*.py")
        if file.relative_to(package).as_posix() not in {"model/background.py", *AWAITED}
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_done_callback"
        and isinstance(node.args[0], ast.Attribute)
        and node.args[0].attr == "discard"
    ]
    assert not found, "keep these in BackgroundTasks"


AWAITED = {
    "agent/turn.py",  # a tool call: the SDK awaits it
    "cli/host.py",  # a command: its connection awaits it
}
"""Where a set only keeps tasks alive that somebody awaits."""
