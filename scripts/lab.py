"""Start JupyterLab with the extension on the example notebook, and say how an agent connects.

    python scripts/lab.py [--port PORT] [--root FOLDER]

The example is copied to `playground/` once, so that a person's changes are kept. The server
takes a free port and a new token; Ctrl-C stops it with its kernels.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
import webbrowser
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir
from serving import Server, ServerFailed, allow_root, check_extension, end_of, started, stopped

PROJECT = Path(__file__).resolve().parent.parent
EXAMPLES = PROJECT / "examples"
NOTEBOOK = "coffee.ipynb"
SETTINGS = PROJECT / "scripts" / "lab_settings"
"""JupyterLab's defaults here, which the person's own settings override."""


def lab_address(server: Server) -> str:
    """The address that opens the example in a browser."""
    query = f"?token={server.token}" if server.token else ""
    return f"{server.url}lab/tree/{NOTEBOOK}{query}"


def connect_command(server: Server) -> str:
    """The command that connects Claude Code."""
    command = ["claude", "mcp", "add", "--transport", "http", "tk-ai", server.mcp]
    if server.token:
        command += ["--header", f"Authorization: Bearer {server.token}"]
    return shlex.join(command)


def chat_command(server: Server) -> str:
    """The command that sends Claude, or without a model the tour, a message about the example."""
    command = ["curl", f"{server.mcp}/chat", "-H", "Content-Type: application/json"]
    if server.token:
        command += ["-H", f"Authorization: token {server.token}"]
    message = {"message": "Show me", "notebook": NOTEBOOK, "mode": "auto"}
    return shlex.join([*command, "-d", json.dumps(message)])


def has_display() -> bool:
    """Whether a browser opened here would be visible."""
    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def playground(folder: Path) -> Path:
    """The folder with the person's copy of the example, made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / NOTEBOOK).exists():
        shutil.copy(EXAMPLES / NOTEBOOK, folder)
    return folder


def command(root: Path, port: int) -> list[str]:
    """JupyterLab's command line. Port 0 lets the system choose a free one."""
    options = [
        f"--ServerApp.root_dir={root}",
        f"--ServerApp.port={port}",
        f"--LabApp.default_url=/lab/tree/{NOTEBOOK}",
        # Nothing is fetched from elsewhere without the person's knowledge.
        "--LabApp.news_url=None",
        # Nor does JupyterLab ask about its news: the dialog would cover the chat.
        f"--LabApp.app_settings_dir={SETTINGS}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if port:
        options.append("--ServerApp.port_retries=0")
    if not has_display():
        options.append("--no-browser")
    return [sys.executable, "-m", "jupyterlab", *options, *allow_root()]


async def run(root: Path, port: int, log: Path) -> int:
    """Serve until it ends or a signal stops it; return the exit code."""
    print(f"Starting JupyterLab (its log: {log})", flush=True)
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, asked_to_stop.set)
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *command(root, port),
            # Where collaboration keeps its history.
            cwd=root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            # Ctrl-C reaches this process alone, which then stops the server without a question.
            start_new_session=True,
        )
    ended = asyncio.create_task(process.wait())
    asked = asyncio.create_task(asked_to_stop.wait())
    starting = asyncio.create_task(announced(process))
    try:
        await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (starting, asked):
            task.cancel()
        await stopped(process)
    if asked_to_stop.is_set():
        print("JupyterLab has stopped.")
        return 0
    return await ended


async def announced(process: asyncio.subprocess.Process) -> None:
    """Print the addresses and commands, once they work."""
    server = await started(process)
    await check_extension(server)
    print(
        f"\n  JupyterLab    {lab_address(server)}"
        f"\n  MCP           {server.mcp}"
        f"\n  Claude Code   {connect_command(server)}"
        f"\n  Chat          {chat_command(server)}"
        "\n\nCtrl-C stops JupyterLab and its kernels.",
        flush=True,
    )


def port_number(text: str) -> int:
    """A TCP port.

    Raises:
        ValueError: It is not a port.
    """
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError(port)
    return port


def main() -> int:
    """Parses the command line and serves."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=port_number, default=0, help="a free one where left out")
    parser.add_argument("--root", type=Path, default=PROJECT / "playground", help="folder served")
    arguments = parser.parse_args()
    root = playground(arguments.root.resolve())
    # Next to the runtime files, which only this user may read: the log contains the token.
    folder = Path(jupyter_runtime_dir())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder / "tk-ai-lab.log"
    try:
        return asyncio.run(run(root, arguments.port, log))
    except ServerFailed as error:
        print(f"{error}. The end of {log}:\n", file=sys.stderr)
        sys.stderr.write(end_of(log))
        return 1


if __name__ == "__main__":
    sys.exit(main())
