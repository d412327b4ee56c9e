"""Commands of the project: open a notebook, show the status, share a kernel, shut down."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import cast
from urllib.parse import quote

from pydantic import Field

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.answers import SharingStopped, Stopped
from tk_ai_extension.cli.commands.command import Command
from tk_ai_extension.cli.context import CommandContext
from tk_ai_extension.cli.parsing import WrongCall, add_notebook
from tk_ai_extension.cli.project import FOLDER, KERNELS
from tk_ai_extension.cli.project_services import LabMissing, ProjectServices
from tk_ai_extension.cli.session import Session, as_json
from tk_ai_extension.kernels.service import Kernels
from tk_ai_extension.model.errors import KernelNotFound, ToolError
from tk_ai_extension.tools.context import Result
from tk_ai_extension.tools.default.kernels import KernelEntry, RunningKernels, kernel_text
from tk_ai_extension.tools.default.notebooks import NotebookUsed


def _configure_open(parser: argparse.ArgumentParser) -> None:
    add_notebook(
        parser, required=True, help="path of a notebook; created with an empty cell if missing"
    )
    parser.add_argument("--kernel", metavar="NAME", help="kernelspec, instead of the notebook's")
    parser.add_argument("--name", help="a name for it in other commands")
    parser.add_argument(
        "--sandbox",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="run this project's kernels without network, with access to its folder only",
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        help="work in this Jupyter Server from now on: its address, with its token unless that is in "
        "JUPYTER_TOKEN or the server runs here; 'none' ends that",
    )


async def _open(session: Session, args: argparse.Namespace) -> int:
    named = {"kernel_name": args.kernel, "name": args.name}
    named = {name: value for name, value in named.items() if value is not None}
    context = session.context
    if args.sandbox is not None:
        await _own(context).confine(context.workspace.kernels, sandbox=args.sandbox)
    if args.server is not None:
        token = session.terminal.info.env.get("JUPYTER_TOKEN", "")
        await _own(context).attach(None if args.server == "none" else args.server, token)
    path = session.located({"notebook": args.notebook})["notebook"]
    there = os.path.join(context.root, path)
    mode = "connect" if await asyncio.to_thread(os.path.exists, there) else "create"
    return session.finish(await session.call("use_notebook", notebook=path, mode=mode, **named))


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    add_notebook(parser, help="the notebook whose kernel to share (default: the current one)")
    parser.add_argument("--off", action="store_true", help="stop sharing it")


class Shared(Result):
    """A kernel that is shared with other programs."""

    notebook: str
    kernelspec: str
    display_name: str
    connection_dir: str

    def as_text(self) -> str:
        """Return how to connect to it."""
        return (
            f"The kernel of {self.notebook} is shared: choose `{self.display_name}` in VS Code or "
            f"JupyterLab, or\n  jupyter console --kernel {self.kernelspec}\nA Jupyter Server can "
            "list it, too:\n  jupyter lab --ServerApp.allow_external_kernels=True "
            f"--ServerApp.external_connection_dir={self.connection_dir}"
        )


async def _serve(session: Session, args: argparse.Namespace) -> int:
    context = session.context
    project = _own(context)
    if args.off:
        return session.finish(SharingStopped(was_shared=await project.unshare()))
    notebook = session.located({"notebook": args.notebook})["notebook"]
    path = context.workspace.path(session.caller, notebook, tool="nb serve")
    kernel_id = await context.workspace.kernel_of(path)
    installed = await project.share(context.workspace.kernels, path, kernel_id)
    shared = Shared(
        notebook=path,
        kernelspec=installed.name,
        display_name=installed.display_name,
        connection_dir=os.path.join(context.root, FOLDER, KERNELS),
    )
    return session.finish(shared)


def _own(context: CommandContext) -> ProjectServices:
    """Return the services of a project's own server; `nb` sends these commands to no other."""
    if context.project is None:
        raise WrongCall("nb: only the project's own server can do that.\n")
    return context.project


