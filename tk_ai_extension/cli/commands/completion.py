"""Shell completion: the script for each shell, and the command that it calls."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any
from unicodedata import category

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.answers import CompletionScript
from tk_ai_extension.cli.commands.command import Command
from tk_ai_extension.cli.parsing import Parser
from tk_ai_extension.cli.session import Session
from tk_ai_extension.model.errors import ToolError

SCRIPTS = {
    "bash": r"""# A completion is inserted as it is: quote it, within the quotes that are open at the cursor.
_nb_quote() {
    local text=$1 word=$2 i each quote=
    for ((i = 0; i < ${#word}; i++)); do
        each=${word:i:1}
        case $quote$each in
            \'\' | '""') quote= ;;
            \\ | '"\') ((i++)) ;;
            \' | '"') quote=$each ;;
        esac
    done
    quoted=
    if [[ -z $quote ]]; then
        # The shell expands a tilde that was typed.
        if [[ $word == \~*/* ]]; then
            quoted=${text%%/*}/
            text=${text#*/}
        fi
        printf -v text %q "$text"
        quoted+=$text
        return
    fi
    for ((i = 0; i < ${#text}; i++)); do
        each=${text:i:1}
        case $quote$each in
            \'\') quoted+="'\\''" ;;
            \"[\\\"\$\`]) quoted+=\\$each ;;
            '"!') quoted+="\"'!'\"" ;;
            *) quoted+=$each ;;
        esac
    done
}
_nb() {
    local reply quoted
    COMPREPLY=()
    while IFS= read -r reply; do
        _nb_quote "$reply" "${COMP_WORDS[COMP_CWORD]}"
        COMPREPLY+=("$quoted")
        # The next word is a part of the same path.
        if [[ $reply == */ ]]; then compopt -o nospace 2>/dev/null; fi
    done < <(nb complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _nb nb
""",
    "zsh": """\
#compdef nb
_nb() {
    local -a found folders others
    found=("${(@f)$(nb complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    folders=("${(@M)found:#*/}")
    others=("${(@)found:#*/}")
    others=("${(@)others:#}")
    (( $#folders )) && compadd -S '' -- "${folders[@]}"
    (( $#others )) && compadd -- "${others[@]}"
}
if [[ $funcstack[1] == _nb ]]; then _nb "$@"; else compdef _nb nb; fi
""",
    "fish": """\
complete -c nb -f -a '(nb complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}
"""Completion script of each shell."""

_CELLS = ("cell", "cells", "after", "before")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(SCRIPTS))


async def _script(session: Session, args: argparse.Namespace) -> int:
    answer = CompletionScript(shell=args.shell, script=SCRIPTS[args.shell])
    if session.options.json:
        return session.finish(answer)
    session.terminal.out(answer.script)  # for the shell: as it is
    return wire.OK


async def complete(
    session: Session,
    words: list[str],
    commands: Iterable[str],
    parser_of: Callable[[str], Parser],
) -> int:
    """Print the completions of the last word, one per line.

    Args:
        session: The session of the command.
        words: The words after ``nb``; the last one is completed.
        commands: The names of all commands.
        parser_of: Returns the parser of a command.
    """
    word = words[-1] if words else ""
    names = sorted(commands)
    if words[:1] == ["-C"]:
        # The rest is completed in that folder: see `main`.
        found = paths_like(session.terminal.info.cwd, word, _is_folder)
    elif len(words) <= 1:
        found = [name for name in (*names, "help") if name.startswith(word)]
    elif words[0] == "help":
        found = [name for name in (*names, "errors", "json") if name.startswith(word)]
    elif words[0] in names:
        found = await _arguments(session, words[1:], parser_of(words[0]))
    else:
        found = []
    session.terminal.out("".join(f"{line}\n" for line in found))
    return wire.OK


async def _arguments(session: Session, words: list[str], parser: Parser) -> list[str]:
    """Return the completions of the last word of a command's arguments."""
    actions: list[Any] = parser._actions  # noqa: SLF001 - argparse has no other way
    options: dict[str, Any] = {name: each for each in actions for name in each.option_strings}
    places = [each for each in actions if not each.option_strings]
    *before, word = words
    wanted: Any = None
    notebook: str | None = None
    for typed in before:
        if wanted is not None:
            notebook = typed if wanted.dest == "notebook" else notebook
            wanted = None
        elif typed in options:
            # An option without a value has `nargs` 0; one with an optional value is complete.
            wanted = options[typed] if options[typed].nargs is None else None
        elif not typed.startswith("-") and places:
            place = places.pop(0) if places[0].nargs != "*" else places[0]
            notebook = typed if place.dest == "notebook" else notebook
    if wanted is None:
        name, is_given, value = word.partition("=")
        if is_given and name in options:
            values = await _values(session, options[name], value, notebook)
            return [f"{name}={value}" for value in values]
        if word.startswith("-"):
            return [option for option in sorted(options) if option.startswith(word)]
        if not places:
            return []
        wanted = places[0]
    return await _values(session, wanted, word, notebook)


async def _values(session: Session, wanted: Any, word: str, notebook: str | None) -> list[str]:
    """Return the values of an argparse argument that start with the word."""
    cwd = session.terminal.info.cwd
    match wanted.dest:
        case "notebook" | "paths" | "output" | "code":
            return paths_like(cwd, word, _is_notebook)
        case "path" | "file" | "sanitize_with" | "junitxml" | "parameters_file":
            return paths_like(cwd, word, lambda _: True)
        case _ if wanted.choices:
            found = [str(choice) for choice in wanted.choices]
        case "request":
            waiting = session.context.workspace.policy.pending(session.caller.user)
            found = [request.id for request in waiting]
        case "execution_id":
            found = [run.id for run in session.context.workspace.executions.active()]
        case "kernel" | "kernel_name":
            specs = await session.context.workspace.kernels.kernelspecs()
            found = [spec.name for spec in specs]
        case name if name in _CELLS:
            named = session.located({"notebook": notebook} if notebook else {})
            try:
                listed = (await session.call("list_cells", limit=2000, **named)).structured()
            except ToolError:
                return []
            found = [cell["cell"] for cell in listed["cells"]]
        case _:
            return []
    return [value for value in found if value.startswith(word)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir()


def _is_notebook(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(".ipynb") or entry.is_dir()


def paths_like(cwd: str, word: str, is_meant: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    """Return the files and folders whose path starts with the word."""
    folder, beginning = os.path.split(word)
    try:
        with os.scandir(os.path.join(cwd, os.path.expanduser(folder))) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(beginning)
        and is_meant(entry)
        and (beginning or not entry.name.startswith("."))
        and _is_one_line(entry.name)
    ]


def _is_one_line(name: str) -> bool:
    """Whether a shell can show a name and insert it: without control characters, and UTF-8."""
    return name.isprintable() or not any(category(each) in ("Cc", "Cf", "Cs") for each in name)


COMMANDS = (
    Command(
        "completion",
        "Print the script that completes commands, cells and notebooks in your shell.",
        _configure,
        _script,
        (
            'eval "$(nb completion bash)"',
            "nb completion zsh > ~/.zfunc/_nb",
            "nb completion fish > ~/.config/fish/completions/nb.fish",
        ),
        answers=(CompletionScript,),
    ),
)
