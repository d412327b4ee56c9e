"""Client side of a command: sends it to a server and prints the output."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from tk_ai_extension import __version__
from tk_ai_extension.cli import wire
from tk_ai_extension.cli.messages import Messages, StoppedWaiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any, TextIO


class OutputFailed(Exception):
    """The output cannot be written, for example on a full disk; the message has the reason."""


class Redirect:
    """Redirect to another server; an empty address means the project's own, which is started if needed."""

    def __init__(self, url: str, token: str, notebook: str | None) -> None:
        self.url = url
        self.token = token
        self.notebook = notebook


def forward(
    connection: socket.socket,
    argv: list[str],
    project: str,
    console: Console,
    *,
    own: bool,
    started: bool = False,
    notebook: str | None = None,
) -> int | Redirect:
    """Run a command in a server and act as its terminal.

    Ctrl-C interrupts the running code; a second Ctrl-C only stops waiting. A command that is killed
    stops waiting as well: the code continues.

    Args:
        connection: Connection to the server.
        argv: The command.
        project: The project's folder.
        console: Reads and edits input for the command.
        own: Whether it is the project's own server, which runs here as the same user: only this one
            receives keys and tokens and opens pages.
        started: Whether the server was started for this command: if the command fails and nothing runs, the
            server stops with it.
        notebook: The current notebook, if a redirecting server named it.

    Returns:
        The exit status, or a redirect if the command belongs to another server and nothing was done.
    """
    greeting = _greeting(argv, project, own)
    _send(connection, {**greeting, "notebook": notebook, "started": started})
    interrupted = False
    with Messages(connection) as messages:
        while True:
            try:
                message = messages.receive()
                if message is None:
                    console.clear(done=False)
                    return unreachable("The server stopped before it answered; see its log.", argv)
                if "redirect" in message and own:
                    return Redirect(message["redirect"], message["token"], message["notebook"])
                _print(message, own=own)
                if "ask" in message:
                    if not _answer(connection, message, console, argv, messages):
                        return wire.INTERRUPTED
                    # The person who answered has seen the result.
                    interrupted = False
                if "exit" in message:
                    return _exit(message, messages, console)
            except KeyboardInterrupt as interrupt:
                if _stops_waiting(connection, interrupt, interrupted=interrupted):
                    return wire.INTERRUPTED
                interrupted = True
            except BrokenPipeError:
                return discard_output()


def _stops_waiting(
    connection: socket.socket, interrupt: KeyboardInterrupt, *, interrupted: bool
) -> bool:
    """Interrupt the running code on the first Ctrl-C; return whether it was the second."""
    if not interrupted:
        _send(connection, {"interrupt": True})
    if not interrupted and not isinstance(interrupt, StoppedWaiting):
        return False
    sys.stderr.write(
        "Stopped waiting. The code is still running; its output goes to the notebook.\n"
    )
    return True


def _exit(message: Mapping[str, Any], messages: Messages, console: Console) -> int:
    """End a command as the server requests; return the exit status."""
    if message.get("ending"):
        with suppress(KeyboardInterrupt):
            messages.receive()
    console.clear(done=message["exit"] == wire.OK)
    return message["exit"]


def unreachable(why: str, argv: list[str]) -> int:
    """Print that a server does not answer, as a server prints errors; return the exit status."""
    if "--json" in argv:
        error = {"code": "server_unreachable", "message": why, "hint": "", "retryable": True}
        sys.stdout.write(json.dumps({"error": error}) + "\n")
    else:
        sys.stderr.write(f"Error [server_unreachable]: {why}\n")
    return wire.UNREACHABLE


def discard_output(failure: OutputFailed | None = None) -> int:
    """Discard further output, also at exit: the reader closed the pipe, or writing fails.

    Returns:
        The exit status.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if failure is None:
        return wire.OK
    try:
        sys.stderr.write(f"nb: the output cannot be written: {failure}.\n")
        sys.stderr.flush()
    except OSError:
        os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
    return wire.FAILED


def _greeting(argv: list[str], project: str, own: bool) -> dict[str, object]:
    tty = sys.stdout.isatty()
    return {
        "argv": argv,
        "cwd": os.getcwd(),
        "project": project,
        "columns": os.get_terminal_size().columns if tty else 0,
        "tty": tty,
        "env": {
            name: os.environ[name] for name in wire.environment(argv, own=own) if name in os.environ
        },
        "version": __version__,
    }


def browse(url: str) -> None:
    """Open a page in the person's browser, if there is one."""
    import webbrowser

    webbrowser.open(url)


def _send(connection: socket.socket, message: Mapping[str, object]) -> None:
    line = json.dumps(message).encode() + b"\n"
    if len(line) > wire.LONGEST_LINE:
        line = b'{"too_long": true}\n'
    try:
        connection.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        return  # what the server sent before it stopped can still be read


def _print(message: Mapping[str, Any], *, own: bool) -> None:
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        if name in message:
            write(stream, message[name])
    if "browse" in message and own:
        browse(message["browse"])


def write(stream: TextIO, text: str) -> None:
    """Write and flush text; characters outside the stream's encoding are escaped.

    Raises:
        BrokenPipeError: the reader closed the pipe.
        OutputFailed: it cannot be written.
    """
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.strerror) from None


