"""Jupyter Servers that hang, that get the extension later, or are started anew."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli import servers
from tk_ai_extension.cli.servers import NOT_ASKED, Servers
from tk_ai_extension.model.errors import OpenElsewhere

HEALTHY = b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"version":"1.0"}'
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@dataclass
class Stub:
    """What listens where a server says that it does.

    Attributes:
        runtime: The folder in which it says so.
        root: The folder of its notebooks.
        answer: What it answers; nothing at all where it is empty.
        asked: What it was asked.
    """

    runtime: Path
    root: Path
    port: int = 0
    answer: bytes = b""
    asked: list[str] = field(default_factory=list[str])
    open: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.append(writer)
        self.asked.append((await reader.readline()).decode().split()[1])
        if self.answer:
            writer.write(self.answer)
            writer.close()

    def announce(self) -> None:
        """Says in the runtime folder that it has just started."""
        entry = {
            "url": f"http://127.0.0.1:{self.port}/",
            "token": "",
            "root_dir": str(self.root),
        }
        (self.runtime / f"jpserver-{os.getpid()}.json").write_text(json.dumps(entry))


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[Stub]:
    made = Stub(tmp_path / "runtime", tmp_path / "project")
    made.runtime.mkdir()
    made.root.mkdir(exist_ok=True)
    listening = await asyncio.start_server(made.hear, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    made.announce()
    yield made
    listening.close()
    for writer in made.open:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in made.open))


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_server_that_hangs_is_waited_for_once_in_a_while(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "REPLY_TIMEOUT", 0.2)
    clock, path = Clock(), stub.root / "a.ipynb"
    found = Servers(stub.runtime, clock=clock)
    assert await found.owner_of(path) is None
    assert await found.owner_of(path) is None
    assert [server.root for server in found.unresponsive_over(path)] == [stub.root]
    with pytest.raises(OpenElsewhere, match="is asked again in 30 s"):
        await found.owner_of(path, "WRITE")
    assert stub.asked == ["/api/tk-ai/health"]
    clock.now += NOT_ASKED
    stub.answer = HEALTHY
    monkeypatch.setattr(servers, "REPLY_TIMEOUT", 60.0)
    server = await found.owner_of(path)
    assert server is not None
    assert server.root == stub.root
    assert found.unresponsive_over(path) == []


async def test_a_server_may_get_the_extension(stub: Stub) -> None:
    clock, path = Clock(), stub.root / "a.ipynb"
    found = Servers(stub.runtime, clock=clock)
    stub.answer = MISSING
    assert await found.owner_of(path) is None
    stub.answer = HEALTHY
    assert await found.owner_of(path) is None
    clock.now += NOT_ASKED
    assert await found.owner_of(path) is not None
    assert len(stub.asked) == 2


async def test_a_server_that_is_started_anew_is_asked_anew(stub: Stub) -> None:
    path = stub.root / "a.ipynb"
    found = Servers(stub.runtime, clock=Clock())
    stub.answer = MISSING
    assert await found.owner_of(path) is None
    stub.answer = HEALTHY
    file = stub.runtime / f"jpserver-{os.getpid()}.json"
    started = file.stat().st_mtime_ns
    stub.announce()
    os.utime(file, ns=(started + 1, started + 1))
    assert await found.owner_of(path) is not None


async def test_who_reads_beside_a_server_that_hangs_is_told(nb: Nb, stub: Stub) -> None:
    stub.root, nb.environment["JUPYTER_RUNTIME_DIR"] = nb.root, str(stub.runtime)
    stub.announce()
    nb.notebook("a.ipynb", "x = 1")
    read = await asyncio.to_thread(nb, "read", "a.ipynb")
    assert "does not answer: this is a.ipynb as it is on disk" in read.err
    assert read.out.startswith("# %% notebook: a.ipynb")
