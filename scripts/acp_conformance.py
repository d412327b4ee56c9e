"""Measure what real agents of the Agent Client Protocol can do in the chat, with scripted models.

    python scripts/acp_conformance.py --prefix FOLDER [NAME ...]

FOLDER is where npm has installed the agents: ``npm install --prefix FOLDER`` and the packages in
`AGENTS`. Each agent is driven over HTTP through a Jupyter Server, as the panel does. Prints the table of
docs/acp.md. Several agents first work in one notebook. Exits with 1 if an agent cannot complete a turn
with our tools, or if an undo reverts more than its own turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import nbformat
import psutil
from serving import own_folders, server_command, serving

# Before this folder, which has a module `tests`.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from acp_endpoints import Endpoints

from tests.support.directed_model import DirectedModel
from tests.support.scripted_model import MODEL

Json = dict[str, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TURN = 90.0
"""Timeout of a turn, in seconds."""


@dataclass(frozen=True)
class Agent:
    """An agent and how it is pointed to a scripted model.

    Attributes:
        package: Its package, as npm names it.
        shell: The call of its built-in tool that runs ``touch`` on a file.
        write: The call of its built-in tool that writes a text to a file.
        variables: Its variables, from the addresses of the endpoints and its own folder.
        model: The name in the list of models; by default its own name.
    """

    package: str
    shell: Callable[[str], tuple[str, Json]]
    write: Callable[[str], tuple[str, Json]]
    variables: Callable[[str, str, Path], Mapping[str, str]]
    model: str | None = None


def _codex(_messages: str, others: str, folder: Path) -> dict[str, str]:
    (folder / "config.toml").write_text(
        'model = "gpt-5.5"\nmodel_provider = "scripted"\n[model_providers.scripted]\n'
        f'name = "Scripted"\nbase_url = "{others}/openai/v1"\nenv_key = "OPENAI_API_KEY"\n'
        'wire_api = "responses"\n[analytics]\nenabled = false\n'
    )
    return {"CODEX_HOME": str(folder), "OPENAI_API_KEY": "any"}


OPENCODE_MODEL = {
    "attachment": True,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
}


def _opencode(messages: str, _others: str, folder: Path) -> dict[str, str]:
    options = {"baseURL": f"{messages}/v1", "apiKey": "sk-ant-scripted"}
    anthropic = {"options": options, "models": {MODEL: OPENCODE_MODEL}}
    config = {
        "model": f"anthropic/{MODEL}",
        "small_model": f"anthropic/{MODEL}",
        "provider": {"anthropic": anthropic},
        "autoupdate": False,
        "share": "disabled",
    }
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_TEST_HOME": str(folder)}


AGENTS: Mapping[str, Agent] = {
    "Claude (claude-agent-sdk)": Agent(
        "",
        lambda path: ("Bash", {"command": f"touch {path}"}),
        lambda path: ("Write", {"file_path": path, "content": "text"}),
        lambda _messages, _others, _folder: {},
        MODEL,
    ),
    "claude-agent-acp": Agent(
        "@agentclientprotocol/claude-agent-acp",
        lambda path: ("Bash", {"command": f"touch {path}", "description": "Touch"}),
        lambda path: ("Write", {"file_path": path, "content": "text"}),
        lambda _messages, _others, folder: {"CLAUDE_CONFIG_DIR": str(folder)},
    ),
    "codex-acp": Agent(
        "@agentclientprotocol/codex-acp",
        lambda path: ("exec_command", {"cmd": f"touch {path}"}),
        lambda path: ("exec_command", {"cmd": f"printf text > {path}"}),
        _codex,
    ),
    "gemini": Agent(
        "@google/gemini-cli",
        lambda path: ("run_shell_command", {"command": f"touch {path}"}),
        lambda path: ("write_file", {"file_path": path, "content": "text"}),
        lambda _messages, others, _folder: {
            "GEMINI_API_KEY": "any",
            "GOOGLE_GEMINI_BASE_URL": others,
        },
        "gemini:gemini-2.5-pro",
    ),
    "opencode": Agent(
        "opencode-ai",
        lambda path: ("bash", {"command": f"touch {path}", "description": "Touch"}),
        lambda path: ("write", {"filePath": path, "content": "text"}),
        _opencode,
    ),
}


@dataclass
class Measured:
    """Results of an agent; a dash for what cannot be measured."""

    version: str = "-"
    results: dict[str, str] = field(default_factory=dict)


class Client:
    """Client of the chat."""

    def __init__(self, url: str, headers: Mapping[str, str], model: str) -> None:
        self._http = httpx2.AsyncClient(base_url=f"{url}api/tk-ai/", headers=headers, timeout=TURN)
        self._model = model
        self.chat: str | None = None

    async def events(self, message: str, **fields: Any) -> AsyncGenerator[Json]:
        """Send a message and yield the events of its turn."""
        body = {"message": message, "model": self._model, "chat": self.chat, **fields}
        accept = {"Accept": "text/event-stream"}
        async with self._http.stream("POST", "mcp/chat", json=body, headers=accept) as response:
            if response.status_code != 200:
                raise RuntimeError((await response.aread()).decode()[:500])
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    if event["kind"] == "message":
                        self.chat = event["chat"]
                    yield event

    async def say(
        self, message: str, *, answer: str = "once", stop: str = "", **fields: Any
    ) -> list[Json]:
        """Send a message, answer what it asks, stop it at an event of a kind, and return its events."""
        found: list[Json] = []
        async with asyncio.timeout(TURN), aclosing(self.events(message, **fields)) as events:
            async for event in events:
                found.append(event)
                if event["kind"] == "permission":
                    await self.post(f"permissions/{event['id']}", {"answer": answer})
                if event["kind"] == stop:
                    await self.post(f"chats/{self.chat}/stop", {})
        return found

    async def post(self, path: str, body: Json) -> Json:
        """Send a request."""
        return (await self._http.post(path, json=body)).json()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def of_kind(events: list[Json], kind: str) -> list[Json]:
    """The events of a kind."""
    return [event for event in events if event["kind"] == kind]


def text_of(events: list[Json]) -> str:
    """The text of a turn, or its error."""
    errors = [event["error"]["message"] for event in of_kind(events, "error")]
    return "".join(event["text"] for event in of_kind(events, "text")) + " ".join(errors)


class Checks:
    """The checks of one agent.

    Args:
        client: Its client.
        agent: The agent.
        root: The server's root folder.
    """

    def __init__(self, client: Client, agent: Agent, root: Path) -> None:
        self._client = client
        self._agent = agent
        self._root = root
        path = root / "a.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("a = 1")]), path)

    def _sources(self) -> list[str]:
        return _sources(self._root / "a.ipynb")

    async def answer(self) -> str:
        """A turn without tools."""
        events = await self._client.say("Hello.", mode="auto")
        assert "Here." in text_of(events), text_of(events)
        return "yes"

    async def tools(self) -> str:
        """A call of our tool is one card, is journalled, and is undone with its turn."""
        insert = '@call insert_cell {"source": "b = 1"}'
        events = await self._client.say(insert, notebook="a.ipynb", mode="auto")
        assert self._sources() == ["a = 1", "b = 1"], text_of(events)
        called = [event["tool"] for event in of_kind(events, "tool_call")]
        assert called == ["insert_cell"], called
        undone = await self._client.post(
            f"chats/{self._client.chat}/undo", {"turn": events[0]["turn"]}
        )
        assert self._sources() == ["a = 1"], undone
        return "yes"

    async def approvals(self) -> str:
        """A call of our tool is asked about once."""
        insert = '@call insert_cell {"source": "c = 1"}'
        events = await self._client.say(insert, notebook="a.ipynb", mode="ask")
        assert len(of_kind(events, "permission")) == 1, of_kind(events, "permission")
        assert self._sources() == ["a = 1", "c = 1"], text_of(events)
        return "one card"

    async def own_tools(self) -> str:
        """Whether it asks before it runs a shell command, and obeys a denial."""
        file = self._root / "touched.txt"
        tool, arguments = self._agent.shell(str(file))
        events = await self._client.say(
            f"@call {tool} {json.dumps(arguments)}", answer="deny", mode="ask"
        )
        asked = bool(of_kind(events, "permission"))
        if file.exists():
            file.unlink()
            return "runs although denied" if asked else "runs without asking"
        if "Read-only file system" in text_of(events):
            return "in its read-only sandbox"
        return "asks" if asked else "has none" if "Here." in text_of(events) else "does not run"

    async def plan(self) -> str:
        """A turn in the mode `plan` ends with a plan, and refuses a change."""
        insert = '@call insert_cell {"source": "d = 1"}'
        before = self._sources()
        events = await self._client.say(insert, notebook="a.ipynb", mode="plan")
        assert self._sources() == before
        return "yes" if of_kind(events, "plan") else "no"

    async def files(self) -> str:
        """How it writes a file with its built-in tool."""
        file = self._root / "written.txt"
        tool, arguments = self._agent.write(str(file))
        events = await self._client.say(f"@call {tool} {json.dumps(arguments)}", mode="ask")
        through = [each for each in of_kind(events, "cell_change") if "written" in each["notebook"]]
        asked = len(of_kind(events, "permission"))
        if not file.exists():
            return "does not"
        file.unlink()
        how = "writes, and it can be undone" if through else "writes"
        return f"{how}, {asked} card{'' if asked == 1 else 's'}"

    async def images(self) -> str:
        """Whether a picture reaches its model."""
        picture = {"kind": "image", "mime": "image/png", "data": PIXEL}
        events = await self._client.say("@count", attachments=[picture], mode="auto")
        said = text_of(events)
        return "yes" if said[:1].isdigit() and not said.startswith("0") else "no"

    async def stop(self) -> str:
        """Whether a stop ends the turn, and the session goes on."""
        events = await self._client.say("@hold", stop="text", mode="auto")
        assert events[-1]["end"] == "stopped", events[-1]
        events = await self._client.say("Hello.", mode="auto")
        assert of_kind(events, "text"), text_of(events)
        forgotten = bool(of_kind(events, "notice"))
        return "yes, in a new session" if forgotten else "yes"

    async def resume(self) -> str:
        """Whether it knows the chat after a restart of the server."""
        events = await self._client.say("@count", mode="auto")
        if of_kind(events, "notice"):
            return "no"
        count = text_of(events).rpartition(", ")[2].split()[0]
        return "yes" if count.isdigit() and int(count) > 1 else f"no ({text_of(events)[:60]})"


BEFORE = ("answer", "tools", "approvals", "own_tools", "files", "plan", "images", "stop")
NAMES = (*BEFORE, "resume", "processes")


@dataclass(frozen=True)
class Stage:
    """A folder for servers, with the environment and the command of each.

    Attributes:
        folder: The folder.
        environment: The server's environment, which names the scripted providers.
    """

    folder: Path
    environment: Mapping[str, str]

    @property
    def root(self) -> Path:
        """The server's root folder."""
        return self.folder / "root"

    def server(self, name: str) -> Any:
        """A server of that name, on the stored state of an earlier one."""
        options = [
            f"--TkAIExtensionApp.chat_model={MODEL}",
            f"--TkAIExtensionApp.data_dir={self.folder / 'state'}",
            "--TkAIExtensionApp.chat_silence=30",
        ]
        command = server_command(self.root, *options)
        return serving(command, self.folder, self.environment, self.folder / f"{name}.log")


