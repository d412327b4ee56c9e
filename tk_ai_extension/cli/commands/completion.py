"""Completion in the shell: a script for each, and what it asks for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.base import Command
from tk_ai_extension.cli.parsing import Parser
from tk_ai_extension.cli.session import Session
from tk_ai_extension.model.errors import ToolError

SCRIPTS = {
    "bash": """\
_nb() {
    local IFS=$'\\n'
    COMPREPLY=($(nb complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _nb nb
""",
    "zsh": """\
#compdef nb
_nb() {
    local -a found
    found=("${(@f)$(nb complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -- $found; else _files; fi
}
compdef _nb nb
""",
    "fish": """\
complete -c nb -f -a '(nb complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
complete -c nb -F -n '__fish_seen_subcommand_from open read cells write'
""",
}
"""What each shell's completion is set up with."""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(SCRIPTS))


async def _script(session: Session, args: argparse.Namespace) -> int:
    session.terminal.out(SCRIPTS[args.shell])
    return wire.OK


async def complete(
    session: Session, words: list[str], commands: Iterable[str], parser: Parser | None
) -> int:
    """Prints what the last word may become, a line each.

    Args:
        session: Who asks.
        words: What is typed so far, after ``nb``; the last one is completed.
        commands: The names of all commands.
        parser: The typed command's parser, where one is typed.
    """
    word = words[-1] if words else ""
    if len(words) <= 1 or parser is None:
        found = [name for name in sorted(commands) if name.startswith(word)]
    elif word.startswith("-"):
        options = (option for action in parser._actions for option in action.option_strings)  # noqa: SLF001 - argparse has no other way
        found = [option for option in sorted(options) if option.startswith(word)]
    else:
        place = sum(not typed.startswith("-") for typed in words[1:])
        places = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001
        wanted = places[place - 1].dest if place <= len(places) else ""
        found = await _values(session, wanted, word)
    session.terminal.out("".join(f"{line}\n" for line in found))
    return wire.OK


async def _values(session: Session, wanted: str, word: str) -> list[str]:
    if wanted in ("cell", "cells", "after", "before"):
        try:
            listed = (await session.call("list_cells", limit=2000)).structured()
        except ToolError:
            return []
        return [cell["cell"] for cell in listed["cells"] if cell["cell"].startswith(word)]
    if wanted == "request":
        waiting = session.context.workspace.policy.pending(session.caller.user)
        return [request.id for request in waiting if request.id.startswith(word)]
    if wanted in ("notebook", "path"):
        return notebooks_like(session.terminal.info.cwd, word)
    return []


def notebooks_like(cwd: str, word: str) -> list[str]:
    """The notebooks and folders whose path begins as the word does."""
    folder, beginning = os.path.split(word)
    try:
        entries = sorted(os.scandir(os.path.join(cwd, folder)), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(beginning)
        and (entry.name.endswith(".ipynb") or entry.is_dir())
        and (beginning or not entry.name.startswith("."))
    ]


COMMANDS = (
    Command(
        "completion",
        "Prints what makes your shell complete commands, cells and notebooks.",
        _configure,
        _script,
        (
            'eval "$(nb completion bash)"',
            "nb completion zsh > ~/.zfunc/_nb",
            "nb completion fish > ~/.config/fish/completions/nb.fish",
        ),
    ),
)
