"""One command: its project, its caller, the server that it uses, and its output."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from contextlib import contextmanager

from tk_ai_extension.cli.project_folder import CommandError, Project
from tk_ai_extension.cli.servers import Server, ToolFailed, is_inside, server_of, start_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Any

OK, FAILED, REFUSED, UNREACHABLE, RUNNING, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit statuses; `nb --help` explains them."""

UNREACHABLE_CODES = ("kernel_not_found", "kernel_start_failed", "server_unreachable", "unavailable")
"""Errors that mean that no kernel or server answers."""

FIRST = 0.25
"""Seconds of the first wait for a run; afterwards Ctrl-C can interrupt it by its id."""
SLICE = 1.0
"""Seconds between new outputs on a terminal."""
LONG = 3600.0
"""Seconds of one wait in a pipe."""

_CONTROLS = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"},
    **dict.fromkeys(range(0x7F, 0xA0), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),
}
"""Visible symbols for control characters, also for those that show code in another order than it runs."""


class CommandContext:
    """One command.

    Args:
        project: The project.
        caller: The caller's key.
        as_json: Whether answers are printed as JSON.
    """

    def __init__(self, project: Project, caller: str, *, as_json: bool = False) -> None:
        self.project = project
        self.caller = caller
        self.as_json = as_json
        self.is_live = sys.stdout.isatty() and not as_json
        self._server: Server | None = None

    # -- the notebook and its server

    @property
    def current(self) -> str | None:
        """Absolute path of the caller's current notebook."""
        return self.project.state(self.caller).get("notebook") or None

    def last_execution(self) -> str:
        """Return the id of the caller's last execution.

        Raises:
            CommandError: there is none.
        """
        name = self.project.state(self.caller).get("execution")
        if name is None:
            raise CommandError("you have started no execution here; name one.")
        return name

    def path(self, given: str | None) -> str | None:
        """Return the absolute path of a named notebook, else of the current one.

        None if it is given by a name, or none is open.
        """
        if given is None:
            return self.current
        is_path = given.endswith(".ipynb") or os.sep in given or os.path.exists(given)
        return os.path.abspath(os.path.expanduser(given)) if is_path and given else None

    def server(self, path: str | None = None, *, changes: bool = True) -> Server:
        """Return the server that has a notebook, by default the current one; start it if none has.

        Args:
            path: Absolute path.
            changes: Whether the notebook is changed or run.

        Raises:
            ToolFailed: one does not answer.
            CommandError: the project's server cannot be started, or another one must not be used.
        """
        place = path or self.current or self.project.root
        return server_of(self.project, place, changes=changes) or start_server(self.project)

    def there(self, server: Server, path: str, given: str = "") -> str:
        """Return an absolute path in the server's form: relative to its folder.

        Args:
            server: The server.
            path: The path.
            given: The path as a person wrote it, for a server on another machine, which has other folders.
        """
        if not server.root:
            return given or os.path.relpath(path, self.project.root)
        for whole in (path, os.path.realpath(path)):
            if is_inside(whole, server.root):
                inside = os.path.relpath(whole, server.root)
                printed = os.path.join(server.root, given)
                if given and not os.path.lexists(whole) and os.path.lexists(printed):
                    return given  # as an answer of that server named it
                return "" if inside == "." else inside
        root = os.path.realpath(self.project.root)
        return path if is_inside(root, server.root) else given or os.path.relpath(path, root)

    # -- calls

    def call(self, server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return ``text``, ``is_error`` and ``result``.

        Raises:
            ToolFailed: the call failed.
        """
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise CommandError("the text is not UTF-8. Nothing was changed.") from None
        return server.call(tool, arguments, self.caller)

    def run(self, server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that runs code and follow the run to its end, for at most ``wait`` seconds.

        A terminal shows output as it arrives; a pipe gets all of it at the end. Ctrl-C interrupts the run,
        a second time it ends the command.
        """
        bound: float | None = arguments.pop("wait", None)
        deadline = None if bound is None else time.monotonic() + bound
        first = FIRST if bound is None else min(FIRST, bound)
        execution = ""

        def interrupt() -> None:
            try:
                server.call("interrupt_kernel", {"execution_id": execution}, self.caller)
            except ToolFailed as error:
                self.refuse(error.error)

        with on_interrupt(lambda: execution and interrupt()) as interrupted:
            begun = self.call(server, tool, **arguments, wait=first)
            if "execution_id" not in begun["result"]:
                return begun
            execution = begun["result"]["execution_id"]
            if tool != "wait_execution":
                self.project.keep(self.caller, execution=execution)
            if interrupted:
                interrupt()
            answer = self._followed(server, begun, deadline)
        if answer is not begun:
            notices = begun["result"].get("notices", [])
            answer["result"]["notices"] = notices + answer["result"].get("notices", [])
            if self.is_live:  # Its output was shown as it arrived.
                answer["text"] = answer["text"].replace("\n(no output)", "")
            else:
                answer["text"] = "".join(f"Note: {each}\n" for each in notices) + answer["text"]
        return answer

    def _followed(
        self, server: Server, answer: dict[str, Any], deadline: float | None
    ) -> dict[str, Any]:
        """Wait for the end of a run, or until the deadline; return the last answer."""
        while answer["result"]["status"] in ("queued", "running"):
            left = LONG if deadline is None else deadline - time.monotonic()
            if left <= 0:
                break
            following = {"execution_id": answer["result"]["execution_id"]}
            if self.is_live:
                self._show_part(answer["result"])
                following["since"] = answer["result"].get("next")
            following["wait"] = min(left, SLICE if self.is_live else LONG)
            answer = self.call(server, "wait_execution", **following)
        return answer

    def _show_part(self, result: Mapping[str, Any]) -> None:
        for notice in result.get("notices", ()):
            write_err(f"Note: {notice}")
        for run in result["runs"]:
            if run.get("output"):
                write(run["output"].rstrip("\n"))

    # -- output

    def finish(self, answer: Mapping[str, Any]) -> int:
        """Print the answer of a tool; return the exit status."""
        result = answer["result"]
        if self.as_json:
            self.print_json(result)
        else:
            write(as_commands(answer["text"]))
        status = result.get("status") if "execution_id" in result else None
        if status == "connection_lost":
            return UNREACHABLE
        if status in ("queued", "running"):
            return RUNNING
        return FAILED if answer["is_error"] else OK

    def show(self, text: str, fields: Mapping[str, Any]) -> int:
        """Print text, or its fields as JSON; return the exit status."""
        self.print_json(fields) if self.as_json else write(text)
        return OK

    def refuse(self, error: Mapping[str, Any], commands: Mapping[str, str] | None = None) -> int:
        """Print a typed error; return the exit status.

        Args:
            error: Code, message, hint and details.
            commands: The command of each tool, which replaces the tool's name in the text.
        """
        if self.as_json:
            self.print_json({"error": error})
        else:
            named = commands or {}

            def command(found: re.Match[str]) -> str:
                return f"`nb {named[found[0]]}`" if found[0] in named else found[0]

            said = [f"{error.get('message', '')} [{error.get('code', '')}]"]
            said += [str(error["hint"])] if error.get("hint") else []
            text = re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", command, "\n".join(said))
            for cell in error.get("details", {}).get("cells", ()):
                if "source" not in cell:
                    continue
                source = "was deleted" if cell["source"] is None else f"is now:\n{cell['source']}"
                text += f"\n# %% @{cell.get('address', cell.get('cell'))} {source}"
            write_err(text.replace("`notebook`", "`-n NOTEBOOK`"))
        return UNREACHABLE if error.get("code") in UNREACHABLE_CODES else REFUSED

    def print_json(self, value: Any) -> None:
        """Print a line of JSON without control characters."""
        line = json.dumps(value, ensure_ascii=False)
        _write(sys.stdout, re.sub("[\x7f-\x9f]", lambda m: f"\\u{ord(m[0]):04x}", line) + "\n")


@contextmanager
def on_interrupt(act: Callable[[], object]) -> Generator[list[int]]:
    """Call a function at the first Ctrl-C, instead of ending the command; the second one ends it.

    Yields:
        The signals that have arrived.
    """
    arrived: list[int] = []

    def handle(number: int, _frame: object) -> None:
        arrived.append(number)
        if len(arrived) > 1:
            raise KeyboardInterrupt
        act()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield arrived
    finally:
        signal.signal(signal.SIGINT, before)


def as_commands(text: str) -> str:
    """Write the calls that a tool's answer proposes as commands."""
    text = re.sub(r'wait_execution\("(\w+)"[^)]*\)', r"nb watch \1", text)
    return re.sub(r"read_output (\w+)", r"nb output \1", text)


def harmless(text: str) -> str:
    """Replace control characters in a text by visible symbols."""
    return text.translate(_CONTROLS)


def write(text: str) -> None:
    """Print a line to standard output."""
    if text:
        _write(sys.stdout, harmless(text) + ("" if text.endswith("\n") else "\n"))


def write_err(text: str) -> None:
    """Print a line to standard error."""
    _write(sys.stderr, harmless(text) + "\n")


def _write(stream: Any, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The reader has gone; the command continues to its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