def _configure_lab(parser: argparse.ArgumentParser) -> None:
    add_notebook(parser, help="the notebook to open (default: the current one, if any)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


class Lab(Result):
    """JupyterLab on the project's server."""

    url: str
    """Its address, with the token."""

    def as_text(self) -> str:
        """Return the address."""
        return f"JupyterLab: {self.url}"


async def _lab(session: Session, args: argparse.Namespace) -> int:
    context = session.context
    open_lab = _own(context).open_lab
    if open_lab is None:
        raise LabMissing("No server runs in this project.")
    url = open_lab()
    notebook = session.located({"notebook": args.notebook})["notebook"]
    current = context.workspace.notebooks.current(session.caller)
    if notebook is not None or current is not None:
        path = context.workspace.path(session.caller, notebook, tool="nb lab")
        url = url.replace("/lab?", f"/lab/tree/{quote(path)}?", 1)
    if not args.no_browser and session.terminal.info.tty:
        session.terminal.browse(url)
    return session.finish(Lab(url=url))


def _configure_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--toolsets", help="toolsets to offer, such as default,omp")
    parser.add_argument(
        "--mode",
        help="permission mode (plan, ask, edit or auto): what runs without approval (default: auto)",
    )
    parser.add_argument(
        "--caller", help="the caller's name, for state that outlasts the connection"
    )


async def _mcp(session: Session, args: argparse.Namespace) -> int:  # noqa: ARG001 - only the help is from here
    raise WrongCall("nb mcp: the client process runs this, not the server.\n")


class Status(Result):
    """Status of a project."""

    project: str
    host: int | None = None
    """Process id of the project's own server; None if it is not running."""
    notebook: str | None = None
    server: str | None = None
    """The Jupyter Server that the notebook belongs to."""
    kernels: list[KernelEntry] = Field(default_factory=list[KernelEntry])
    waiting: int | None = None
    """Number of calls that need approval; None if there are none."""

    def as_text(self) -> str:
        """Return one line per item."""
        lines = [f"project {self.project}"]
        lines.append(
            f"server process {self.host}" if self.host else "no server: nb open NOTEBOOK starts one"
        )
        lines.append(f"notebook {self.notebook}" if self.notebook else "no notebook is open")
        if self.server:
            lines.append(f"in the Jupyter Server at {self.server}")
        lines += [f"kernel {kernel_text(kernel)}" for kernel in self.kernels]
        if self.waiting:
            lines.append(f"calls that need your approval: {self.waiting} (nb approve)")
        return "\n".join(lines)


async def _status(session: Session, args: argparse.Namespace) -> int:  # noqa: ARG001 - takes none
    context = session.context
    current = context.workspace.notebooks.current(session.caller)
    server = await context.owner_of(current.path if current else "")
    if server is not None and (context.attached or not context.workspace.kernels.ids()):
        # That server reports the status.
        session.redirect(server)
        return wire.OK
    running = cast("RunningKernels", await session.call("list_running_kernels"))
    status = Status(
        project=session.terminal.info.project,
        host=context.host,
        notebook=current.path if current else None,
        server=context.url or (server.url if server else None),
        kernels=running.kernels,
        waiting=len(context.workspace.policy.pending(session.caller.user)) or None,
    )
    return session.finish(status)


async def _shutdown(session: Session, args: argparse.Namespace) -> int:  # noqa: ARG001 - takes none
    context = session.context
    project = _own(context)
    stopped: list[str] = []
    failed: list[str] = []
    project.refuse()
    clean = False
    try:
        try:
            await project.unshare()
        except ToolError as error:
            failed.append(error.message)  # it keeps no kernel running
        await _stop_kernels(context.workspace.kernels, stopped, failed)
        _report_stopped(session, stopped, failed)
        clean = not failed
    finally:
        project.stop(clean=clean)
    return wire.FAILED if failed else wire.OK


def _report_stopped(session: Session, stopped: list[str], failed: list[str]) -> None:
    if session.options.json:
        answer = Stopped.of({"stopped": stopped, "failed": failed})
        session.terminal.out(as_json(answer.structured()))
        return
    kernels = "1 kernel" if len(stopped) == 1 else f"{len(stopped)} kernels"
    server = ", and the server" if session.context.host else ""
    session.terminal.out(f"{kernels} stopped{server}.\n")
    for problem in failed:
        session.terminal.err(f"Not stopped: {problem}\n")


async def _stop_kernels(kernels: Kernels, stopped: list[str], failed: list[str]) -> None:
    """Shut down all kernels, including those that commands which had begun start meanwhile."""

    async def stop(kernel_id: str) -> None:
        try:
            await kernels.shutdown(kernel_id)
            stopped.append(kernel_id)
        except KernelNotFound:  # The end of a run stopped it meanwhile.
            stopped.append(kernel_id)
        except ToolError as error:
            failed.append(f"{kernel_id}: {error.message}")

    tried: set[str] = set()
    while left := [each for each in kernels.ids() if each not in tried]:
        tried.update(left)
        await asyncio.gather(*map(stop, left))


def _nothing(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


COMMANDS = (
    Command(
        "open",
        "Open a notebook: start its kernel and make it the current notebook.",
        _configure_open,
        _open,
        (
            "nb open analysis.ipynb",
            "nb open new.ipynb --kernel ir   # a new notebook, for R",
            "nb open --sandbox work.ipynb    # no network, access to this folder only",
            "nb open a.ipynb --server http://localhost:8888/",
        ),
        answers=(NotebookUsed,),
    ),
    Command(
        "status",
        "Show what is open and what runs.",
        _nothing,
        _status,
        ("nb status --json",),
        answers=(Status,),
    ),
    Command(
        "serve",
        "Share the notebook's kernel with VS Code, JupyterLab and consoles.",
        _configure_serve,
        _serve,
        ("nb serve", "nb serve --off"),
        answers=(Shared, SharingStopped),
    ),
    Command(
        "lab",
        "Open JupyterLab on this project's server, with its kernels and variables.",
        _configure_lab,
        _lab,
        ("nb lab", "nb lab analysis.ipynb --no-browser"),
        answers=(Lab,),
    ),
    Command(
        "mcp",
        "Serve MCP over standard input and output, for agents that start MCP servers themselves.",
        _configure_mcp,
        _mcp,
        ("claude mcp add nb -- nb mcp", "nb mcp --toolsets default,claude-code --mode plan"),
    ),
    Command(
        "shutdown",
        "Stop this project's kernels and its server, and clean up.",
        _nothing,
        _shutdown,
        ("nb shutdown",),
        answers=(Stopped,),
    ),
)
