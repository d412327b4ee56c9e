"""Show an agent's work in a real notebook: each call, and what the agent reads.

    python scripts/demo.py

A Jupyter Server starts on a free port with a copy of the example, the official MCP client connects
to it, and everything is removed afterwards. Exits with 1 if an answer is not as expected.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import mcp_types as types
import nbformat
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from PIL import Image
from serving import Server, ServerFailed, own_folders, server_command, serving

PROJECT = Path(__file__).resolve().parent.parent
NOTEBOOK = "coffee.ipynb"

DEADLINE = 120
"""Timeout of the demo, in seconds."""

# With jupyter-collaboration the notebook would be a live room. It works the same there, and this
# shows what holds on every server.
NO_ROOMS = "--ServerApp.jpserver_extensions=jupyter_server_ydoc=False"

ROUNDER = """\
left_over = celsius - (room + (start - room) * np.exp(-minutes / tau))
rms = np.sqrt(np.mean(left_over**2))
print(f"root mean square {rms:.2f} °C, largest {np.abs(left_over).max():.2f} °C")"""

QUESTION = """\
at_60 = -tau * np.log((60 - room) / (start - room))
print(f"60 °C after {at_60:.1f} minutes")"""

PLOT = """\
figure, axes = plt.subplots(figsize=(7, 2.5))
axes.stem(minutes, left_over)
axes.set(xlabel="minutes", ylabel="°C", title="What the law leaves over")
plt.show()"""

MISTAKE = """\
def slope_of(first):
    return np.polyfit(minutes, np.log(celsius[:first] - room), 1)[0]


