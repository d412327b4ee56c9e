"""Session of one command: its caller, its terminal, and the output of results."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.context import CommandContext
from tk_ai_extension.cli.screen import Screen
from tk_ai_extension.cli.servers import Server
from tk_ai_extension.cli.terminal import Terminal, TerminalInfo
from tk_ai_extension.model.background import BackgroundTasks, outcome
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, ToolError
from tk_ai_extension.tools.context import Result, ToolContext
from tk_ai_extension.tools.execution_results import ExecutionResult

UNREACHABLE_CODES = frozenset({"kernel_not_found", "kernel_start_failed", "server_unreachable"})
"""Errors that mean that no kernel or server answers."""

logger = logging.getLogger(__name__)

FIRST = 0.25
"""Seconds after which an execution is followed."""
SLICE = 1.0
"""Interval at which new output is shown on a terminal, in seconds."""
LONG = 3600.0
"""Duration of one wait without a terminal, in seconds."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of every command.

    Attributes:
        json: Print the structured result.
    """

    json: bool = False


class Session:
    """Session of one command: calls tools for its caller and shows the results.

    Args:
        context: The workspace and tools.
        terminal: Its terminal.
        caller: The caller.
        options: Options of every command.
    """

    def __init__(
        self, context: CommandContext, terminal: Terminal, caller: Caller, options: Options
    ) -> None:
        self.context = context
        self.terminal = terminal
        self.caller = caller
        self.options = options
        self._naming = Naming(context.root, terminal.info)
        self._interrupts = BackgroundTasks(logger)
        self.screen = Screen(terminal, live=terminal.info.tty and not options.json)
        self.has_effect = False
        """Whether the command has changed or run anything here. It is not redirected any more."""

    def path(self, given: str) -> str:
        """Return a path of the command line independent of the working directory."""
        return self._naming.given(given)

    def folder(self, given: str) -> str:
        """Return a path of the command line relative to the server's folder, as lists of files need it."""
        return self._naming.in_root(self._naming.given(given))

    def shown(self, path: str) -> str:
        """Return a path of the server relative to the project."""
        return self._naming.shown(path)

    def located(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with paths relative to the project's root; names are unchanged."""
        located = dict(arguments)
        if located.get("path"):
            located["path"] = self.folder(located["path"])
        notebook = located.get("notebook")
        if isinstance(notebook, str) and self._is_path(notebook):
            is_folder = not notebook.endswith(".ipynb")  # `search` takes one, relative to the root
            located["notebook"] = self.folder(notebook) or "." if is_folder else self.path(notebook)
        return located

    def _is_path(self, notebook: str) -> bool:
        if not notebook:
            return False  # Not the working directory: each tool refuses it.
        here = os.path.join(self.terminal.info.cwd, notebook)
        return notebook.endswith(".ipynb") or "/" in notebook or os.path.exists(here)

    async def call(self, tool: str, **arguments: Any) -> Result:
        """Call a tool and show its progress on the terminal. Ctrl-C interrupts the code that it runs.

        The result has the server's paths, as other calls take them; `for_display` has those for a person.

        Text of the command line, standard input or a file that is not UTF-8 is refused. (JSON gets
        replacement characters instead: its sender can see what was written.)
        """
        result = await self._call_for(self.caller, tool, arguments)
        await self._interrupts.join()
        return result

    async def _call_for(self, caller: Caller, tool: str, arguments: Mapping[str, Any]) -> Result:
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InvalidArguments(
                "The text is not UTF-8.", hint="Nothing was changed. Give the text as UTF-8."
            ) from None
        followed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        has_effect = self.context.registry.get(tool).effect != "READ"

        def on_follow(execution_id: str) -> None:
            self.has_effect |= has_effect
            if not followed.done():
                followed.set_result(execution_id)

        context = ToolContext(
            self.context.workspace, caller, self.screen.progress, on_follow=on_follow
        )
        interrupting = asyncio.create_task(self._interrupt(followed))
        try:
            result = await self.context.registry.call(tool, arguments, context)
            self.has_effect |= has_effect
            return result
        finally:
            interrupting.cancel()
            self.screen.clear_progress()

    async def _interrupt(self, followed: asyncio.Future[str]) -> None:
        """On each Ctrl-C, interrupt the execution that a call waits for, once it waits for one."""
        while True:
            execution_id = await followed
            await self.terminal.interrupted.wait()
            self.terminal.interrupted.clear()
            context = ToolContext(self.context.workspace, self.caller)
            interrupt = asyncio.create_task(
                self.context.registry.call(
                    "interrupt_kernel", {"execution_id": execution_id}, context
                ),
                name="Interrupting",
            )
            self._interrupts.keep(interrupt)
            try:
                # It goes on after this call: it also ends code that ignores the interrupt.
                await outcome(interrupt, logger)
            except ToolError as error:
                self.screen.refuse(error)

    def for_display(self, result: Result) -> Result:
        """Return a copy of the result with the notebook's path relative to the project."""
        named = {
            name: self._naming.shown(value)
            for name in ("notebook", "path")
            if isinstance(value := getattr(result, name, None), str)
        }
        text = getattr(result, "text", None)
        path = getattr(result, "notebook", None)
        if isinstance(text, str) and isinstance(path, str):
            first, newline, rest = text.partition("\n")
            shown = first.replace(f" {path} ", f" {named['notebook']} ", 1)
            named["text"] = shown + newline + rest
        return result.model_copy(update=named)

    def text_for_server(self, text: str) -> str:
        """Replace the project's path in the header of a notebook's text by the server's."""
        first, newline, rest = text.partition("\n")
        header = re.fullmatch(r"(# %% notebook: )(.+?)( rev:\S*.*)?", first)
        if header is None or self._naming.is_same:
            return text
        there = self._naming.in_project(header[2])
        return f"{header[1]}{there}{header[3] or ''}{newline}{rest}"

    async def run(self, tool: str, **arguments: Any) -> ExecutionResult:
        """Call a tool that runs code, and show the output until it ends.

        A terminal shows output as it arrives. A pipe gets the final output of each cell once it has
        ended: concatenated parts would keep output that was cleared or overwritten.
        ``wait`` limits the time; without it there is no limit.
        """
        bound: float | None = arguments.pop("wait", None)
        clock = asyncio.get_running_loop().time
        deadline = math.inf if bound is None else clock() + bound
        first = FIRST if bound is None else min(FIRST, bound)
        # For a caller without a key no output counts as seen: each result is complete.
        caller = self.caller if self.screen.live else replace(self.caller, key=None)
        beginner = caller if tool == "wait_execution" else self.caller
        result = cast(
            "ExecutionResult", await self._call_for(beginner, tool, {**arguments, "wait": first})
        )
        shown = 0
        while result.status in ("queued", "running") and clock() < deadline:
            if self.screen.live:
                self.screen.show_part(result)
            gradual = not self.options.json and (self.screen.live or (result.total_cells or 0) > 1)
            wait = min(deadline - clock(), SLICE if gradual else LONG)
            following = {"execution_id": result.execution_id, "wait": wait}
            later = cast(
                "ExecutionResult", await self._call_for(caller, "wait_execution", following)
            )
            if not self.screen.live:
                # The notices were already shown.
                later.notices = result.notices + later.notices
                later.total_cells = result.total_cells
                if gradual:
                    shown = self._show_ended(later, shown)
            result = later
        await self._interrupts.join()
        return result

    def _show_ended(self, result: ExecutionResult, shown: int) -> int:
        """Print newly ended cells; return the number of printed cells."""
        ended = 0
        while (text := result.first_ended()) is not None:
            ended += 1
            if ended > shown:
                self.screen.print_text(text)
        return max(ended, shown)

    def redirect(self, server: Server | None) -> bool:
        """Redirect the whole command to another server, unless it would repeat an effect that it had here.

        Args:
            server: The server; None for the project's own, which is started if needed.

        Returns:
            Whether it was redirected.
        """
        if self.has_effect:
            return False
        if server is None:
            self.terminal.redirect("", "")
            return True
        current = self.context.workspace.notebooks.current(self.caller)
        path = None if current is None else os.path.join(self.context.root, current.path)
        self.terminal.redirect(server.url, server.token, path)
        return True

    def finish(self, result: Result) -> int:
        """Show a result with paths relative to the project; return the exit status."""
        result = self.for_display(result)
        if self.options.json:
            self.terminal.out(as_json(result.structured()))
        else:
            self.screen.show(result)
        state = _execution_state(result)
        if state == "connection_lost":
            return wire.UNREACHABLE
        if state in ("queued", "running"):
            return wire.RUNNING
        return wire.FAILED if result.is_error else wire.OK

    def refuse(self, error: ToolError) -> int:
        """Show an error; return the exit status."""
        if self.options.json:
            self.terminal.out(as_json({"error": error.as_dict()}))
        else:
            self.screen.refuse(error)
        return wire.UNREACHABLE if error.code in UNREACHABLE_CODES else wire.REFUSED


def _execution_state(result: Result) -> str | None:
    """Return the state of the execution in a result, of whatever tool; None if it has none."""
    return (
        None if getattr(result, "execution_id", None) is None else getattr(result, "status", None)
    )


class Naming:
    """Maps paths between the command line and the server.

    Args:
        root: The server's folder.
        info: Where the command was called.
    """

    def __init__(self, root: str, info: TerminalInfo) -> None:
        self._root = os.path.realpath(root)
        self._project = os.path.realpath(info.project)
        self._cwd = info.cwd
        self.is_same = self._root == self._project
        """Whether the project's folder is the server's."""

    def given(self, path: str) -> str:
        """Map a path of the command line to the server; unchanged if the project is elsewhere."""
        whole = os.path.normpath(os.path.join(self._cwd, os.path.expanduser(path)))
        inside = any(_is_in(os.path.realpath(each), self._root) for each in (whole, self._cwd))
        return whole if inside else path

    def in_root(self, path: str) -> str:
        """Return an absolute path relative to the server's folder; unchanged if it is not below it."""
        if os.path.isabs(path):
            for each in (path, os.path.realpath(path)):  # a link in the root, or one to the root
                if _is_in(each, self._root):
                    inside = os.path.relpath(each, self._root)
                    return "" if inside == "." else inside
        return path

    def in_project(self, path: str) -> str:
        """Map a path of the project to the server."""
        whole = os.path.join(self._project, path)
        return whole if _is_in(whole, self._root) else path

    def shown(self, path: str) -> str:
        """Map a path of the server to the project; unchanged if it is outside the project."""
        if self.is_same:
            return path
        whole = os.path.join(self._root, path)
        return os.path.relpath(whole, self._project) if _is_in(whole, self._project) else path


def _is_in(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


def as_json(value: Mapping[str, Any]) -> str:
    """Serialize a value as a line of JSON without control characters."""
    line = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f]", lambda m: f"\\u{ord(m[0]):04x}", line) + "\n"
