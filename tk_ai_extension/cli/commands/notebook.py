"""`nb read`, `write`, `save` and `watch`: the notebook as a whole."""

from __future__ import annotations

import argparse

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.commands.command import Command, given
from tk_ai_extension.cli.parsing import STDIN, WrongCall, add_notebook
from tk_ai_extension.cli.session import Session
from tk_ai_extension.cli.terminal import UnreadableFile, harmless
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.tools.context import Result
from tk_ai_extension.tools.default.reading import MAX_BUDGET, NotebookRead
from tk_ai_extension.tools.execution_results import ExecutionResult
from tk_ai_extension.tools.plans import CellsChanged


def _configure_read(parser: argparse.ArgumentParser) -> None:
    add_notebook(parser)
    parser.add_argument(
        "--view",
        choices=("editable", "reading", "raw"),
        help="sources, to write back (default); with short outputs; JSON",
    )
    parser.add_argument("--cells", metavar="RANGES", help="such as 0-3,7,@318a,-1")
    parser.add_argument(
        "--lines", metavar="RANGES", help="lines of the text, such as 10-20; not for `nb write`"
    )
    parser.add_argument("--budget", type=int, help="maximum characters (default: all)")


async def _read(session: Session, args: argparse.Namespace) -> int:
    arguments = {"budget": MAX_BUDGET, **await given(session, args)}
    result = await session.call("read_notebook", **arguments)
    fields = session.for_display(result).structured()
    if session.screen.live or session.options.json:
        return session.finish(result)
    if "artifact" in fields:
        raise InvalidArguments(
            f"A cell has more than {arguments['budget']:,} characters as JSON. Nothing was printed.",
            hint="Give a larger --budget, or none.",
        )
    # Only the text goes to standard output; warnings and notices are for a person.
    session.terminal.out(fields["text"])
    for warning in fields.get("warnings", ()):
        session.terminal.err(f"Warning: {harmless(warning)}\n")
    for notice in result.notices:
        session.terminal.err(f"Note: {harmless(notice)}\n")
    if "next_range" in fields:
        session.terminal.err(f"There is more: --cells {fields['next_range']}\n")
    return wire.OK


def _configure_write(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default=STDIN, help="the text (default: standard input)")
    add_notebook(parser, by_place=False, help="path or name (default: from the text's header)")
    parser.add_argument("--base", help="the revision that was read, if the text has no header")


async def _write(session: Session, args: argparse.Namespace) -> int:
    if args.file == STDIN:
        text = await session.terminal.read()
    else:
        try:
            text = await session.terminal.read_file(args.file)
        except UnreadableFile as problem:
            raise WrongCall(f"nb write: {args.file}: {problem}\n") from None
    text = session.text_for_server(text)
    named = {"notebook": args.notebook, "base": args.base}
    named = {name: value for name, value in named.items() if value is not None}
    return session.finish(await session.call("write_notebook", text=text, **session.located(named)))


class Saved(Result):
    """A saved notebook."""

    notebook: str
    revision: str

    def as_text(self) -> str:
        """Return one line."""
        return f"{self.notebook} is saved (rev:{self.revision})."


def _configure_save(parser: argparse.ArgumentParser) -> None:
    add_notebook(parser)


async def _save(session: Session, args: argparse.Namespace) -> int:
    notebook = session.located({"notebook": args.notebook})["notebook"]
    workspace = session.context.workspace
    path = workspace.path(session.caller, notebook, tool="nb save")
    await session.context.check_owner(path, "WRITE")
    document = await workspace.store.open(path)
    await document.flush()
    snapshot = await document.read()
    return session.finish(Saved(notebook=path, revision=snapshot.revision))


def _configure_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "execution_id",
        nargs="?",
        help="the execution's id, from `nb exec` or an agent (default: your running or last one)",
    )
    parser.add_argument("--wait", type=float, help="seconds to wait (default: until it ends)")


async def _watch(session: Session, args: argparse.Namespace) -> int:
    named = {"wait": args.wait} if args.wait is not None else {}
    execution_id = args.execution_id
    if execution_id is None:
        execution_id = session.context.last_run(session.caller)
    result = await session.run("wait_execution", execution_id=execution_id, **named)
    return session.finish(result)


COMMANDS = (
    Command(
        "read",
        "Read a notebook as text, its cells after markers: `# %% [code] @id`.",
        _configure_read,
        _read,
        ("nb read analysis.ipynb > a.txt", "nb read --view reading --cells 0-9"),
        group="Read",
        answers=(NotebookRead,),
    ),
    Command(
        "write",
        "Write the cell-marked text back, merged with changes by others.",
        _configure_write,
        _write,
        ("nb read > a.txt && $EDITOR a.txt && nb write a.txt", "sed s/foo/bar/ a.txt | nb write"),
        group="Change",
        answers=(CellsChanged,),
    ),
    Command(
        "save",
        "Wait until everything is saved (changes and outputs are saved automatically).",
        _configure_save,
        _save,
        ("nb save",),
        group="Change",
        answers=(Saved,),
    ),
    Command(
        "watch",
        "Follow an execution: print new output until it ends.",
        _configure_watch,
        _watch,
        ("nb exec 3 --wait 0; nb watch", "nb watch 3f2a90bc11   # an agent's execution"),
        group="Run",
        answers=(ExecutionResult,),
    ),
)
