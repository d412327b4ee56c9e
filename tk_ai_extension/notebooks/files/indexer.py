"""Reads large notebooks in a worker process: json's C code would block this one for a second or more.

`Indexer` starts ``tk_ai_extension.notebooks.files.indexing`` for the first large file, sends it one request
at a time, and closes it when it was idle for a while. A request is a line of JSON; a response is its
length in eight bytes (big-endian) and the output of `indexing.encode`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tk_ai_extension.model.errors import InternalError, InvalidNotebook
from tk_ai_extension.notebooks.files.indexing import IndexedFile, decode

IDLE = 60.0
"""Seconds without a request after which the worker process is closed."""


class Indexer:
    """Reads large notebook files in a worker process."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    async def read(self, path: Path, name: str, now_ns: int) -> IndexedFile:
        """Read a file as `index_file` does.

        Raises:
            InvalidNotebook, OSError, InternalError (the worker process died).
        """
        async with self._lock:
            process = await self._ensure_started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                request = json.dumps({"path": str(path), "name": name, "now_ns": now_ns})
                process.stdin.write(request.encode() + b"\n")
                await process.stdin.drain()
                size = int.from_bytes(await process.stdout.readexactly(8), "big")
                data = await process.stdout.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                await self._stop()
                raise InternalError(f"The process that reads {name} died.") from error
            except BaseException:
                # Cancelled midway: the worker's next response would belong to no request.
                await self._stop()
                raise
        answer = await asyncio.to_thread(decode, data)
        if answer[0] == "ok":
            return answer[1]
        if answer[0] == "error":
            raise OSError(answer[1], answer[2], str(path))
        message, details = answer[1:]
        raise InvalidNotebook(message, **details)

    async def close(self) -> None:
        """End the worker process."""
        async with self._lock:
            await self._stop()

    async def _ensure_started(self) -> asyncio.subprocess.Process:
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
        self._idle = loop.call_later(IDLE, self._close_idle)
        if self._process is None or self._process.returncode is not None:
            package = Path(__file__).parents[2]
            paths = [str(package), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                # -P: nothing is imported from the working directory. Not -m: pickled classes must
                # belong to the importable module, not to `__main__`.
                "-P",
                "-c",
                "from tk_ai_extension.notebooks.files.indexing import main; main()",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            )
        return self._process

    def _close_idle(self) -> None:
        # The process ends with its input.
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process = None

    async def _stop(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
