"""Jupyter servers in separate processes, as a user starts them."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

START = 60.0
"""Timeout for a server to start, in seconds, on a busy machine."""

ENABLED = """\
c = get_config()
c.ServerApp.jpserver_extensions = {"tk_ai_extension": True, "jupyter_server_nbmodel": True}
"""
PAGES = ("jupyterlab", "jupyter_lsp", "notebook", "notebook_shim")
"""The extensions with the pages that people open: half of a server's start."""
WITHOUT_NODE = """
c.LanguageServerManager.autodetect = False
import jupyterlab.commands
jupyterlab.commands._yarn_config = lambda logger: {"yarn config": {}}
jupyterlab.commands._node_check = lambda logger: None
"""
"""A third of the start of JupyterLab: it asks node for language servers, a registry and its version."""
WITHOUT_EXPORT = """
from jupyter_server.services.nbconvert.handlers import NbconvertRootHandler
NbconvertRootHandler.get = lambda handler: handler.finish("{}")
from jupyterlab_server import settings_utils
settings_utils.Validator.check_schema = lambda *_, **__: None
"""
"""Half of what a server does for each page that is loaded: it makes all of nbconvert's exporters, for a
menu, and checks the schemas of all settings."""
WITHOUT_PAGES = f"c.ServerApp.jpserver_extensions.update(dict.fromkeys({PAGES}, False))\n"


@dataclass
class Log:
    """The log of a server, with a way to wait for a line."""

    lines: list[str] = field(default_factory=list)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _ended: bool = False

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self.lines)

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Takes lines until the stream ends."""
        async for line in stream:
            async with self._arrived:
                self.lines.append(line.decode("utf-8", "replace"))
                self._arrived.notify_all()
        async with self._arrived:
            self._ended = True
            self._arrived.notify_all()

    async def line(self, part: str, within: float = START) -> str:
        """The first line that contains this."""

        def found() -> str | None:
            return next((line for line in self.lines if part in line), None)

        async with asyncio.timeout(within), self._arrived:
            await self._arrived.wait_for(lambda: found() is not None or self._ended)
        line = found()
        assert line is not None, f"The server ended without `{part}`:\n{self.text}"
        return line


@dataclass
class ServerProcess:
    """A running ``jupyter server``.

    Attributes:
        url: With scheme, port and base URL, ending in a slash.
        home: The folder with its configuration, data and runtime folders.
    """

    process: asyncio.subprocess.Process
    url: str
    token: str
    root: Path
    home: Path
    log: Log

    @property
    def headers(self) -> dict[str, str]:
        """The authentication of a request."""
        return {"Authorization": f"token {self.token}"}

    async def stop(self, number: int = signal.SIGTERM, within: float = 30) -> int:
        """Sends a signal and waits for the end; the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), within)


def slowness() -> float:
    """How many times longer things take on this machine now than on one that has nothing to do."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


StartServer = Callable[..., Awaitable[ServerProcess]]


@asynccontextmanager
async def servers(folder: Path, *, pages: bool = False) -> AsyncGenerator[StartServer]:
    """Starts ``jupyter server`` in its own folders; arguments are its command line's.

    With ``pages`` they have JupyterLab and Jupyter Notebook, too.

    ``config`` is the text of its configuration file; with ``beside``, it has the folders of another
    server, running or not. ``port`` is 0 for a free one. Other keywords are environment variables.
    """
    started: list[tuple[ServerProcess, asyncio.Task[None]]] = []

    async def start(
        *arguments: str,
        config: str = "",
        beside: ServerProcess | None = None,
        port: int = 0,
        **environment: str,
    ) -> ServerProcess:
        home, token = folder / f"server{len(started)}", secrets.token_hex()
        if beside is not None:
            home, token = beside.home, beside.token
        root = home / "root"
        for made in (root, home / "config", home / "data"):
            made.mkdir(parents=True, exist_ok=True)
        extensions = WITHOUT_NODE + WITHOUT_EXPORT if pages else WITHOUT_PAGES
        (home / "config" / "jupyter_server_config.py").write_text(
            f"{ENABLED}{extensions}c.IdentityProvider.token = {token!r}\n{config}"
        )
        env = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "IPYTHONDIR": str(home / "ipython"),
            **environment,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "jupyter_server",
            f"--ServerApp.root_dir={root}",
            f"--ServerApp.port={port}",
            "--no-browser",
            "--allow-root",
            *arguments,
            # jupyter-collaboration keeps the history of rooms in the working directory.
            cwd=home,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        server = ServerProcess(process, "", token, root, home, Log())
        started.append((server, asyncio.create_task(server.log.read(process.stderr))))
        server.url = (await server.log.line("http://127.0.0.1:")).split()[-1].partition("?")[0]
        await _listening(server.url)
        return server

    try:
        yield start
    finally:
        for server, reading in started:
            if server.process.returncode is None:
                await server.stop(signal.SIGKILL)
            await reading


@pytest.fixture
async def start_server(tmp_path: Path) -> AsyncIterator[StartServer]:
    """Starts servers that end with the test."""
    async with servers(tmp_path) as start:
        yield start


async def _listening(url: str) -> None:
    """Waits until a server listens: it prints its address a moment before."""
    address = urlsplit(url)
    async with asyncio.timeout(START):
        while True:
            try:
                _, writer = await asyncio.open_connection(address.hostname, address.port)
            except ConnectionRefusedError:
                continue
            writer.close()
            return
