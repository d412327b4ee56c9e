"""Commands without a server: they read and edit in this process, and start no kernel."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, cast

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.client import Console, Redirect
from tk_ai_extension.cli.command_state import CommandState
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.context import MEMORY, CommandContext
from tk_ai_extension.cli.no_kernels import NoKernels, NoSessions
from tk_ai_extension.cli.project import Project
from tk_ai_extension.cli.project_services import ProjectServices, private_folder
from tk_ai_extension.cli.terminal import LocalTerminal
from tk_ai_extension.model.callers import owner
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.activity import Notices
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.files import FolderFiles
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.paths import notebook_path
from tk_ai_extension.workspace.workspace import Workspace


def run(
    project: Project, argv: list[str], console: Console, silent: tuple[str, ...] = ()
) -> int | Redirect:
    """Run a command; return the exit status or a redirect.

    Args:
        project: The project.
        argv: The command.
        console: Reads and edits what the command asks for.
        silent: The addresses of servers that did not answer just now.
    """
    return asyncio.run(_run(project, argv, console, silent))


async def _run(
    project: Project, argv: list[str], console: Console, silent: tuple[str, ...]
) -> int | Redirect:
    context = local_context(project)
    if silent and context.project is not None:
        context.project.servers.did_not_answer(silent)
    terminal = LocalTerminal(project.root, console)
    try:
        status = await Commands(context.registry).run(context, argv, terminal)
        if terminal.elsewhere is not None:
            return terminal.elsewhere
        console.clear(done=status == wire.OK)
        return status
    finally:
        await context.workspace.close()
        if context.project is not None and context.project.cleans:
            project.clean()


def local_context(project: Project) -> CommandContext:
    """Build the context of a command without a server.

    Raises:
        Refused: the folder of the history cannot be written.
    """
    root = Path(project.root)
    state = private_folder(root)
    contain = partial(notebook_path, root)
    notices = Notices()
    services = ProjectServices(project, state)
    workspace = Workspace(
        store=NotebookRouter(root, contain, warn=notices.add_for_anybody),
        notices=notices,
        kernels=cast("Any", NoKernels()),
        sessions=cast("Any", NoSessions()),
        files=FolderFiles(root),
        journal=Journal(state / "journal.sqlite"),
        artifacts=Artifacts(state / "artifacts"),
        contain=contain,
    )
    registry = Registry.load(("default",), services.ownership)
    return CommandContext(
        project.root, owner(), workspace, registry, CommandState(state / MEMORY), services
    )
