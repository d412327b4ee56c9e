"""`nb`: where every command begins.

A command is a thin client of the project's host, which has imported everything: it says what was
typed, and prints what comes back. Without a host, reading and editing happen right here, more
slowly; what runs code needs one (`nb open` starts it).
"""

from __future__ import annotations

import os
import sys

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.client import forward, nobody_reads
from tk_ai_extension.cli.project import Project, Refused

STARTS_HOST = ("open", "chat", "mcp", "serve")
"""The commands that start a host where there is none."""


def main(argv: list[str] | None = None) -> int:
    """Runs one command.

    Returns:
        The exit status: 0, 1 where the cell failed, 2 for any refusal, 3 where no kernel or server
        answers.
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        folder, argv = _folder(argv)
        project = Project.find(folder)
        name = argv[0] if argv else ""
        if project.notice and name != "complete":
            sys.stderr.write(f"nb: {project.notice}\n")
        if name == "mcp" and not {"-h", "--help"} & set(argv):
            from tk_ai_extension.cli.stdio import relay

            return relay(project, argv[1:])
        connection = project.connect(wire.SOCKET)
        starts = name in STARTS_HOST or project.has_kernels()
        if connection is None and starts and not {"-h", "--help"} & set(argv):
            from tk_ai_extension.cli.launch import launch

            launch(project)
            connection = project.connect(wire.SOCKET)
        if connection is not None:
            with connection:
                return forward(connection, argv)
        from tk_ai_extension.cli.hostless import run

        return run(project, argv)
    except Refused as refusal:
        sys.stderr.write(f"nb: {refusal}\n")
        return wire.REFUSED
    except KeyboardInterrupt:
        return wire.INTERRUPTED
    except BrokenPipeError:
        return nobody_reads()


def _folder(argv: list[str]) -> tuple[str, list[str]]:
    """The folder to work in (``-C FOLDER`` before the command, else the current one), and the rest."""
    if argv[:1] != ["-C"]:
        return os.getcwd(), argv
    if len(argv) < 2:
        raise Refused("-C needs a folder.")
    try:
        os.chdir(argv[1])
    except OSError as error:
        raise Refused(f"{argv[1]}: {error.strerror}.") from None
    return os.getcwd(), argv[2:]
