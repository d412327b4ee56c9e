"""The start of `jupyter server` with the extension, beside the same without it."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from pathlib import Path

from family import Options, main
from measure import Row, interleaved, seconds, timed
from serving import own_folders, server_command

SAMPLES = 12
DEADLINE = 60
TOKEN = "benchmark"
STATUS, HEALTH = "/api/status", "/api/tk-ai/health"


async def measure(options: Options) -> AsyncGenerator[Row]:
    """In turns, until the port answers."""
    starts = Starts(options.folder, options.new_folder("root"))
    try:
        without, with_it = await interleaved(
            options.count(SAMPLES),
            lambda: starts.until_answered(extension=False),
            lambda: starts.until_answered(extension=True),
            between=starts.stop,
            warm_ups=1,
        )
        yield timed(
            "jupyter server with the extension, until it answers", with_it, without, above=150
        )
        status, health = [], []
        for path, samples in ((STATUS, status), (HEALTH, health)) * options.count(SAMPLES // 2):
            await starts.until_answered(extension=True)
            samples.append(await seconds(partial(starts.get, path)))
            await starts.stop()
        yield timed("the first health of a server (floor: its first status)", health, status)
    finally:
        await starts.stop()


class Starts:
    """Starts servers, one at a time."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None

    async def until_answered(self, *, extension: bool) -> None:
        """Starts a server and waits until a request is answered."""
        self._port = free_port()
        self._process = await asyncio.create_subprocess_exec(
            *server_command(
                self._root,
                f"--ServerApp.jpserver_extensions=tk_ai_extension={extension}",
                f"--IdentityProvider.token={TOKEN}",
                port=self._port,
            ),
            cwd=self._folder,
            # Without any other extension, whose imports ours would share.
            env=_environment(self._folder),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(DEADLINE):
            await answered(self._port)

    async def get(self, path: str) -> None:
        """Asks the server that was started."""
        async with asyncio.timeout(DEADLINE):
            await answered(self._port, path)

    async def stop(self) -> None:
        """Ends the server; it has no kernels that would have to be stopped."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def _environment(folder: Path) -> dict[str, str]:
    """With compiled modules, as pip installs them: a checkout may be run without any.

    They are kept for these servers alone; the warm-ups write them.
    """
    environment = own_folders(folder)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**environment, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def free_port() -> int:
    """A port that nobody listens on just now.

    It is none of those that the system gives to outgoing connections: one that asks for the port
    again and again until somebody listens would sooner or later have been given that very port, and
    be connected to itself.
    """
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def answered(port: int, path: str = "/api") -> None:
    """Waits until a request is answered, for the server's version: nobody says when a port opens."""
    head = f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: token {TOKEN}"
    request = "\r\n".join((*head, "Connection: close", "", "")).encode()
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            await asyncio.sleep(0.002)
            continue
        writer.write(request)
        line = await reader.readline()
        writer.close()
        assert b" 200 " in line, line
        return


if __name__ == "__main__":
    main(measure, __doc__)