@asynccontextmanager
async def staged(prefix: Path, *names: str) -> AsyncGenerator[Stage]:
    """Temporary folder and scripted providers for some agents."""
    endpoints, messages = Endpoints(), DirectedModel()
    programs = (str(prefix / "node_modules" / ".bin"), str(Path(sys.executable).parent))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        environment = {
            **{k: v for k, v in own_folders(folder).items() if "PROXY" not in k.upper()},
            "HOME": str(folder / "home"),
            "PATH": os.pathsep.join((*programs, os.environ["PATH"])),
        }
        for each in ("root", "home", *map(_folder_of, names)):
            (folder / each).mkdir()
        async with messages.running():
            environment |= messages.environment
            for name in names:
                own = folder / _folder_of(name)
                environment |= AGENTS[name].variables(messages.url, endpoints.url, own)
            yield Stage(folder, environment)
    await endpoints.close()


def _folder_of(name: str) -> str:
    return f"own-{name.split(maxsplit=1)[0]}"


async def measure(name: str, prefix: Path) -> Measured:
    """Measure one agent."""
    agent, measured = AGENTS[name], Measured()
    if agent.package:
        package = prefix / "node_modules" / agent.package / "package.json"
        measured.version = json.loads(package.read_text())["version"]
    async with staged(prefix, name) as stage:
        chat = None
        for names in (BEFORE, ("resume",)):
            async with stage.server(names[0]) as server:
                client = Client(server.url, server.headers, agent.model or name)
                client.chat = chat
                checks = Checks(client, agent, stage.root)
                for check in names:
                    measured.results[check] = await _checked(getattr(checks, check))
                    print(f"{name}: {check}: {measured.results[check]}", flush=True)
                chat = client.chat
                await client.close()
        left = [each for each in psutil.process_iter(["environ"]) if _is_of(each, stage.folder)]
        measured.results["processes"] = "none" if not left else f"{len(left)} left"
    return measured


