"""Jupyter Servers that hang, that get the extension later, or are restarted."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli.connecting import COMMANDS, NoAnswer, Refused, ServerEndpoint
from tk_ai_extension.cli.servers import NOT_ASKED, Servers
from tk_ai_extension.model.errors import OpenElsewhere

HEALTHY = b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"version":"1.0"}'
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
PAGE = b"Content-Type: text/html\r\nContent-Length: 13\r\n\r\n<p>Sorry.</p>"
REASON = b'Content-Length: 61\r\n\r\n{"error": {"message": "Two clients.", "hint": "Update one."}}'


@dataclass
class Stub:
    """What listens where a server says that it does.

    Attributes:
        runtime: The folder in which it says so.
        root: The folder of its notebooks.
        answer: What it answers; nothing at all where it is empty.
        closes: Whether it closes the connection after its answer.
        pid: The process that it says it is.
        together: What it waits for before it answers.
        asked: What it was asked.
    """

    runtime: Path
    root: Path
    port: int = 0
    answer: bytes = b""
    closes: bool = True
    pid: int = field(default_factory=os.getpid)
    together: asyncio.Barrier | None = None
    asked: list[str] = field(default_factory=list[str])
    open: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.append(writer)
        self.asked.append((await reader.readline()).decode().split()[1])
        if self.together is not None:
            await self.together.wait()
        if self.answer:
            writer.write(self.answer)
            if self.closes:
                writer.close()

    def announce(self) -> None:
        """Says in the runtime folder that it has just started."""
        entry = {
            "url": f"http://127.0.0.1:{self.port}/",
            "token": "",
            "root_dir": str(self.root),
        }
        (self.runtime / f"jpserver-{self.pid}.json").write_text(json.dumps(entry))


@pytest.fixture
async def stub(tmp_path: Path) -> AsyncIterator[Stub]:
    made = Stub(tmp_path / "runtime", tmp_path / "project")
    made.runtime.mkdir()
    made.root.mkdir(exist_ok=True)
    async with listens(made):
        yield made


@asynccontextmanager
async def listens(made: Stub) -> AsyncGenerator[None]:
    """Has a stub listen, and say so."""
    listening = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    made.announce()
    yield
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
    monkeypatch.setenv("NB_ANSWER_TIMEOUT", "0.4")
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
    monkeypatch.setenv("NB_ANSWER_TIMEOUT", "120")
    server = await found.owner_of(path)
    assert server is not None
    assert server.root == stub.root
    assert found.unresponsive_over(path) == []


async def test_servers_in_folders_of_each_other_are_asked_at_once(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither answers before both were asked.
    monkeypatch.setenv("NB_ANSWER_TIMEOUT", "2000")
    together = asyncio.Barrier(2)
    below = Stub(stub.runtime, stub.root / "below", pid=os.getppid(), together=together)
    below.root.mkdir()
    below.answer, stub.answer, stub.together = MISSING, HEALTHY, together
    async with listens(below):
        server = await Servers(stub.runtime).owner_of(below.root / "a.ipynb")
    assert server is not None
    assert server.root == stub.root


async def test_a_server_further_up_that_hangs_is_not_waited_for(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NB_ANSWER_TIMEOUT", "2000")
    below = Stub(stub.runtime, stub.root / "below", pid=os.getppid(), answer=HEALTHY)
    below.root.mkdir()
    async with listens(below):
        server = await Servers(stub.runtime).owner_of(below.root / "a.ipynb")
    assert server is not None
    assert server.root == below.root


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


async def test_a_server_that_is_restarted_is_asked_again(stub: Stub) -> None:
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


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"404 Not Found\r\n" + PAGE, "as a Jupyter Server with tk-ai-extension does"),
        (b"403 Forbidden\r\n" + PAGE, "as a Jupyter Server with tk-ai-extension does"),
        (b"302 Found\r\n\r\n", "as a Jupyter Server with tk-ai-extension does"),
        (b"400 Bad Request\r\n" + REASON, "Two clients. Update one."),
    ],
    ids=["missing", "token", "redirect", "reason"],
)
async def test_a_refusal_is_known_at_once_though_the_connection_stays_open(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, answer: bytes, message: str
) -> None:
    # Longer than the test may take.
    monkeypatch.setenv("NB_ANSWER_TIMEOUT", "1000")
    stub.answer, stub.closes = b"HTTP/1.1 " + answer, False
    server = ServerEndpoint(f"http://127.0.0.1:{stub.port}/", "")
    with pytest.raises((NoAnswer, Refused), match=message):
        await asyncio.to_thread(server.open, COMMANDS)


async def test_reading_beside_a_server_that_hangs_warns(nb: Nb, stub: Stub) -> None:
    stub.root, nb.environment["JUPYTER_RUNTIME_DIR"] = nb.root, str(stub.runtime)
    nb.environment["NB_ANSWER_TIMEOUT"] = "1"
    stub.announce()
    nb.notebook("a.ipynb", "x = 1")
    read = await asyncio.to_thread(nb, "read", "a.ipynb")
    assert "does not answer: this is a.ipynb as it is on disk" in read.err
    # The command and what it runs in wait for it once.
    assert stub.asked == ["/api/tk-ai/commands"]
    assert read.out.startswith("# %% notebook: a.ipynb")
