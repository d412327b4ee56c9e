"""Which calls are made here, and which in the Jupyter Server that a notebook belongs to.

Two programs must not write one notebook: while a server runs that has the extension, what concerns
a notebook in its folder is its business, and people see it there as it happens.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tk_ai_extension.cli.remote import RemoteTools
from tk_ai_extension.cli.servers import Server, Servers, ServerSilent
from tk_ai_extension.cli.settings import SettingsFile
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    ApprovalOutdated,
    ExecutionNotFound,
    PathRefused,
    PermissionDenied,
    PermissionRequired,
    SandboxUnavailable,
)
from tk_ai_extension.model.proposals import Proposal
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.following import ExecutionResult
from tk_ai_extension.tools.permitting import PermissionCheck, permission_check
from tk_ai_extension.tools.registry import MAX_ASKED, Registry, Tool
from tk_ai_extension.tools.results import Result
from tk_ai_extension.workspace.permissions import Effect
from tk_ai_extension.workspace.workspace import Workspace

MAX_NAMES = 10_000
"""How many executions and artifacts of servers are remembered."""


class Router:
    """Finds out where a call belongs, and makes those that belong to a server.

    Args:
        root: The project's folder.
        servers: The servers that run on this machine.
        settings: The project's: the server that all of it works in, whether it has a sandbox.
    """

    def __init__(self, root: Path, servers: Servers, settings: SettingsFile) -> None:
        self._settings = settings
        self._root = root
        self._servers = servers
        self._remotes: dict[Server, RemoteTools] = {}
        # The servers of executions and artifacts, by id.
        self._named: OrderedDict[str, Server] = OrderedDict()
        # Each caller's last execution in a server, and when it was heard of.
        self._last: OrderedDict[str, tuple[float, str]] = OrderedDict()

    @property
    def attached(self) -> Server | None:
        """The server that the whole project works in; None to go by where notebooks are."""
        server = self._settings.now.server
        return None if server is None else Server(*server)

    async def place(
        self, tool: Tool, parsed: Any, context: ToolContext
    ) -> tuple[Server | None, str | None]:
        """The server that a call belongs to (None: this process), and the path that it concerns.

        What began here ends here, whatever server has started since.

        Raises:
            SandboxUnavailable: it would run code in a server's kernel, and the project's kernels
                are to run in a sandbox.
            OpenElsewhere: it would change or run what is open in a server without the extension.
        """
        effect = tool.effect_for(parsed)
        server, path = await self._place(tool, parsed, effect, context)
        if server is not None and effect == "EXECUTE" and self._settings.now.sandbox:
            raise SandboxUnavailable(
                f"{path or 'This'} belongs to the Jupyter Server at {server.url}, whose kernels have "
                "no sandbox, and the kernels of this project are to have one.",
                hint="Stop that server, or end it by `nb open --no-sandbox`.",
            )
        return server, path

    async def _place(
        self, tool: Tool, parsed: Any, effect: Effect, context: ToolContext
    ) -> tuple[Server | None, str | None]:
        if _is_ours(parsed, context):
            return None, None
        if self.attached is not None:
            return self.attached, None
        for argument in ("execution_id", "artifact"):
            server = self._named.get(getattr(parsed, argument, None) or "")
            if server is not None:
                return server, None
        path = await tool.concerns(context, parsed)
        if path is None or context.workspace.executions.active(path=path):
            # While a run here writes its outputs, nobody else is to write that notebook.
            return None, path
        return await self.owner_of(path, effect), path

    async def owner_of(self, path: str, effect: Effect = "READ") -> Server | None:
        """The server that a notebook belongs to; None where it is this process's.

        Raises:
            OpenElsewhere: it is to be changed or run, and is open in a server without the extension.
        """
        return self.attached or await self._servers.owner_of(self._root / path, effect)

    async def call(
        self,
        server: Server,
        path: str | None,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
    ) -> Result:
        """Makes a call in a server.

        Args:
            server: Which.
            path: What it concerns, from the project's folder; None where nothing, or where the
                arguments name it as the server does.
            tool: The tool.
            arguments: Its arguments.
            context: Who calls.

        Raises:
            ToolError.
        """
        self._servers.check(server)
        remote = self._remotes.get(server)
        if remote is None:
            remote = self._remotes[server] = RemoteTools(server)
        try:
            return await self._call(remote, path, tool, arguments, context)
        except ServerSilent:
            self._servers.fell_silent(server)
            raise

    async def _call(
        self,
        remote: RemoteTools,
        path: str | None,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
    ) -> Result:
        server = remote.server
        if path is None or server.root is None:
            result = await remote.call(tool, arguments, context)
            there = str(arguments.get("notebook"))
        else:
            there = self._path_in(server, path)
            result = await remote.call(tool, _named(tool, arguments, server.root, there), context)
            _rename(result, tool.notebook_argument, there, path)
        if tool.name == "use_notebook":
            context.workspace.notebooks.add(
                context.caller, arguments.get("name"), path or there, kernel_id=None
            )
        self._remember(server, result.structured())
        if isinstance(result, ExecutionResult):
            self._last[context.caller.identity] = (time.time(), result.execution_id)
        return result

    def last_run(self, caller: Caller, workspace: Workspace) -> str:
        """The execution that a caller means who names none: the one under way, else their newest.

        Raises:
            ExecutionNotFound: they have had none since this process began.
        """
        here = workspace.executions.latest(caller)
        heard, there = self._last.get(caller.identity, (0.0, ""))
        if here is not None and (not here.done or here.created > heard):
            return here.id
        if there:
            return there
        others = [
            f"{run.id} ({run.caller.author}{f', {run.path}' if run.path else ''})"
            for run in workspace.executions.active()
            if run.caller.user == caller.user
        ]
        raise ExecutionNotFound(
            "You have run nothing here that is still known.",
            hint=f"Others run: {', '.join(others)}." if others else None,
        )

    def silent_over(self, path: str) -> list[Server]:
        """The servers that a notebook may be open in, and which do not answer."""
        return self._servers.silent_over(self._root / path)

    def forget(self, caller: Caller) -> None:
        """Close a caller's connections to servers: their session is over."""
        self._last.pop(caller.identity, None)
        for remote in self._remotes.values():
            remote.release(caller)

    async def close(self) -> None:
        """Closes the connections to servers."""
        for remote in self._remotes.values():
            await remote.close()

    def _path_in(self, server: Server, path: str) -> str:
        assert server.root is not None
        absolute = (self._root / path).resolve()
        if not absolute.is_relative_to(server.root):
            raise PathRefused(f"{path} is not in the folder of {server.url}.")
        return absolute.relative_to(server.root).as_posix()

    def _remember(self, server: Server, value: Any) -> None:
        if isinstance(value, dict):
            for name, entry in cast("dict[str, Any]", value).items():
                if name in ("execution_id", "artifact") and isinstance(entry, str):
                    self._named[entry] = server
                else:
                    self._remember(server, entry)
        elif isinstance(value, list):
            for entry in cast("list[Any]", value):
                self._remember(server, entry)
        for known in (self._named, self._last):
            while len(known) > MAX_NAMES:
                known.popitem(last=False)


