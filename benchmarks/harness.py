"""Harness for benchmarks: a Jupyter server in this process and its tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_server.serverapp import ServerApp
from traitlets.config import Config

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace


class CallFailed(Exception):
    """A tool's answer is an error; a benchmark of it would mean nothing."""


@dataclass(frozen=True, slots=True)
class BenchmarkHarness:
    """The tools of one server.

    Attributes:
        root: The folder that it serves.
        caller: Who calls.
    """

    app: Any
    workspace: Workspace
    registry: Registry
    root: Path
    caller: Caller

    async def call(self, tool: str, *, caller: Caller | None = None, **arguments: Any) -> Any:
        """Calls a tool.

        Raises:
            CallFailed: Its answer is an error.
        """
        context = ToolContext(self.workspace, caller or self.caller)
        result = await self.registry.call(tool, arguments, context)
        # What every interface does with an answer is part of the work.
        text, data = result.full_text(), result.structured()
        if result.is_error:
            raise CallFailed(f"{tool}: {text}")
        return data

    def connection(self, kernel_id: str) -> Mapping[str, Any]:
        """Where a kernel listens."""
        return self.app.kernel_manager.get_kernel(kernel_id).get_connection_info()


@asynccontextmanager
async def start_harness(
    root: Path, executor: str = "direct", *, live: bool = False
) -> AsyncGenerator[BenchmarkHarness]:
    """A server over a folder, up inside the block.

    Args:
        root: The folder that it serves.
        executor: direct or stack.
        live: Whether notebooks are live rooms of jupyter-collaboration.
    """
    wanted = ["tk_ai_extension"]
    wanted += ["jupyter_server_nbmodel"] if executor == "stack" else []
    wanted += ["jupyter_server_fileid", "jupyter_server_ydoc"] if live else []
    config = Config()
    config.ServerApp.jpserver_extensions = dict.fromkeys(wanted, True)
    config.TkAIExtensionApp.executor = executor
    config.TkAIExtensionApp.data_dir = str(root.with_name(f"{root.name}-state"))
    ServerApp.clear_instance()
    app: Any = ServerApp.instance(
        root_dir=str(root), open_browser=False, log_level="ERROR", config=config, port=0
    )
    app.init_signal = lambda: None
    app.initialize(argv=[], new_httpserver=False)
    await app.extension_manager.start_all_extensions()
    try:
        extension = next(iter(app.extension_manager.extension_apps["tk_ai_extension"]))
        # Now, not in the middle of what is measured.
        await extension.services.mcp()
        yield BenchmarkHarness(
            app,
            extension.services.workspace,
            Registry.load(),
            root,
            Caller("bench", "harness", "mcp"),
        )
    finally:
        await app._cleanup()  # noqa: SLF001 - as pytest-jupyter ends its servers
        ServerApp.clear_instance()
