"""A command in a project that has no host: it reads and edits right here, and starts no kernel."""

from __future__ import annotations

import asyncio

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.headless import Headless
from tk_ai_extension.cli.project import Project
from tk_ai_extension.cli.terminal import LocalTerminal


def run(project: Project, argv: list[str]) -> int:
    """Runs a command without a host; the exit status."""
    return asyncio.run(_run(project, argv))


async def _run(project: Project, argv: list[str]) -> int:
    headless = await Headless.without_kernels(project)
    terminal = LocalTerminal()
    try:
        status = await Commands(headless.registry).run(headless, argv, terminal)
        terminal.editor.clear(done=status == wire.OK)
        return status
    finally:
        await headless.close()
        if headless.cleans:
            project.clean()