slope_of(10)"""

TYPED = "# The thermometer reads to a tenth of a degree.\n"
"""What a person types in the meantime."""

AGENTS = "print(left_over)"
"""What the agent would have written over it."""


class Different(Exception):
    """An answer is not as expected."""


# -- the screen ------------------------------------------------------------------------------------


class Screen:
    """Prints the calls and answers, between 60 and 100 columns wide."""

    BOLD, DIM, RED, BLUE = "1", "2", "31", "36"

    def __init__(self) -> None:
        self.width = min(max(shutil.get_terminal_size((96, 24)).columns, 60), 100)
        self._coloured = (
            sys.stdout.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line at once."""
        if style and self._coloured and text:
            text = f"\x1b[{style}m{text}\x1b[0m"
        print(text, flush=True)

    def boxed(self, text: str, mark: str, style: str = "") -> None:
        """Print text behind a mark, with long lines wrapped."""
        for line in text.split("\n"):
            for number, piece in enumerate(self._pieces(line)):
                self.line(f"   {'┊' if number else mark} {piece}".rstrip(), style)

    def call(self, number: int, name: str, arguments: Mapping[str, Any]) -> None:
        """Print a call, with code below it."""
        short = {k: v for k, v in arguments.items() if "\n" not in str(v)}
        shown = "  ".join(f"{key}={value}" for key, value in short.items())
        self.line()
        self.line(f"{number:2} {name}  {shown}".rstrip(), self.BOLD)
        for value in (v for k, v in arguments.items() if k not in short):
            self.boxed(value, ">", self.BLUE)

    def measured(self, text: str) -> None:
        """Print the duration and the length of the answer."""
        self.line(f"   └ {text}", self.DIM)

    def _pieces(self, line: str) -> Iterator[str]:
        room = self.width - 5
        while len(line) > room:
            # Between words where there are some in the last third.
            at = line.rfind(" ", room * 2 // 3, room) + 1 or room
            yield line[:at]
            line = line[at:]
        yield line


# -- the agent and the person ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered.

    Attributes:
        text: What a model reads.
        images: The pictures that it sees, as bytes.
        data: The structured reading.
    """

    tool: str
    text: str
    images: tuple[bytes, ...]
    data: Mapping[str, Any]

    def says(self, *parts: str) -> None:
        """Check that the text has all these parts.

        Raises:
            Different: It lacks one.
        """
        for part in parts:
            if part not in self.text:
                raise Different(f"{self.tool} should say {part!r}, and answered:\n{self.text}")


class Agent:
    """An MCP client that calls tools, and counts what it reads."""

    def __init__(self, client: Client, screen: Screen) -> None:
        self.characters = 0
        self._client = client
        self._screen = screen
        self._calls = 0

    async def tools(self) -> None:
        """Lists the tools, as every client does first."""
        self._calls += 1
        self._screen.call(self._calls, "tools/list", {})
        began = time.perf_counter()
        tools = (await self._client.list_tools()).tools
        took = time.perf_counter() - began
        fields = {"name", "description", "input_schema"}
        schemas = [
            tool.model_dump_json(by_alias=True, exclude_none=True, include=fields) for tool in tools
        ]
        self._screen.boxed(words([tool.name for tool in tools], self._screen.width - 5), "│")
        self._measured(took, sum(map(len, schemas)), f"{len(tools)} tools")
        missing = {"use_notebook", "execute_cell", "undo"} - {tool.name for tool in tools}
        if missing:
            raise Different(f"There is no {', '.join(sorted(missing))}.")

    async def call(self, tool: str, *, fails: bool = False, **arguments: Any) -> Answer:
        """Call a tool and show its answer.

        Raises:
            Different: It failed unexpectedly, or succeeded unexpectedly.
        """
        self._calls += 1
        self._screen.call(self._calls, tool, arguments)
        began = time.perf_counter()
        result = await self._client.call_tool(tool, arguments)
        took = time.perf_counter() - began
        texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
        images = tuple(
            base64.b64decode(part.data)
            for part in result.content
            if isinstance(part, types.ImageContent)
        )
        text = "\n".join(texts)
        self._screen.boxed(text, "│", self._screen.RED if result.is_error else "")
        for image in images:
            self._screen.boxed(f"[{picture(image)}]", "│", self._screen.BLUE)
        self._measured(took, len(text))
        if bool(result.is_error) is not fails:
            raise Different(f"{tool} should {'fail' if fails else 'not fail'}.")
        return Answer(tool, text, images, result.structured_content or {})

    def _measured(self, seconds: float, characters: int, more: str = "") -> None:
        self.characters += characters
        parts = [more, f"{characters:,} characters", f"{seconds:.3f} s"]
        self._screen.measured(", ".join(part for part in parts if part))


class Person:
    """A person who has the notebook open in JupyterLab, types into it and saves."""

    def __init__(self, http: httpx2.AsyncClient, server: Server, screen: Screen) -> None:
        self._http = http
        self._address = f"{server.url}api/contents/{quote(NOTEBOOK)}"
        self._screen = screen

    async def types_into(self, cell: str, text: str) -> None:
        """Puts text before a cell's source, as JupyterLab saves it."""
        self._screen.line()
        self._screen.line(f"   In the meantime a person types into @{cell} and saves:", Screen.BOLD)
        self._screen.boxed(text.rstrip("\n"), ">", Screen.BLUE)
        model = (await self._http.get(self._address)).raise_for_status().json()
        found = next(each for each in model["content"]["cells"] if each["id"] == cell)
        found["source"] = text + found["source"]
        saved = {key: model[key] for key in ("type", "format", "content")}
        (await self._http.put(self._address, json=saved)).raise_for_status()


def picture(image: bytes) -> str:
    """Describe a picture."""
    with Image.open(io.BytesIO(image)) as opened:
        width, height = opened.size
        return f"{opened.get_format_mimetype()}, {width} by {height} pixels, {len(image):,} bytes"


def words(names: Sequence[str], width: int) -> str:
    """Names in lines of a width."""
    lines = [""]
    for name in names:
        if lines[-1] and len(lines[-1]) + len(name) + 1 > width:
            lines.append("")
        lines[-1] += f" {name}" if lines[-1] else name
    return "\n".join(lines)


# -- what happens ----------------------------------------------------------------------------------


async def work(agent: Agent, person: Person) -> None:
    """Run the agent's calls in a notebook and check the answers.

    Raises:
        Different: An answer is not what it should be.
    """
    await agent.tools()

    used = await agent.call("use_notebook", notebook=NOTEBOOK)
    used.says(f"Using {NOTEBOOK} (6 cells)", "started")
    listed = await agent.call("list_cells")
    listed.says("6 cells", "import numpy as np", "never")
    read = await agent.call("read_notebook", view="reading")
    read.says("# How fast does coffee cool?", "np.polyfit")

    # A versioned address says which source is meant: a write to it is a compare-and-set.
    before = await agent.call("read_cell", cell="rest")
    before.says("left_over = celsius")
    changed = await agent.call("overwrite_cell", cell=before.data["address"], source=ROUNDER)
    changed.says("+rms = np.sqrt")

    ran = await agent.call("execute_cells", which="all")
    ran.says("16 readings over 30 minutes", "tau = ", "root mean square")
    see(ran, 1)
    answered = await agent.call("insert_and_execute_cell", source=QUESTION, after="rest")
    answered.says("60 °C after")
    plotted = await agent.call("insert_and_execute_cell", source=PLOT)
    see(plotted, 1)
    failed = await agent.call("insert_and_execute_cell", source=MISTAKE, fails=True)
    failed.says("TypeError", "slope_of(10)")

    await person.types_into("rest", TYPED)
    refused = await agent.call(
        "overwrite_cell", cell=changed.data["changes"][0]["address"], source=AGENTS, fails=True
    )
    refused.says("conflict", TYPED.strip())

    undone = await agent.call("undo")
    undone.says("Undone", "8 cells")
    history = await agent.call("notebook_history")
    history.says("(you)", "undid 1 change")


def see(answer: Answer, count: int) -> None:
    """Check the number of pictures.

    Raises:
        Different: There are others.
    """
    if len(answer.images) != count:
        raise Different(f"{answer.tool} should show {count} pictures, not {len(answer.images)}.")


def check_file(path: Path) -> None:
    """Check that the file has everybody's changes.

    Raises:
        Different: It lacks one.
    """
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    sources = {cell.id: cell.source for cell in notebook.cells}
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    facts = {
        "the person's line stands above the agent's": sources["rest"] == TYPED + ROUNDER,
        "the answer and the plot are there": {QUESTION, PLOT} <= set(sources.values()),
        "the mistake is gone": MISTAKE not in sources.values(),
        "both plots are saved": len(pictures) == 2,
    }
    for fact, holds in facts.items():
        if not holds:
            raise Different(f"In the file it should be so that {fact}:\n{json.dumps(sources)}")


async def demonstrate(screen: Screen, folder: Path) -> None:
    """Run the demo in an empty folder.

    Raises:
        Different: An answer is not what it should be.
        ServerFailed: The server did not come up.
    """
    began = time.perf_counter()
    root = folder / "notebooks"
    root.mkdir()
    shutil.copy(PROJECT / "examples" / NOTEBOOK, root)
    async with (
        asyncio.timeout(DEADLINE),
        serving(
            server_command(root, NO_ROOMS), folder, own_folders(folder), folder / "server.log"
        ) as server,
        # Ignore a proxy of the environment: this server is local.
        httpx2.AsyncClient(headers=server.headers, timeout=60, trust_env=False) as http,
        # With a session, which has a current notebook and an undo.
        Client(
            streamable_http_client(server.mcp, http_client=http),
            mode="legacy",
            client_info=types.Implementation(name="demo", version="1"),
        ) as client,
    ):
        up = time.perf_counter() - began
        screen.line(f"jupyter server is up at {server.url} after {up:.1f} s, with a copy of")
        screen.line(f"examples/{NOTEBOOK}. Below is what an agent calls there, and what it reads.")
        agent = Agent(client, screen)
        different: Different | None = None
        try:
            await work(agent, Person(http, server, screen))
            check_file(root / NOTEBOOK)
        except Different as error:
            # Raised below: the client's task groups would wrap it.
            different = error
    if different is not None:
        raise different
    took = time.perf_counter() - began
    screen.line()
    screen.line(
        f"All as it should be: {agent.characters:,} characters read by the agent, {took:.1f} s "
        f"({up:.1f} s to start).",
        Screen.BOLD,
    )


async def run(screen: Screen, folder: Path) -> None:
    """Run it; a signal to end stops the server first."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await demonstrate(screen, folder)


def main() -> int:
    """Run it in a temporary folder; return the exit code."""
    screen = Screen()
    try:
        # A kernel that was just stopped may still write to the folder.
        with tempfile.TemporaryDirectory(prefix="tk-ai-demo-", ignore_cleanup_errors=True) as name:
            asyncio.run(run(screen, Path(name).resolve()))
    except (Different, ServerFailed, TimeoutError) as error:
        screen.line()
        screen.line(str(error) or f"Nothing came for {DEADLINE} s.", Screen.RED)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