def _answer(
    connection: socket.socket,
    question: Mapping[str, Any],
    console: Console,
    argv: list[str],
    messages: Messages,
) -> bool:
    """Answer a server's question; return False on Ctrl-C: then nothing is sent or done.

    A server receives what the command names, and nothing else from this machine.
    """
    with messages.interruptible():
        if question["ask"] == "line":
            _answer_line(connection, question["prompt"])
            return True
        try:
            answer = _answer_to(question, console, argv)
        except KeyboardInterrupt:
            sys.stderr.write("Nothing was changed.\n")
            return False
        _send(connection, answer)
        return True


def _answer_to(
    question: Mapping[str, Any], console: Console, argv: list[str]
) -> dict[str, str | None]:
    try:
        match question:
            case {"ask": "stdin"} if _names_stdin(argv):
                return {"answer": console.read()}
            case {"ask": "file", "path": str(path)} if _names(path, argv):
                return {"answer": read_file(path)}
            case {"ask": "write", "path": str(path), "text": str(text)} if _writes(path, argv):
                write_file(path, text)
                return {"answer": ""}
            case {"ask": "edit", "text": str(text), "name": str(name)} if "--editor" in argv:
                return {"answer": console.edit(text, os.path.basename(name) or "text")}
            case _:
                return {"problem": "The command does not name this file."}
    except OSError as error:
        return {"problem": error.strerror}


def _names_stdin(argv: list[str]) -> bool:
    """Whether a command reads standard input."""
    return argv[:1] == ["write"] or any(word == "-" or word.endswith("=-") for word in argv)


def _names(path: str, argv: list[str]) -> bool:
    """Whether a command names a file, as a word or as the value of an option."""
    return path in argv or any(word.startswith("--") and word.endswith(f"={path}") for word in argv)


def _writes(path: str, argv: list[str]) -> bool:
    """Whether a command names a file to write: the report of `nb verify --junitxml FILE`."""
    if argv[:1] != ["verify"]:
        return False
    after = [*argv[1:], ""]
    named = [word for option, word in zip(argv, after, strict=True) if option == "--junitxml"]
    return path in named or f"--junitxml={path}" in argv


def write_file(path: str, text: str) -> None:
    """Write a text file as UTF-8."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)


def read_file(path: str) -> str:
    """Read a text file as UTF-8; invalid bytes become surrogates, which the call refuses."""
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def _answer_line(connection: socket.socket, prompt: str) -> None:
    """Send the line that a person types; on Ctrl-C an interrupt and no line."""
    line = None
    try:
        line = read_line(prompt)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
        _send(connection, {"interrupt": True})
    _send(connection, {"answer": line})


def read_line(prompt: str) -> str | None:
    """Read a line from the person; None at the end of input, or without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    write(sys.stdout, prompt)
    _wait_for_line()
    line = sys.stdin.readline()
    if not line:
        sys.stdout.write("\n")
        return None
    return line.rstrip("\n")


def _wait_for_line() -> None:
    """Wait until a line can be read from the terminal.

    `input` misses a Ctrl-C between its prompt and its read: the read continues. Here it wakes the
    wait at any time.

    Raises:
        KeyboardInterrupt.
    """
    if os.name == "nt":  # Windows: no select for a console
        return
    import select
    import signal

    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    try:
        while sys.stdin not in select.select([sys.stdin, woken], [], [])[0]:
            os.read(woken, 1 << 16)
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wakes)


class Console:
    """Input of a command: standard input, and text that a person edits in ``$VISUAL`` or ``$EDITOR``.

    Standard input can be read only once; it is kept for a redirect to another server. The edited file
    is kept until the server has received it.
    """

    def __init__(self) -> None:
        self._stdin: str | None = None
        self._folder = ""
        self._path = ""

    def read(self) -> str:
        """Read standard input as UTF-8; invalid bytes become surrogates, which the call refuses."""
        if self._stdin is None:
            self._stdin = _read_stdin()
        return self._stdin

    def edit(self, text: str, name: str) -> str | None:
        """Edit text as a file of this name; return None if that failed."""
        import shlex
        import signal
        import subprocess
        import tempfile

        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        self._folder = tempfile.mkdtemp(prefix="nb-edit-")
        self._path = os.path.join(self._folder, name)
        with open(self._path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        # The editor handles Ctrl-C: unlike SIG_IGN, a handler is not inherited by the child.
        before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
        try:
            ended = subprocess.run([*shlex.split(editor), self._path], check=False)
        except OSError as error:
            sys.stderr.write(f"{editor}: {error.strerror}\n")
            return None
        finally:
            signal.signal(signal.SIGINT, before)
        if ended.returncode != 0:
            return None
        with open(self._path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()

    def clear(self, *, done: bool) -> None:
        """Remove the file, or print its path if the server has not received it."""
        if not self._path:
            return
        if not done:
            sys.stderr.write(f"Your text is saved in {self._path}\n")
            return
        os.unlink(self._path)
        os.rmdir(self._folder)
        self._path = ""


def _read_stdin() -> str:
    if sys.stdin is None:  # closed by who called
        return ""
    if sys.stdin.isatty():
        sys.stderr.write(
            "Type the text; Ctrl-D at the start of a line ends it, Ctrl-C discards it.\n"
        )
    # One read at a time: a single `read()` would miss a Ctrl-C between two system calls.
    stdin: Any = sys.stdin.buffer
    return b"".join(iter(stdin.read1, b"")).decode("utf-8", "surrogateescape")
