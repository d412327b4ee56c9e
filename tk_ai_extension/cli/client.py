"""Client side of a command: sends it to a server and prints the output."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from tk_ai_extension._version import __version__
from tk_ai_extension.cli import wire
from tk_ai_extension.cli.messages import Messages, StoppedWaiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any, TextIO


READERS = (["watch"],)
"""Commands that end when the pipe of their output is closed: what they follow may never end."""


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
    notebook: str | None = None,
) -> int | Redirect:
    """Run a command in a server and act as its terminal.

    Ctrl-C interrupts the running code; a second Ctrl-C only stops waiting. A command that is killed
    stops waiting as well: the code continues. If the reader of the output closes the pipe, the command goes
    on to its end and its exit status, except `READERS`.

    Args:
        connection: Connection to the server.
        argv: The command.
        project: The project's folder.
        console: Reads and edits input for the command.
        own: Whether it is the project's own server, which runs here as the same user: only this one
            receives keys and tokens and opens pages.
        notebook: The current notebook, if a redirecting server named it.

    Returns:
        The exit status, or a redirect if the command belongs to another server and nothing was done.
    """
    greeting = _greeting(argv, project, own)
    _send(connection, {**greeting, "notebook": notebook})
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
                if not _print(message, own=own) and argv[:1] in READERS:
                    return wire.PIPE_CLOSED
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


def _stops_waiting(
    connection: socket.socket, interrupt: KeyboardInterrupt, *, interrupted: bool
) -> bool:
    """Interrupt the running code on the first Ctrl-C; return whether it was the second."""
    if not interrupted:
        _send(connection, {"interrupt": True})
    if not interrupted and not isinstance(interrupt, StoppedWaiting):
        return False
    write(sys.stderr, "Stopped waiting. Code that is running goes on; `nb watch` follows it.\n")
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
        write(sys.stdout, json.dumps({"error": error}) + "\n")
    else:
        write(sys.stderr, f"Error [server_unreachable]: {why}\n")
    return wire.UNREACHABLE


def report_failed_output(failure: OutputFailed) -> int:
    """Report that output cannot be written; return the exit status."""
    with suppress(OutputFailed):
        write(sys.stderr, f"nb: the output cannot be written: {failure}.\n")
    for stream in (sys.stdout, sys.stderr):
        _discard(stream)
    return wire.FAILED


def _discard(stream: TextIO) -> None:
    """Discard further output of a stream, and what it still has to write, also at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
    with suppress(OSError):
        stream.flush()


def open_closed_streams() -> None:
    """Open the standard streams that were closed by the calling process (``>&-``).

    Input is empty, and errors are discarded. Output cannot be written: the null device is opened for reading.
    Otherwise the next file or socket would get the number of the stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


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


def _print(message: Mapping[str, Any], *, own: bool) -> bool:
    """Print a server's message; return False if the reader of the output has just closed the pipe."""
    is_read = True
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        if name in message:
            is_read &= write(stream, message[name])
    if "browse" in message and own:
        browse(message["browse"])
    return is_read


def write(stream: TextIO, text: str) -> bool:
    """Write and flush text; characters outside the stream's encoding are escaped.

    If the reader closed the pipe, this and further output is discarded: what a command does, and its exit
    status, do not depend on who reads its output.

    Returns:
        Whether it was written.

    Raises:
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
        _discard(stream)
        return False
    except OSError as error:
        raise OutputFailed(error.strerror) from None
    return True


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
            write(sys.stderr, "Nothing was changed.\n")
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
    """Write a text file as UTF-8.

    Raises:
        OSError: It cannot be written.
    """
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
        write(sys.stdout, "\n")
        _send(connection, {"interrupt": True})
    _send(connection, {"answer": line})


def read_line(prompt: str) -> str | None:
    """Read a line from the person; None at the end of input, or without a terminal."""
    if not sys.stdin.isatty() or not write(sys.stdout, prompt):
        return None
    _wait_for_line()
    line = sys.stdin.readline()
    if not line:
        write(sys.stdout, "\n")
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
        import tempfile

        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            words = shlex.split(editor) or ["vi"]
            self._folder = tempfile.mkdtemp(prefix="nb-edit-")
            path = os.path.join(self._folder, name)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            self._path = path
            return read_file(path) if _run_editor([*words, path]) else None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            write(sys.stderr, f"nb: the text cannot be edited with {editor}: {why}.\n")
            return None

    def clear(self, *, done: bool) -> None:
        """Remove the file, or print its path if the server has not received it."""
        if not self._path:
            return
        if not done and os.path.exists(self._path):
            write(sys.stderr, f"Your text is saved in {self._path}\n")
            return
        import shutil

        # The editor may have left files of its own there.
        shutil.rmtree(self._folder, ignore_errors=True)
        self._path = ""


def _run_editor(words: list[str]) -> bool:
    """Run an editor; return whether it succeeded.

    Raises:
        OSError: It cannot be started.
    """
    import signal
    import subprocess

    # The editor handles Ctrl-C: unlike SIG_IGN, a handler is not inherited by the child.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        return subprocess.run(words, check=False).returncode == 0
    finally:
        signal.signal(signal.SIGINT, before)


def _read_stdin() -> str:
    if sys.stdin.isatty():
        hint = "Type the text; Ctrl-D at the start of a line ends it, Ctrl-C discards it.\n"
        write(sys.stderr, hint)
    # One read at a time: a single `read()` would miss a Ctrl-C between two system calls.
    stdin: Any = sys.stdin.buffer
    return b"".join(iter(stdin.read1, b"")).decode("utf-8", "surrogateescape")
