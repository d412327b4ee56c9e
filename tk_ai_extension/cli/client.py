"""A command's end of the conversation with a server: says what was asked, prints what comes."""

from __future__ import annotations

import json
import os
import sys

from tk_ai_extension import __version__
from tk_ai_extension.cli import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any, TextIO


class OutputFailed(Exception):
    """What is printed cannot be written where it goes, as on a full disk; the message says why."""


class Redirect:
    """Where a command belongs: the address of a server; empty for the project's own, which is started."""

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
    """Have a server run a command, and is its terminal meanwhile.

    Ctrl-C interrupts what runs; a second one only stops waiting for it. A command that is killed
    stops waiting, too: what it started runs on.

    Args:
        connection: To the server.
        argv: The command.
        project: The folder of the project that it is typed in.
        console: Reads and edits what the command asks for.
        own: Whether it is the project's own server, which runs here as the same user: no other one is
            told keys and tokens, nor opens pages.
        started: Whether the server was started for this command: if it fails and nothing runs, the
            server ends with it.
        notebook: The current notebook, where another server has said it.

    Returns:
        The exit status, or the server that the command belongs to; nothing was done then.
    """
    lines = connection.makefile("r", encoding="utf-8")
    greeting = _greeting(argv, project, own)
    _send(connection, {**greeting, "notebook": notebook, "started": started})
    interrupted = False
    while True:
        try:
            frame = _receive(lines)
            if frame is None:
                console.clear(done=False)
                return unreachable("The server ended before it had answered; see its log.", argv)
            if "redirect" in frame and own:
                return Redirect(frame["redirect"], frame["token"], frame["notebook"])
            _print(frame, own=own)
            if "ask" in frame:
                if not _answer(connection, frame, console, argv):
                    return wire.INTERRUPTED
                # Who was asked has seen what came of it.
                interrupted = False
            if "exit" in frame:
                return _exit(frame, lines, console)
        except KeyboardInterrupt:
            if interrupted:
                sys.stderr.write(
                    "Not waiting any more; it runs on, its outputs go into the notebook.\n"
                )
                return wire.INTERRUPTED
            interrupted = True
            _send(connection, {"interrupt": True})
        except BrokenPipeError:
            return discard_output()


def _exit(frame: Mapping[str, Any], lines: TextIO, console: Console) -> int:
    """End a command as the server says; the exit status."""
    if frame.get("ending"):
        lines.readline()
    console.clear(done=frame["exit"] == wire.OK)
    return frame["exit"]


def unreachable(why: str, argv: list[str]) -> int:
    """Report that a server does not answer, as a server says an error; the exit status."""
    if "--json" in argv:
        error = {"code": "server_unreachable", "message": why, "hint": "", "retryable": True}
        sys.stdout.write(json.dumps({"error": error}) + "\n")
    else:
        sys.stderr.write(f"Error [server_unreachable]: {why}\n")
    return wire.UNREACHABLE


def discard_output(failure: OutputFailed | None = None) -> int:
    """Print nothing more, nor flush it at exit: who read it has enough, or it cannot be written.

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
    """Open a page in the person's browser, where there is one."""
    import webbrowser

    webbrowser.open(url)


def _receive(lines: TextIO) -> dict[str, Any] | None:
    """Read the next message of the server; None where it ends, or sends what is not of the protocol."""
    try:
        frame = json.loads(lines.readline() or "null")
    except (ConnectionError, ValueError):
        return None
    return frame if isinstance(frame, dict) else None  # type: ignore[return-value]


def _send(connection: socket.socket, message: Mapping[str, object]) -> None:
    line = json.dumps(message).encode() + b"\n"
    if len(line) > wire.LONGEST_LINE:
        line = b'{"too_long": true}\n'
    try:
        connection.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        return  # what the server has sent before it ended can still be read


def _print(frame: Mapping[str, Any], *, own: bool) -> None:
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        if name in frame:
            write(stream, frame[name])
    if "browse" in frame and own:
        browse(frame["browse"])


