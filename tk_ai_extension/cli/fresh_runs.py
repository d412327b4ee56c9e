"""Runs of whole notebooks in kernels of their own: started by tools with all options, and followed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from tk_ai_extension.cli.session import Session
from tk_ai_extension.cli.terminal import harmless
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.execution_results import ExecutionResult
from tk_ai_extension.tools.registry import Registry, Tool
from tk_ai_extension.workspace.runs import Run

SLICE = 1.0
"""Seconds after which the progress is shown again without an event."""


async def start(session: Session, tool: Tool, **arguments: Any) -> tuple[Run, ExecutionResult]:
    """Start a run by a tool that no toolset has, with the checks of every tool; return at once.

    Raises:
        ToolError: See `Registry.call`. Nothing runs.
    """
    project = session.context.project
    registry = Registry((tool,), None if project is None else project.ownership)
    context = ToolContext(session.context.workspace, session.caller, session.screen.progress)
    result = await registry.call(tool.name, {**arguments, "wait": 0}, context)
    session.has_effect = True
    started = cast("ExecutionResult", result)
    run = session.context.workspace.executions.get(session.caller, started.execution_id)
    return run, started


async def follow(session: Session, run: Run, show: Callable[[], Awaitable[None]]) -> bool:
    """Wait for the end of a run. Ctrl-C, and the end of the command, end it and its kernel.

    Args:
        session: The session of the command.
        run: The run.
        show: Shows the progress; called after each event, and each second.

    Returns:
        Whether it was ended early; an error of such a run is only shown.
    """
    terminal = session.terminal
    is_ended_early = False

    async def end_early() -> None:
        nonlocal is_ended_early
        waiting = [
            asyncio.create_task(each.wait()) for each in (terminal.interrupted, terminal.gone)
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        terminal.interrupted.clear()
        is_ended_early = True
        await session.context.workspace.executions.cancel(run)

    watching = asyncio.create_task(end_early())
    try:
        while not run.done:
            version = run.version
            await show()
            await run.changed(version, SLICE)
        await show()
    except asyncio.CancelledError:
        await asyncio.shield(session.context.workspace.executions.cancel(run))
        raise
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        session.screen.clear_progress()
    if run.error is not None:
        if not is_ended_early:
            raise run.error
        session.terminal.err(f"{harmless(as_line(run.error))}\n")
    return is_ended_early


def as_line(error: ToolError) -> str:
    """Return an error as one line, without its hint."""
    return f"{error.message} [{error.code}]"
