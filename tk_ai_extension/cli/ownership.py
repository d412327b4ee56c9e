"""Ownership of notebooks: which calls of a project belong to another Jupyter Server.

Two programs must not write one notebook: while a server with the extension runs, it handles all calls
for notebooks in its folder, and people see the changes there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tk_ai_extension.cli.servers import Server, Servers
from tk_ai_extension.cli.settings import SettingsFile
from tk_ai_extension.model.errors import KernelUnsupported, NotFound, OpenElsewhere
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Tool
from tk_ai_extension.workspace.permissions import Effect


class Ownership:
    """Refuses calls that belong to another server, and names it.

    Args:
        root: The project's folder.
        servers: The servers that run on this machine.
        settings: The project's settings: the server that it is attached to, and its sandbox.
    """

    def __init__(self, root: Path, servers: Servers, settings: SettingsFile) -> None:
        self._root = root
        self._servers = servers
        self._settings = settings

    @property
    def attached(self) -> Server | None:
        """The server that the project is attached to; None: the notebook's path decides."""
        server = self._settings.now.server
        return None if server is None else Server(*server)

    async def check(self, tool: Tool, parsed: Any, context: ToolContext) -> list[str]:
        """Check that a call belongs here.

        Executions and kernels of this process stay here, even if another server has started since.

        Returns:
            A notice for the caller.

        Raises:
            OpenElsewhere: it belongs to another server, which ``details["server"]`` names where it has
                the extension.
            KernelUnsupported: it would run code in a server's kernel, but the project requires a
                sandbox.
        """
        if _is_ours(parsed, context):
            return []
        effect = tool.effect_for(parsed)
        attached, path = self.attached, None
        if attached is None:
            path = await tool.concerns(context, parsed)
            if path is None or context.workspace.executions.active(
                notebook=context.workspace.by_path.at(path)
            ):
                # While a run here writes its outputs, no other process may write that notebook.
                return []
        server = attached or await self.owner_of(path or "", effect)
        if server is None:
            assert path is not None
            return [
                f"{silent.url} does not answer: this is {path} as it is on disk."
                for silent in self._servers.unresponsive_over(self._root / path)
            ]
        if effect == "EXECUTE" and self._settings.now.sandbox:
            raise KernelUnsupported(
                f"{path or 'This'} belongs to the Jupyter Server at {server.url}, whose kernels have "
                "no sandbox, but this project requires one.",
                hint="Stop that server, or run `nb open --no-sandbox`.",
            )
        if tool.name == "use_notebook" and path is not None:
            # Further calls that name no notebook belong there as well.
            name = getattr(parsed, "name", None)
            context.workspace.notebooks.add(context.caller, name, path, kernel_id=None)
        details: dict[str, Any] = {}
        if path is not None and tool.notebook_argument in tool.parameters:
            # The absolute path: that server's root may differ.
            details["arguments"] = {tool.notebook_argument: str((self._root / path).resolve())}
        raise belongs_to(server, path, **details)

    async def owner_of(self, path: str, effect: Effect = "READ") -> Server | None:
        """Return the server that a notebook belongs to; None if it belongs to this process.

        Raises:
            OpenElsewhere: it would be changed or run while a server without the extension has it open.
        """
        return self.attached or await self._servers.owner_of(self._root / path, effect)


def belongs_to(server: Server, path: str | None, **details: Any) -> OpenElsewhere:
    """Return the error that says which server has a notebook."""
    return OpenElsewhere(
        f"{path or 'This'} belongs to the Jupyter Server at {server.url}.",
        server=server.url,
        **details,
    )


def _is_ours(parsed: Any, context: ToolContext) -> bool:
    """Whether a call names an execution or a kernel of this process, and no notebook."""
    execution_id: str | None = getattr(parsed, "execution_id", None)
    if execution_id is not None:
        try:
            context.workspace.executions.get(context.caller, execution_id)
        except NotFound:
            return False
        return True
    # The notebook's path decides where it gets a kernel.
    is_named = getattr(parsed, "notebook", None) is not None
    kernel_id: str | None = getattr(parsed, "kernel_id", None)
    return kernel_id in context.workspace.kernels.ids() and not is_named