def write(stream: TextIO, text: str) -> None:
    """Write and flushes text; what the stream's encoding does not have becomes an escape.

    Raises:
        BrokenPipeError: nobody reads it.
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
    connection: socket.socket, question: Mapping[str, Any], console: Console, argv: list[str]
) -> bool:
    """Answer what a server asks; False where Ctrl-C did: nothing is sent then, and nothing done.

    A server gets what the command names, and nothing else of this machine.
    """
    if question["ask"] == "line":
        _answer_line(connection, question["prompt"])
        return True
    try:
        match question:
            case {"ask": "stdin"} if _names_stdin(argv):
                answer = console.read()
            case {"ask": "file", "path": str(path)} if path in argv:
                answer = read_file(path)
            case {"ask": "edit", "text": str(text), "name": str(name)} if "--editor" in argv:
                answer = console.edit(text, os.path.basename(name) or "text")
            case _:
                _send(connection, {"problem": "The command does not name that."})
                return True
    except OSError as error:
        _send(connection, {"problem": error.strerror})
        return True
    except KeyboardInterrupt:
        sys.stderr.write("Nothing was changed.\n")
        return False
    _send(connection, {"answer": answer})
    return True


def _names_stdin(argv: list[str]) -> bool:
    """Whether a command reads standard input."""
    return argv[:1] == ["write"] or any(word == "-" or word.endswith("=-") for word in argv)


def read_file(path: str) -> str:
    """A text file, as UTF-8; bytes that are none survive to be refused by name."""
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def _answer_line(connection: socket.socket, prompt: str) -> None:
    """Send the line that a person types; Ctrl-C is said, too, and no line."""
    line = None
    try:
        line = read_line(prompt)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
        _send(connection, {"interrupt": True})
    _send(connection, {"answer": line})


def read_line(prompt: str) -> str | None:
    """A line that a person types; None where they end it, or nobody is there."""
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

    `input` would miss a Ctrl-C between its prompt and its read: the read goes on then. Here it wakes what
    waits, whenever it comes.

    Raises:
        KeyboardInterrupt.
    """
    if os.name == "nt":  # no select for a console there
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
    """What a command reads: standard input, and what a person edits in ``$VISUAL`` or ``$EDITOR``.

    Standard input can be read once, and is kept for the server that a command is redirected to. What
    was edited is kept in its file until it has arrived.
    """

    def __init__(self) -> None:
        self._stdin: str | None = None
        self._folder = ""
        self._path = ""

    def read(self) -> str:
        """All of standard input, as UTF-8; bytes that are none survive to be refused by name."""
        if self._stdin is None:
            self._stdin = _read_stdin()
        return self._stdin

    def edit(self, text: str, name: str) -> str | None:
        """The text after it was edited as a file of this name; None where that failed."""
        import shlex
        import signal
        import subprocess
        import tempfile

        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        self._folder = tempfile.mkdtemp(prefix="nb-edit-")
        self._path = os.path.join(self._folder, name)
        with open(self._path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        # Ctrl-C is the editor's meanwhile: a handler, unlike SIG_IGN, is not handed down to it.
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
        """Remove the file, or says where it is if what was written in it has not arrived."""
        if not self._path:
            return
        if not done:
            sys.stderr.write(f"What you wrote is kept in {self._path}\n")
            return
        os.unlink(self._path)
        os.rmdir(self._folder)
        self._path = ""


def _read_stdin() -> str:
    if sys.stdin is None:  # closed by who called
        return ""
    if sys.stdin.isatty():
        sys.stderr.write("Type the text; Ctrl-D at the start of a line ends it, Ctrl-C drops it.\n")
    # One read at a time: a whole one would not hear of Ctrl-C between two of its own.
    stdin: Any = sys.stdin.buffer
    return b"".join(iter(stdin.read1, b"")).decode("utf-8", "surrogateescape")
