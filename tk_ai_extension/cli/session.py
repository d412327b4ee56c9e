"""One command under way: who calls, from where, and how the answer is shown."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.headless import Headless
from tk_ai_extension.cli.screen import Screen
from tk_ai_extension.cli.terminal import Terminal
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, ToolError
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.following import ExecutionResult
from tk_ai_extension.tools.results import Result

UNREACHABLE_CODES = frozenset({"kernel_not_found", "kernel_start_failed", "server_unreachable"})
"""The errors that mean that no kernel or server answers."""

FIRST = 0.25
"""Seconds after which an execution is one to be followed."""
SLICE = 1.0
"""Seconds after which new output is shown to a person who waits."""
LONG = 3600.0
"""Seconds of one wait where nobody looks on."""


@dataclass(frozen=True, slots=True)
class Options:
    """What every command takes.

    Attributes:
        json: Answer with the structured reading.
    """

    json: bool = False


class Session:
    """One command: calls tools for its caller and shows what they answer.

    Args:
        headless: The project's workspace and tools.
        terminal: Where it was typed.
        caller: Who typed it.
        options: What every command takes.
    """

    def __init__(
        self, headless: Headless, terminal: Terminal, caller: Caller, options: Options
    ) -> None:
        self.headless = headless
        self.terminal = terminal
        self.caller = caller
        self.options = options
        self.screen = Screen(terminal, live=terminal.surroundings.tty and not options.json)

    def path(self, given: str) -> str:
        """A path on the command line, as one that does not depend on where it was typed."""
        if self.headless.settings.now.server:
            return given
        path = os.path.join(self.terminal.surroundings.cwd, os.path.expanduser(given))
        return os.path.normpath(path)

    def located(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same arguments with paths relative to the project's root; names stay names."""
        located = dict(arguments)
        if located.get("path"):
            located["path"] = self.path(located["path"])
        notebook = located.get("notebook")
        if isinstance(notebook, str) and self._is_path(notebook):
            located["notebook"] = self.path(notebook)
        return located

    def _is_path(self, notebook: str) -> bool:
        here = os.path.join(self.terminal.surroundings.cwd, notebook)
        return notebook.endswith(".ipynb") or "/" in notebook or os.path.exists(here)

    async def call(self, tool: str, **arguments: Any) -> Result:
        """Call a tool, with its progress on the terminal meanwhile.

        Bytes of the command line, standard input or a file that are not UTF-8 are refused. (What
        comes as JSON gets replacement characters instead: its sender can see what was written.)
        """
        return await self._call_for(self.caller, tool, arguments)

    async def _call_for(self, caller: Caller, tool: str, arguments: Mapping[str, Any]) -> Result:
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InvalidArguments(
                "The text is not UTF-8.", hint="Nothing was changed. Give the text as UTF-8."
            ) from None
        context = ToolContext(self.headless.workspace, caller, self.screen.progress)
        try:
            return await self.headless.registry.call(tool, arguments, context)
        finally:
            self.screen.clear_progress()

    async def run(self, tool: str, **arguments: Any) -> ExecutionResult:
        """Call a tool that runs code, and show what it prints until it ends.

        A person who looks on sees each part as it comes; everybody else gets all of it at the end,
        as the notebook holds it: parts put together would keep what was cleared or overwritten.
        ``wait`` bounds the time, as for every caller; without it there is no bound. Ctrl-C interrupts.
        """
        bound: float | None = arguments.pop("wait", None)
        clock = asyncio.get_running_loop().time
        deadline = math.inf if bound is None else clock() + bound
        first = FIRST if bound is None else min(FIRST, bound)
        # Nothing counts as shown to a caller without a key: each answer is the whole.
        caller = self.caller if self.screen.live else replace(self.caller, key=None)
        beginner = caller if tool == "wait_execution" else self.caller
        result = cast(
            "ExecutionResult", await self._call_for(beginner, tool, {**arguments, "wait": first})
        )
        while result.status in ("queued", "running") and clock() < deadline:
            if self.screen.live:
                self.screen.show_part(result)
            wait = min(deadline - clock(), SLICE if self.screen.live else LONG)
            later = await self._wait(result.execution_id, wait, caller)
            if not self.screen.live:
                # What was said to the caller besides was said once.
                later.notices = result.notices + later.notices
            result = later
        return result

    async def _wait(self, execution_id: str, wait: float, caller: Caller) -> ExecutionResult:
        """Wait for an execution; interrupt it at Ctrl-C."""
        waiting = asyncio.create_task(
            self._call_for(caller, "wait_execution", {"execution_id": execution_id, "wait": wait})
        )
        interrupted = asyncio.create_task(self.terminal.interrupted.wait())
        try:
            await asyncio.wait((waiting, interrupted), return_when=asyncio.FIRST_COMPLETED)
            if self.terminal.interrupted.is_set():
                self.terminal.interrupted.clear()
                await self.call("interrupt_kernel", execution_id=execution_id)
            return cast("ExecutionResult", await waiting)
        finally:
            interrupted.cancel()
            waiting.cancel()

    def finish(self, result: Result) -> int:
        """Shows an answer; the exit status."""
        if self.options.json:
            self.terminal.out(as_json(result.structured()))
        else:
            self.screen.show(result)
        if isinstance(result, ExecutionResult) and result.status == "connection_lost":
            return wire.UNREACHABLE
        return wire.FAILED if result.is_error else wire.OK

    def refuse(self, error: ToolError) -> int:
        """Shows an error; the exit status."""
        if self.options.json:
            self.terminal.out(as_json({"error": error.as_dict()}))
        else:
            self.screen.refuse(error)
        return wire.UNREACHABLE if error.code in UNREACHABLE_CODES else wire.REFUSED


def as_json(value: Mapping[str, Any]) -> str:
    """A value as a line of JSON, in which nothing commands a terminal."""
    line = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f]", lambda m: f"\\u{ord(m[0]):04x}", line) + "\n"
