"""Entry point of `nb`.

A command is a thin client of the Jupyter Server that owns the notebook, the project's own or a person's,
which has imported everything: it sends the command line and prints the output. Without a server,
the command reads and edits in this process, more slowly; running code needs one (`nb open` starts it).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from tk_ai_extension._version import __version__
from tk_ai_extension.cli import wire
from tk_ai_extension.cli.client import (
    Console,
    OutputFailed,
    Redirect,
    forward,
    open_closed_streams,
    report_failed_output,
    unreachable,
    write,
)
from tk_ai_extension.cli.connecting import (
    COMMANDS,
    CommandConnection,
    NoAnswer,
    NoServer,
    ServerEndpoint,
    find_server,
    start_server,
)
from tk_ai_extension.cli.project import Project, Refused

STARTS_SERVER = ("open", "chat", "mcp", "lab")
"""Commands that start a server if there is none; those that run code do so once their arguments are valid."""

OF_THE_PROJECT = ("shutdown", "serve", "lab", "doctor")
"""Commands for the project's own server, even if another server has the notebook."""

OF_THE_PROJECT_OPTIONS = ("--sandbox", "--no-sandbox", "--server")
"""Options of `nb open` that only the project's own server can carry out."""


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0, 1 where the cell failed, 2 for any refusal, 3 where no kernel or server
        answers.
    """
    argv = sys.argv[1:] if argv is None else argv
    open_closed_streams()
    try:
        try:
            folder, argv = _folder(argv)
        except FileNotFoundError:
            raise Refused("the working directory was deleted; change to another one.") from None
        project = Project.find(folder)
        name = argv[0] if argv else ""
        if name == "--version":
            write(sys.stdout, f"nb {__version__}\n")
            return wire.OK
        if project.notice and name != "complete":
            write(sys.stderr, f"nb: {project.notice}\n")
        if name == "mcp" and not {"-h", "--help"} & set(argv):
            from tk_ai_extension.cli.stdio import relay

            return relay(project, argv[1:])
        return _run(project, folder, argv)
    except Refused as refusal:
        with suppress(OutputFailed):
            write(sys.stderr, f"nb: {refusal}\n")
        return wire.REFUSED
    except KeyboardInterrupt:
        return wire.INTERRUPTED
    except OutputFailed as failure:
        return report_failed_output(failure)


def _run(project: Project, folder: str, argv: list[str]) -> int:
    """Run a command in its server, else in this process; return the exit status."""
    name = argv[0] if argv else ""
    asks_for_help = bool({"-h", "--help"} & set(argv))
    found = find_server(
        project,
        folder,
        COMMANDS,
        starts=name in STARTS_SERVER and not asks_for_help,
        own=name in OF_THE_PROJECT or _without_own_options(argv) != argv,
    )
    console = Console()
    if isinstance(found, NoServer):
        from tk_ai_extension.cli.serverless import run

        done = run(project, argv, console, found.silent)
    else:
        done = _forward(found, project, argv, console)
    if isinstance(done, Redirect) and not done.url:
        done = _forward(start_server(project, COMMANDS), project, argv, console)
    if isinstance(done, Redirect):
        try:
            with ServerEndpoint(done.url, done.token).open(COMMANDS) as there:
                place, words = done.notebook, _without_own_options(argv)
                done = forward(there, words, project.root, console, own=False, notebook=place)
        except NoAnswer as error:
            return unreachable(str(error), argv)
    assert isinstance(done, int)  # only the project's own server sends redirects
    return done


def _without_own_options(argv: list[str]) -> list[str]:
    """Return a command without the options that only the project's own server can carry out.

    A server that it redirects to does not receive them: they may have another server's token.
    """
    if argv[:1] != ["open"]:
        return argv
    end = argv.index("--") if "--" in argv else len(argv)
    words: list[str] = []
    is_value = False
    for word in argv[:end]:
        if not is_value and word.partition("=")[0] not in OF_THE_PROJECT_OPTIONS:
            words.append(word)
        is_value = not is_value and word == "--server"
    return words + argv[end:]


def _forward(
    found: CommandConnection, project: Project, argv: list[str], console: Console
) -> int | Redirect:
    """Run a command in a server; return the exit status or a redirect."""
    with found.connection as connection:
        return forward(connection, argv, project.root, console, own=found.own)


def _folder(argv: list[str]) -> tuple[str, list[str]]:
    """Return the working folder (``-C FOLDER``, else the current one) and the other words."""
    if argv[:2] == ["complete", "--"]:
        words = [_unquoted(word) for word in argv[2:]]
        folder = os.getcwd()
        if words[:1] == ["-C"] and len(words) > 2:
            # Complete the command in that folder.
            folder, words = _folder(words)
        return folder, ["complete", "--", *words]
    if argv[:1] != ["-C"]:
        return os.getcwd(), argv
    if len(argv) < 2:
        raise Refused("-C needs a folder.")
    try:
        os.chdir(argv[1])
    except OSError as error:
        raise Refused(f"{argv[1]}: {error.strerror}.") from None
    return os.getcwd(), argv[2:]


def _unquoted(word: str) -> str:
    """Remove the shell's quotes from a word; the last one may be unclosed."""
    import shlex

    for end in ("", "'", '"'):
        try:
            return "".join(shlex.split(word + end))
        except ValueError:
            continue
    return word
