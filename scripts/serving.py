"""Start, find and stop a Jupyter Server in a separate process.

For the scripts and the benchmarks. It uses the installed extension.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir
from tornado.httpclient import AsyncHTTPClient

STARTING = 60
"""Timeout of a start, in seconds."""
STOPPING = 10
"""Timeout for a server to stop its kernels, in seconds."""


class ServerFailed(Exception):
    """The server did not come up, or came up without the extension."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running Jupyter Server, as its runtime file describes it.

    Attributes:
        url: With scheme, port and base URL, ending in a slash.
        token: For authentication; empty if the user's configuration needs none.
    """

    url: str
    token: str

    @property
    def mcp(self) -> str:
        """The address of the MCP server."""
        return f"{self.url}api/tk-ai/mcp"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that a client sends."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def own_folders(folder: Path) -> dict[str, str]:
    """This process's environment, with the user's files of Jupyter and IPython below ``folder``.

    Everything installed with Python (kernelspecs, enabled extensions) still applies; the user's own
    configuration does not.
    """
    own = {
        "JUPYTER_CONFIG_DIR": folder / "config",
        "JUPYTER_DATA_DIR": folder / "data",
        "JUPYTER_RUNTIME_DIR": folder / "runtime",
        "IPYTHONDIR": folder / "ipython",
    }
    for path in own.values():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {**os.environ, **{name: str(path) for name, path in own.items()}}


def allow_root() -> list[str]:
    """The option that lets Jupyter run as root; empty for other users."""
    return ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def server_command(root: Path, *options: str, port: int = 0) -> list[str]:
    """The command line of ``jupyter server`` for a folder. Port 0 lets the system choose a free one."""
    return [
        *(sys.executable, "-m", "jupyter_server"),
        *(f"--ServerApp.root_dir={root}", f"--ServerApp.port={port}", "--no-browser"),
        *(*allow_root(), *options),
    ]


async def started(
    process: asyncio.subprocess.Process, runtime_folder: Path | None = None
) -> Server:
    """The server, once it listens.

    Jupyter writes its runtime file a moment before it listens, and gives no notification of either.

    Raises:
        ServerFailed: It ended, or did not answer for `STARTING` seconds.
    """
    folder = runtime_folder or Path(jupyter_runtime_dir())
    runtime_file = folder / f"jpserver-{process.pid}.json"
    try:
        async with asyncio.timeout(STARTING):
            while process.returncode is None:
                try:
                    info = json.loads(runtime_file.read_text(encoding="utf-8"))
                    _, writer = await asyncio.open_connection(info["hostname"], info["port"])
                except (FileNotFoundError, json.JSONDecodeError, ConnectionError):
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return Server(info["url"], info["token"])
    except TimeoutError:
        message = f"The server did not start within {STARTING} s"
    else:
        message = f"The server ended with exit code {process.returncode}"
    raise ServerFailed(message)


async def check_extension(server: Server) -> None:
    """Check that the extension answers before its address is published.

    Raises:
        ServerFailed: It does not.
    """
    response = await AsyncHTTPClient().fetch(
        f"{server.url}api/tk-ai/health",
        headers=server.headers,
        request_timeout=STARTING,
        raise_error=False,
    )
    if response.code != 200:
        message = f"The server runs without the extension (its health answers {response.code})"
        raise ServerFailed(message)


def end_of(log: Path) -> str:
    """The end of a server's log."""
    return log.read_text(encoding="utf-8", errors="replace")[-4000:]


async def stopped(process: asyncio.subprocess.Process) -> None:
    """Stop the server and its kernels, in the end by force."""
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(STOPPING):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def serving(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
) -> AsyncGenerator[Server]:
    """A server with the extension, which runs inside the block and is stopped with its kernels after it.

    Args:
        command: Its command line.
        folder: Its working directory, where collaboration keeps its history.
        environment: Its whole environment, as `own_folders` gives it.
        log: Takes what it writes.

    Raises:
        ServerFailed: It did not come up; the end of its log is in the message.
    """
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            # Ctrl-C reaches this process alone, which then stops the server without a question.
            start_new_session=True,
        )
    try:
        try:
            server = await started(process, Path(environment["JUPYTER_RUNTIME_DIR"]))
            await check_extension(server)
        except ServerFailed as error:
            raise ServerFailed(f"{error}. The end of its log:\n{end_of(log)}") from error
        yield server
    finally:
        await stopped(process)
