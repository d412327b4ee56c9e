"""Measure work compared with its floor: a real server, the official MCP client, and medians of turns."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import nbformat
import psutil
import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.session import Session
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

PROJECT = Path(__file__).resolve().parent.parent
sys.path += [str(PROJECT / "scripts"), str(PROJECT)]

from serving import Server, own_folders, server_command, serving  # noqa: E402

from tests.support.tab_page import TabPage  # noqa: E402

DEADLINE = 300
"""Timeout of a script, in seconds. Its results until then count."""
SCALES = {"ms": 1_000.0, "s": 1.0}
WARM_UPS = 3
CODE = "1+1"

Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a piece of work compared with its floor.

    Attributes:
        work: What was done.
        value: The median, in ``unit``.
        unit: ms, s, characters, MB, or ``a second``.
        floor: The median of the floor, in the same unit.
        goal: The goal in words; empty if there is none.
        met: Whether the goal is met; None if there is none.
        facts: The number of samples and their spread.
        skipped: Why it was not measured.
    """

    work: str
    value: float
    unit: str
    floor: float | None = None
    goal: str = ""
    met: bool | None = None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    skipped: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the row as the results hold it."""
        return asdict(self) | {"ratio": self.ratio}

    @property
    def ratio(self) -> float | None:
        """How many times the floor it is."""
        return round(self.value / self.floor, 2) if self.floor else None

    def columns(self) -> tuple[str, ...]:
        """Return the fields as the tables show them."""
        if self.skipped:
            return (self.work, f"not measured: {self.skipped}", "", "", "", "")
        met = {True: "yes", False: "NO", None: ""}[self.met]
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        shown = (_number(self.value, self.unit), _number(self.floor, self.unit))
        return (self.work, *shown, ratio, self.goal, met)


HEADS = ("work", "median", "floor", "ratio", "goal", "met")


def text_table(rows: Sequence[Row]) -> str:
    """Return aligned columns for a terminal."""
    lines = [HEADS, *(row.columns() for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADS))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if unit == "characters" or value >= 1_000 else 1 if value >= 100 else 2
    return f"{value:,.{digits}f} {unit}"


def timed(
    work: str,
    samples: Sequence[float],
    floor: Sequence[float] | None = None,
    *,
    times: float | None = None,
    above: float | None = None,
    unit: str = "ms",
) -> Row:
    """Return a row of durations.

    Args:
        work: What was done.
        samples: Seconds that it took.
        floor: Seconds that the floor took, in the same run.
        times: The goal, as a factor of the floor.
        above: The goal, as a difference to the floor in ``unit``.
        unit: ms or s.
    """
    scaled = sorted(sample * SCALES[unit] for sample in samples)
    value = statistics.median(scaled)
    least = None if floor is None else statistics.median(floor) * SCALES[unit]
    goal, met = "", None
    if least is not None and times is not None:
        goal, met = f"at most {times:g} times", value <= least * times
    elif least is not None and above is not None:
        goal, met = f"at most + {above:g} {unit}", value <= least + above
    spread = {"samples": len(scaled), "least": round(scaled[0], 3), "most": round(scaled[-1], 3)}
    return Row(work, round(value, 3), unit, least and round(least, 3), goal, met, spread)


def at_most(work: str, value: float, bound: float, unit: str) -> Row:
    """Return a row with a fixed goal."""
    return Row(work, round(value, 3), unit, None, f"at most {bound:,g} {unit}", value <= bound)


def skipped(work: str, reason: str) -> Row:
    """Return a row that could not be measured."""
    return Row(work, 0.0, "", skipped=reason)


async def seconds(work: Work) -> float:
    """Return how long a piece of work takes."""
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def in_turns(
    count: int, *works: Work, between: Work | None = None, warm_ups: int = WARM_UPS
) -> list[list[float]]:
    """Return what each work takes, in turns, so that a busy machine slows all of them alike.

    Args:
        count: How many rounds.
        works: What is measured.
        between: Runs after each, and is not measured.
        warm_ups: Rounds that do not count.
    """
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(warm_ups + count):
        for samples, work in zip(taken, works, strict=True):
            took = await seconds(work)
            if between is not None:
                await between()
            if turn >= warm_ups:
                samples.append(took)
    return taken


async def run(folder: Path, *command: str | Path) -> None:
    """Run a command in a folder and wait for its end.

    Raises:
        AssertionError: It fails.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await process.wait() == 0, command


# -- a server and its client -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bench:
    """A server in a separate process, and its MCP client."""

    server: Server
    folder: Path
    root: Path
    http: httpx2.AsyncClient
    client: Client
    page: TabPage

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool over MCP and return its structured answer.

        Raises:
            AssertionError: The answer is an error.
        """
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        return answer.structured_content

    def calls(self, tool: str, **arguments: Any) -> Work:
        """Return a call as work for `in_turns`."""
        return lambda: self.call(tool, **arguments)

    async def notebook(self, name: str, cells: int, *, open_in: str = "a file") -> Any:
        """Write a notebook, use it, and open it in a page if asked for; return the tool's answer."""
        write(self.root / name, [CODE] * cells)
        if open_in == "a page":
            await self.page.open(name)
        return await self.call("use_notebook", notebook=name)

    @asynccontextmanager
    async def kernel_client(self, kernel_id: str) -> AsyncGenerator[KernelClient]:
        """Connect to a kernel as a bare client does."""
        info = self.folder / "runtime" / f"kernel-{kernel_id}.json"
        client = KernelClient(json.loads(info.read_text(encoding="utf-8")))
        try:
            await client.ready()
            yield client
        finally:
            client.close()


