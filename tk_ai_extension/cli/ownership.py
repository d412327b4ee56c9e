"""Which of a project's calls belong to another Jupyter Server.

Two programs must not write one notebook: while a server runs that has the extension, what concerns a
notebook in its folder is its business, and people see it there as it happens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tk_ai_extension.cli.servers import Server, Servers
from tk_ai_extension.cli.settings import SettingsFile
from tk_ai_extension.model.errors import ExecutionNotFound, OpenElsewhere, SandboxUnavailable
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Tool
from tk_ai_extension.workspace.permissions import Effect


class Ownership:
    """Refuses the calls that belong to another server, and names it.

    Args:
        root: The project's folder.
        servers: The servers that run on this machine.
        settings: The project's: the server that all of it works in, whether it has a sandbox.
    """

    def __init__(self, root: Path, servers: Servers, settings: SettingsFile) -> None:
        self._root = root
        self._servers = servers
        self._settings = settings

    @property
    def attached(self) -> Server | None:
        """The server that the whole project works in; None to go by where notebooks are."""
        server = self._settings.now.server
        return None if server is None else Server(*server)

    async def check(self, tool: Tool, parsed: Any, context: ToolContext) -> list[str]:
        """Check that a call belongs here.

        What began here ends here, whatever server has started since.

        Returns:
            What its caller should know besides.

        Raises:
            OpenElsewhere: it belongs to another server, which ``details["server"]`` names where it has
                the extension.
            SandboxUnavailable: it would run code in a server's kernel, and the project's kernels are
                to run in a sandbox.
        """
        if _is_ours(parsed, context):
            return []
        effect = tool.effect_for(parsed)
        attached, path = self.attached, None
        if attached is None:
            path = await tool.concerns(context, parsed)
            if path is None or context.workspace.executions.active(path=path):
                # While a run here writes its outputs, nobody else is to write that notebook.
                return []
        server = attached or await self.owner_of(path or "", effect)
        if server is None:
            assert path is not None
            return [
                f"{silent.url} does not answer: this is {path} as it is on disk."
                for silent in self._servers.unresponsive_over(self._root / path)
            ]
        if effect == "EXECUTE" and self._settings.now.sandbox:
            raise SandboxUnavailable(
                f"{path or 'This'} belongs to the Jupyter Server at {server.url}, whose kernels have "
                "no sandbox, and the kernels of this project are to have one.",
                hint="Stop that server, or end it by `nb open --no-sandbox`.",
            )
        if tool.name == "use_notebook" and path is not None:
            # What the caller names no notebook for from now on belongs there, too.
            name = getattr(parsed, "name", None)
            context.workspace.notebooks.add(context.caller, name, path, kernel_id=None)
        details: dict[str, Any] = {}
        if path is not None and tool.notebook_argument in tool.parameters:
            # How that server finds it, whatever the folder that its paths are relative to.
            details["arguments"] = {tool.notebook_argument: str((self._root / path).resolve())}
        raise belongs_to(server, path, **details)

    async def owner_of(self, path: str, effect: Effect = "READ") -> Server | None:
        """The server that a notebook belongs to; None where it is this process's.

        Raises:
            OpenElsewhere: it is to be changed or run, and is open in a server without the extension.
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
    """Whether a call names an execution or a kernel of this process, and no notebook by its name."""
    execution_id: str | None = getattr(parsed, "execution_id", None)
    if execution_id is not None:
        try:
            context.workspace.executions.get(context.caller, execution_id)
        except ExecutionNotFound:
            return False
        return True
    # A notebook that is to get a kernel goes by where the notebook is.
    is_named = getattr(parsed, "notebook", None) is not None
    kernel_id: str | None = getattr(parsed, "kernel_id", None)
    return kernel_id in context.workspace.kernels.ids() and not is_named