class RoutedRegistry(Registry):
    """A registry whose calls are made where they belong."""

    def __init__(self, tools: Iterable[Tool], router: Router) -> None:
        super().__init__(tools)
        self._router = router

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Calls a tool for a caller, here or in the server that the notebook belongs to.

        Raises:
            ToolError: every failure.
        """
        tool = self.get(name)
        parsed = self.validate(tool, arguments)
        server, path = await self._router.place(tool, parsed, context)
        if server is None:
            result = await super().call(name, arguments, context)
            result.notices += [
                f"{silent.url} does not answer: this is {path} as it is on disk."
                for silent in (self._router.silent_over(path) if path else ())
            ]
            return result
        check = permission_check(tool, parsed, context)
        if check is None:
            return await self._router.call(server, path, tool, arguments, context)
        await check.refuse(tool, parsed)
        # The server asks in the mode that holds here; its question is answered by a person here.
        for _ in range(MAX_ASKED + 1):
            try:
                return await self._router.call(server, path, tool, arguments, context)
            except PermissionRequired as required:
                await self._ask(server, path, check, str(required.details["permission_id"]))
        raise ApprovalOutdated(f"What {tool.name} would do changed each time the user was asked.")

    async def _ask(
        self, server: Server, path: str | None, check: PermissionCheck, permission_id: str
    ) -> None:
        """Answer a server's request for permission as a person here does.

        Raises:
            PermissionDenied, PermissionRequired, LimitReached.
        """
        waiting: dict[str, Any] = await server.get("api/tk-ai/permissions") or {}
        requests: list[dict[str, Any]] = waiting.get("permissions", [])
        found = [one for one in requests if one["id"] == permission_id]
        if not found:
            # Answered there in the meantime.
            return
        proposal = Proposal.from_dict(found[0]["proposal"])
        shown = replace(proposal, notebook=path or proposal.notebook, reference=permission_id)
        route = f"api/tk-ai/permissions/{permission_id}"
        try:
            await check.ask(shown)
        except PermissionDenied as denial:
            message = str(denial.details.get("user_message", ""))
            await server.post(route, {"answer": "deny", "message": message})
            raise
        # Nothing is there any more where it was answered in the server meanwhile.
        await server.post(route, {"answer": "once"})


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


def _named(tool: Tool, arguments: Mapping[str, Any], root: Path, there: str) -> Mapping[str, Any]:
    """The arguments with the notebook named as the server does; a whole path stays a whole path."""
    name = tool.notebook_argument
    if name not in tool.parameters:
        return arguments
    is_absolute = str(arguments.get(name, "")).startswith("/")
    return {**arguments, name: str(root / there) if is_absolute else there}


def _rename(result: Result, argument: str, there: str, here: str) -> None:
    """Has an answer name the notebook as it is named here, the header of its text included."""
    if there == here:
        return
    for name in type(result).model_fields:
        value = getattr(result, name)
        if name in ("notebook", argument) and value == there:
            setattr(result, name, here)
        elif name == "text" and isinstance(value, str):
            first, newline, rest = value.partition("\n")
            setattr(result, name, first.replace(f" {there} ", f" {here} ", 1) + newline + rest)