@asynccontextmanager
async def bench(folder: Path, name: str = "server") -> AsyncGenerator[Bench]:
    """Start a server with the extension, and connect a client and a page of JupyterLab to it."""
    home, root = folder / name, folder / f"{name}-root"
    root.mkdir()
    environment = own_folders(home) | {"JUPYTER_NO_CONFIG": "1"}
    command = server_command(root, "--ServerApp.jpserver_extensions=tk_ai_extension=True")
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            serving(command, home, environment, home / "server.log")
        )
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=server.headers, timeout=120, trust_env=False)
        )
        transport = streamable_http_client(server.mcp, http_client=http)
        client = await stack.enter_async_context(Client(transport, mode="legacy"))
        page = TabPage(server.url, server.token)
        stack.push_async_callback(page.close)
        await page.connect()
        yield Bench(server, home, root, http, client, page)


def write(path: Path, sources: Sequence[str]) -> Path:
    """Write a notebook of code cells; the id of cell 12 is ``cell12``."""
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": kernelspec})
    notebook.cells = [
        nbformat.v4.new_code_cell(source, id=f"cell{index}") for index, source in enumerate(sources)
    ]
    nbformat.write(notebook, path)
    return path


def memory(pid: int) -> float:
    """Return the memory of a process, in MB."""
    return psutil.Process(pid).memory_info().rss / 1e6


class KernelClient:
    """The floor: one bare `AsyncKernelClient` that stays open.

    Args:
        info: A kernel's connection file.
    """

    def __init__(self, info: Mapping[str, Any]) -> None:
        self._context = zmq.asyncio.Context()
        # With the default limit, a flood would lose messages, including its end.
        self._context.setsockopt(zmq.RCVHWM, 0)
        session = Session(key=info["key"].encode(), signature_scheme=info["signature_scheme"])
        self._client: Any = AsyncKernelClient(context=self._context, session=session)
        known: Any = {name: info[name] for name in ("transport", "ip")}
        known |= {name: port for name, port in info.items() if name.endswith("_port")}
        self._client.load_connection_info(known)
        self._client.start_channels(stdin=False, hb=False)

    async def ready(self) -> None:
        """Wait until the kernel has answered and iopub is subscribed."""
        while True:
            self._client.kernel_info()
            await self._client.get_shell_msg()
            try:
                async with asyncio.timeout(0.2):
                    await self._client.get_iopub_msg()
            except TimeoutError:
                continue
            return await self.drain()

    async def execute(self, code: str = CODE) -> None:
        """Run code until its reply and the kernel's idle message."""
        request = self._client.execute(code)
        while (await self._client.get_shell_msg())["parent_header"].get("msg_id") != request:
            pass
        while True:
            message = await self._client.get_iopub_msg()
            is_idle = message["content"].get("execution_state") == "idle"
            if is_idle and message["parent_header"].get("msg_id") == request:
                return

    async def drain(self) -> None:
        """Drop messages of others' requests until nothing more comes."""
        channel = self._client.iopub_channel
        while await channel.socket.poll(1):
            await channel.get_msg()

    def close(self) -> None:
        """Close the sockets."""
        self._client.stop_channels()
        self._context.destroy(linger=0)


# -- a script --------------------------------------------------------------------------------------

Measure = Callable[[Path, Callable[[int], int]], AsyncGenerator[Row]]
"""Yields rows as they are measured, from an empty folder and a function that limits repetitions."""


def main(measure: Measure, description: str | None) -> None:
    """Run a script alone: print its table, or write its rows for `run.py`."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, help="of each measurement, at most")
    parser.add_argument("--rows", type=Path, help="file for the rows, instead of a table")
    given = parser.parse_args()

    def limited(count: int) -> int:
        return count if given.repetitions is None else min(given.repetitions, count)

    with tempfile.TemporaryDirectory(prefix="tk-ai-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        os.chdir(folder)
        rows = asyncio.run(_rows(measure(folder, limited)))
        os.chdir(PROJECT)
    if given.rows is None:
        print(text_table(rows))
    else:
        given.rows.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


async def _rows(measured: AsyncGenerator[Row]) -> list[Row]:
    rows: list[Row] = []
    try:
        async with asyncio.timeout(DEADLINE), aclosing(measured) as found:
            async for row in found:
                rows.append(row)  # noqa: PERF401 - rows measured before the deadline count
    except TimeoutError:
        rows.append(skipped("the rest", f"{DEADLINE} s were over"))
    return rows
