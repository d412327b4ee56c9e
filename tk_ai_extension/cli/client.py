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
    while True:
        try:
            line = lines.readline()
            if not line:
                sys.stderr.write("The host ended before it had answered; see .nb/host.log.\n")
                return wire.UNREACHABLE
            frame = json.loads(line)
            _print(frame)
            if "ask" in frame:
                _say(connection, {"answer": _answer(frame)})
            if "exit" in frame:
                if frame.get("ending"):
                    lines.readline()
                return frame["exit"]
        except KeyboardInterrupt:
            if interrupted:
                sys.stderr.write("Not waiting any more; it runs on (`nb watch` follows it).\n")
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
        "typing": sys.stdin is not None and sys.stdin.isatty(),
        "env": {name: os.environ[name] for name in wire.ENVIRONMENT if name in os.environ},
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


def _answer(question: Mapping[str, Any]) -> str | None:
    kind = question["ask"]
    if kind == "stdin":
        return read_stdin()
    if kind == "edit":
        return edit(question["text"], question["name"])
    return confirm(question["text"])


def read_stdin() -> str:
    """All of standard input, as UTF-8; bytes that are none survive to be refused by name."""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def confirm(question: str) -> str | None:
    """What a person types after a question; None at the end of the input."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline() or None


def edit(text: str, name: str) -> str | None:
    """The text after a person has edited it in ``$VISUAL`` or ``$EDITOR``; None where that failed."""
    import shlex
    import subprocess
    import tempfile

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="nb-") as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        try:
            ended = subprocess.run([*shlex.split(editor), path], check=False)
        except OSError as error:
            sys.stderr.write(f"{editor}: {error.strerror}\n")
            return None
        if ended.returncode != 0:
            return None
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
