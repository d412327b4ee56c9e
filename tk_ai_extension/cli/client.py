"""A command's end of the conversation with its host: says what was asked, prints what comes."""

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


def forward(connection: socket.socket, argv: list[str]) -> int:
    """Has the host run a command, and is its terminal meanwhile.

    Ctrl-C interrupts what runs; a second one only stops waiting for it. A command that is killed
    stops waiting, too: what it started runs on.

    Returns:
        The exit status.
    """
    lines = connection.makefile("r", encoding="utf-8")
    _say(connection, _greeting(argv))
    interrupted = False
    desk = Editor()
    while True:
        try:
            try:
                line = lines.readline()
            except ConnectionError:
                line = ""
            if not line:
                sys.stderr.write("The host ended before it had answered; see .nb/host.log.\n")
                desk.clear(done=False)
                return wire.UNREACHABLE
            frame = json.loads(line)
            _print(frame)
            if "ask" in frame:
                if frame["ask"] == "line":
                    _answer_line(connection, frame["prompt"])
                else:
                    _say(connection, {"answer": _answer(frame, desk)})
                # Whoever was asked has seen what came of it.
                interrupted = False
            if "exit" in frame:
                if frame.get("ending"):
                    lines.readline()
                desk.clear(done=frame["exit"] == wire.OK)
                return frame["exit"]
        except KeyboardInterrupt:
            if interrupted:
                sys.stderr.write(
                    "Not waiting any more; it runs on, its outputs go into the notebook.\n"
                )
                return wire.INTERRUPTED
            interrupted = True
            _say(connection, {"interrupt": True})
        except BrokenPipeError:
            # Whoever read our output has enough; nothing more can be printed, nor flushed at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return wire.OK


def _greeting(argv: list[str]) -> dict[str, object]:
    tty = sys.stdout.isatty()
    return {
        "argv": argv,
        "cwd": os.getcwd(),
        "columns": os.get_terminal_size().columns if tty else 0,
        "tty": tty,
        "env": {name: os.environ[name] for name in wire.heard(argv) if name in os.environ},
        "version": __version__,
    }


def _say(connection: socket.socket, message: Mapping[str, object]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _print(frame: Mapping[str, Any]) -> None:
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        if name in frame:
            write(stream, frame[name])


def write(stream: TextIO, text: str) -> None:
    """Writes and flushes text; what the stream's encoding does not have becomes an escape."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _answer(question: Mapping[str, Any], desk: Editor) -> str | None:
    if question["ask"] == "stdin":
        return read_stdin()
    return desk.edit(question["text"], question["name"])


def read_stdin() -> str:
    """All of standard input, as UTF-8; bytes that are none survive to be refused by name."""
    if sys.stdin is None:  # closed by who called
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def _answer_line(connection: socket.socket, prompt: str) -> None:
    """Sends the line that a person types; Ctrl-C is said, too, and no line."""
    line = None
    try:
        line = read_line(prompt)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
        _say(connection, {"interrupt": True})
    _say(connection, {"answer": line})


def read_line(prompt: str) -> str | None:
    """A line that a person types; None where they end it, or nobody is there."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    try:
        return input(prompt)
    except EOFError:
        sys.stdout.write("\n")
        return None


class Editor:
    """What a person edits in ``$VISUAL`` or ``$EDITOR``: kept in its file until it has arrived."""

    def __init__(self) -> None:
        self._folder = ""
        self._path = ""

    def edit(self, text: str, name: str) -> str | None:
        """The text after it was edited as a file of this name; None where that failed."""
        import shlex
        import subprocess
        import tempfile

        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        self._folder = tempfile.mkdtemp(prefix="nb-edit-")
        self._path = os.path.join(self._folder, name)
        with open(self._path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        try:
            ended = subprocess.run([*shlex.split(editor), self._path], check=False)
        except OSError as error:
            sys.stderr.write(f"{editor}: {error.strerror}\n")
            return None
        if ended.returncode != 0:
            return None
        with open(self._path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()

    def clear(self, *, done: bool) -> None:
        """Removes the file, or says where it is if what was written in it has not arrived."""
        if not self._path:
            return
        if not done:
            sys.stderr.write(f"What you wrote is kept in {self._path}\n")
            return
        os.unlink(self._path)
        os.rmdir(self._folder)
        self._path = ""
