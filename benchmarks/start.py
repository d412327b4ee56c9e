"""Start and memory of a server with the extension, compared with one without it, and `nb`'s commands."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path

from measure import (
    CODE,
    Row,
    in_turns,
    main,
    memory,
    own_folders,
    run,
    server_command,
    timed,
    write,
)
from serving import started, stopped

COMMANDS = {
    "nb cells": ("cells", "-n", "cells.ipynb"),
    "nb exec, warm kernel": ("exec", "0", "-n", "cells.ipynb"),
}


async def measure(folder: Path, limited: Callable[[int], int]) -> AsyncGenerator[Row]:
    """Measure starts of servers, and whole warm commands compared with an empty Python."""
    starts = Starts(folder)
    without, with_it = await in_turns(
        limited(10),
        partial(starts.start, "False"),
        partial(starts.start, "True"),
        between=starts.stop,
        warm_ups=1,
    )
    yield timed("jupyter server with the extension (floor: without)", with_it, without, above=30)
    idle = {state: await starts.memory(state) for state in ("False", "True")}
    yield Row("memory of an idle server (floor: without)", idle["True"], "MB", idle["False"])

    project = folder / "project"
    project.mkdir()
    write(project / "cells.ipynb", [CODE] * 50)
    nb = Path(sys.executable).parent / "nb"
    for arguments in COMMANDS.values():
        await run(project, nb, *arguments)
    for name, arguments in COMMANDS.items():
        empty, command = await in_turns(
            limited(15),
            partial(run, project, sys.executable, "-c", ""),
            partial(run, project, nb, *arguments),
        )
        yield timed(f"{name} (floor: an empty Python)", command, empty, above=120)
    await run(project, nb, "shutdown")


class Starts:
    """Starts servers, one at a time, in separate folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = own_folders(folder / "jupyter") | {"JUPYTER_NO_CONFIG": "1"}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, extension: str) -> None:
        """Start a server and wait until it listens."""
        options = f"--ServerApp.jpserver_extensions=tk_ai_extension={extension}"
        self._process = await asyncio.create_subprocess_exec(
            *server_command(self._folder, options),
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await started(self._process, Path(self._environment["JUPYTER_RUNTIME_DIR"]))

    async def memory(self, extension: str) -> float:
        """Return the memory of a server, in MB, shortly after its start."""
        await self.start(extension)
        await asyncio.sleep(2)
        assert self._process is not None
        used = memory(self._process.pid)
        await self.stop()
        return round(used, 1)

    async def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            await stopped(self._process)


if __name__ == "__main__":
    main(measure, __doc__)