async def together(prefix: Path, names: Sequence[str]) -> bool:
    """Let each agent insert a cell into one notebook, then undo their turns, the first one first.

    Returns:
        Whether each undo removed the cell of that agent and nothing else.
    """
    async with staged(prefix, *names) as stage, stage.server("together") as server:
        path = stage.root / "together.ipynb"
        cell = nbformat.v4.new_code_cell("start = 1")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
        turns: list[tuple[str, Client, str]] = []
        for number, name in enumerate(names):
            client = Client(server.url, server.headers, AGENTS[name].model or name)
            insert = f'@call insert_cell {{"source": "x{number} = {number}"}}'
            events = await client.say(insert, notebook=path.name, mode="auto")
            turns.append((f"x{number} = {number}", client, events[0]["turn"]))
        left = ["start = 1", *(source for source, _, _ in turns)]
        good = _sources(path) == left
        for source, client, turn in turns:
            await client.post(f"chats/{client.chat}/undo", {"turn": turn})
            left.remove(source)
            good = good and _sources(path) == left
            await client.close()
        print(f"{', '.join(names)} in one notebook, each undone alone: {good}")
        return good


def _sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, 4).cells]


async def _checked(check: Callable[[], Awaitable[str]]) -> str:
    try:
        return await check()
    except (AssertionError, TimeoutError, RuntimeError, IndexError) as error:
        return f"no: {type(error).__name__} {str(error)[:300]}"


def _is_of(process: psutil.Process, folder: Path) -> bool:
    environment = process.info["environ"] or {}
    return environment.get("HOME") == str(folder / "home")


def table(measured: Mapping[str, Measured]) -> str:
    """Return the table of docs/acp.md."""
    head = ["", *(f"{name} {each.version}" for name, each in measured.items())]
    lines = [head, ["---"] * len(head)]
    lines += [
        [name.replace("_", " "), *(each.results.get(name, "-") for each in measured.values())]
        for name in NAMES
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def main() -> int:
    """Measure the agents and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("names", nargs="*", default=[*AGENTS])
    given = parser.parse_args()
    prefix = given.prefix.resolve()
    good = await together(prefix, given.names) if len(given.names) > 1 else True
    measured = {name: await measure(name, prefix) for name in given.names}
    print(table(measured))
    good = good and all(each.results.get("tools") == "yes" for each in measured.values())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
