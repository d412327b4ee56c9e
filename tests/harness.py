"""Harness for tests of tools: call them in a real Jupyter server, as an interface does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp
from traitlets.config import Config

from tk_ai_extension.kernels.kernel_service import find_execution_stack
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.tools.registry import Registry, Result, ToolContext
from tk_ai_extension.workspace.workspace import Workspace

ALICE = Caller("alice", "session-a", "mcp", name="agent A")
BOB = Caller("alice", "session-b", "mcp", name="agent B")
NOBODY = Caller("alice", None, "mcp")

registry_of = cache(Registry.load)
"""Returns the registry of some toolsets; a server makes it once, too."""


async def end_server(app: Any) -> None:
    """End a server of the test's process."""
    await app._cleanup()
    close_stack(app)
    app.kernel_manager.context.destroy(linger=0)


def close_stack(app: Any) -> None:
    """Close the clients of jupyter_server_nbmodel's stack, which it leaves to the garbage collector.

    There a ZeroMQ context can block for minutes, in whichever test runs then.
    """
    stack = find_execution_stack(app.extension_manager)
    clients: dict[str, Any] = getattr(stack, "_ExecutionStack__kernel_clients", {})
    for client in clients.values():
        client.stop_channels()
        client.context.destroy(linger=0)
    clients.clear()


async def loop_turns(count: int = 20) -> None:
    """Let everything that is ready run, for some turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


@dataclass
class ToolHarness:
    """The tools of one server and its root folder."""

    workspace: Workspace
    registry: Registry
    root: Path
    app: ServerApp
    caller: Caller = ALICE

    async def call(self, tool: str, *, caller: Caller | None = None, **arguments: Any) -> Any:
        """Call a tool as an interface does, and check the result against the tool's own schema."""
        context = ToolContext(self.workspace, caller or self.caller)
        result: Result = await self.registry.call(tool, arguments, context)
        definition = self.registry.get(tool)
        definition.result.model_validate(json.loads(json.dumps(result.structured())))
        assert result.full_text()
        return result

    def write(self, name: str, *cells: tuple[str, str] | str, **metadata: Any) -> Path:
        """Puts a notebook there, as another program would."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.v4.new_notebook(metadata=metadata or {"kernelspec": KERNELSPEC})
        for index, cell in enumerate(cells):
            kind, source = ("code", cell) if isinstance(cell, str) else cell
            new = getattr(nbformat.v4, f"new_{kind}_cell")(source)
            new["id"] = f"cell{'abcdefghijklmnop'[index]}000"
            notebook.cells.append(new)
        nbformat.write(notebook, path)
        return path

    def on_disk(self, name: str) -> Any:
        """The notebook as it is on disk, validated."""
        notebook = nbformat.read(self.root / name, as_version=4)
        nbformat.validate(notebook)
        return notebook

    async def saved(self, name: str, check: Callable[[Any], bool], within: float = 3.0) -> Any:
        """The notebook on disk once it is as it should be; it is looked at after each save."""
        saved = asyncio.Event()

        async def on_save(logger: Any, schema_id: str, data: Any) -> None:
            saved.set()

        events: Any = self.app.event_logger
        events.add_listener(schema_id=CONTENTS_EVENTS, listener=on_save)
        try:
            async with asyncio.timeout(within):
                while (notebook := self._readable(name)) is None or not check(notebook):
                    await saved.wait()
                    saved.clear()
                return notebook
        finally:
            events.remove_listener(listener=on_save)

    def _readable(self, name: str) -> Any:
        """The notebook on disk, unless Jupyter's own save is just writing it."""
        try:
            return self.on_disk(name)
        except nbformat.reader.NotJSONError:
            return None

    def sources(self, name: str) -> list[str]:
        """The sources on disk."""
        return [cell.source for cell in self.on_disk(name).cells]


CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}


@pytest.fixture
def backend() -> str:
    """Which executor runs the code; a module parametrises it where both count."""
    return "auto"


@pytest.fixture
def jp_server_config(jp_server_config: Config, backend: str) -> Config:
    jp_server_config.ServerApp.jpserver_extensions.update(
        jupyter_server_nbmodel=True,
        tk_ai_extension=True,
    )
    jp_server_config.TkAIExtensionApp.executor = "auto" if backend == "stack" else backend
    return jp_server_config


@pytest.fixture
async def harness(jp_serverapp: ServerApp, jp_root_dir: Path) -> ToolHarness:
    (extension,) = jp_serverapp.extension_manager.extension_apps["tk_ai_extension"]
    return ToolHarness(extension.services.workspace, registry_of(), jp_root_dir, jp_serverapp)
