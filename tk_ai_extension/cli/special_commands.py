"""Commands beyond a single tool call. Every other command is made from its tool."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from contextlib import suppress
from typing import NamedTuple

from tk_ai_extension.cli.chat import MODES, chat, configure_chat
from tk_ai_extension.cli.command_context import LONG, CommandContext, write_err
from tk_ai_extension.cli.parsing import (
    STDIN,
    Parser,
    add_notebook,
    command_parser,
    json_of,
    signature,
)
from tk_ai_extension.cli.project_folder import KERNELS, CommandError
from tk_ai_extension.cli.servers import (
    API,
    Server,
    ToolFailed,
    server_of,
    start_server,
    stop_server,
)
from tk_ai_extension.verification import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from typing import Any

    Run = Callable[[CommandContext, argparse.Namespace], int]

MAX_BUDGET = 10_000_000
"""Characters that `nb read` asks for: all of a notebook."""

DEFAULT_TOOLS = os.path.join(os.path.dirname(__file__), "default_tools.json")
"""The descriptions of the default tools: to import the tools would take five times as long as a command."""

ANSWERS = ("once", "chat", "chat_tool", "notebook", "notebook_tool")
"""Answers that approve a request."""


class Command(NamedTuple):
    """A command of `nb` that is not made from a tool.

    Attributes:
        name: Its name.
        summary: What it does; the first sentence is in the overview.
        examples: Lines for its help.
        configure: Adds its arguments to a parser.
        group: Its heading in the overview.
        run: Runs it and returns the exit status.
    """

    name: str
    summary: str
    examples: tuple[str, ...]
    configure: Callable[[Parser], None] | None
    group: str
    run: Run

    def parser(self) -> Parser:
        """Return its parser."""
        parser = command_parser(self.name, self.summary, self.examples)
        if self.configure is not None:
            self.configure(parser)
        return parser


COMMANDS: dict[str, Command] = {}
"""The commands by name."""


def command(
    name: str,
    summary: str,
    *examples: str,
    configure: Callable[[Parser], None] | None = None,
    group: str = "Project",
) -> Callable[[Run], Run]:
    """Make a function a command; see `Command`."""

    def define(run: Run) -> Run:
        COMMANDS[name] = Command(name, summary, examples, configure, group, run)
        return run

    return define


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input for ``-``.

    Raises:
        CommandError: it cannot be read, or is not UTF-8.
    """
    try:
        if name == STDIN:
            return sys.stdin.buffer.read().decode()
        with open(name, encoding="utf-8", newline="") as file:
            return file.read()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{name}: the text is not UTF-8. Nothing was changed.") from None


def source_of(given: str) -> str:
    """Return a source of the command line; ``-`` reads standard input without its last newline."""
    return read_text(STDIN).removesuffix("\n") if given == STDIN else given


def _named(context: CommandContext, args: argparse.Namespace) -> tuple[Server, dict[str, str]]:
    """Return the server of the notebook that a command names, or of the current one, and its argument."""
    path = context.path(args.notebook)
    server = context.server(path)
    return server, notebook_argument(context, server, args.notebook)


def notebook_argument(context: CommandContext, server: Server, given: str | None) -> dict[str, str]:
    """Return the argument that names a notebook in a call; empty if none is open."""
    path = context.path(given)
    if path is None:
        return {} if given is None else {"notebook": given}
    return {"notebook": context.there(server, path, given or "")}


# -- status, save, shutdown


@command("status", "Show the open notebook and the running cells.", "nb status --json")
def _status(context: CommandContext, _args: argparse.Namespace) -> int:
    project, current = context.project, context.current
    shown = None if current is None else os.path.relpath(current, project.root)
    fields: dict[str, Any] = {"project": project.root, "notebook": shown, "kernels": []}
    lines = [f"project {project.root}"]
    server = server_of(project, current or project.root, changes=False)
    if server is None:
        lines.append("no server: nb open NOTEBOOK starts one")
    else:
        fields |= {"server": server.url, "host": server.pid if server.is_headless else None}
        is_own = "server process" if server.is_headless else "in the Jupyter Server of process"
        lines.append(f"{is_own} {server.pid} at {server.url}")
        running = context.call(server, "list_running_kernels")
        fields["kernels"] = running["result"]["kernels"]
        lines.append(running["text"].rstrip())
        asked = server.request("GET", f"{API}/permissions")["permissions"]
        fields["waiting"] = len(asked)
        if asked:
            lines.append(f"calls that need your approval: {len(asked)} (nb approve)")
    lines.insert(1, f"notebook {shown}" if shown else "no notebook is open")
    return context.show("\n".join(lines), fields)


@command(
    "save",
    "Wait until everything is saved (changes and outputs are saved automatically).",
    "nb save",
    configure=add_notebook,
    group="Change",
)
def _save(context: CommandContext, args: argparse.Namespace) -> int:
    server, notebook = _named(context, args)
    saved = server.request("POST", f"{API}/save", notebook)
    return context.show(f"{saved['notebook']} is saved (rev:{saved['revision']}).", saved)


@command("shutdown", "Stop this project's kernels and its server, and clean up.", "nb shutdown")
def _shutdown(context: CommandContext, _args: argparse.Namespace) -> int:
    was_running = stop_server(context.project)
    text = "The server and its kernels were stopped." if was_running else "No server was running."
    return context.show(text, {"was_running": was_running})


# -- serve, lab


def _configure_serve(parser: Parser) -> None:
    add_notebook(parser, help="the notebook with the kernel to share (default: the current one)")
    parser.add_argument("--off", action="store_true", help="stop sharing it")


@command(
    "serve",
    "Share the notebook's kernel with VS Code, JupyterLab and consoles.",
    "nb serve",
    "nb serve --off",
    configure=_configure_serve,
)
def _serve(context: CommandContext, args: argparse.Namespace) -> int:
    server = start_server(context.project)
    path = f"{API}/project/share"
    if args.off:
        was = server.request("DELETE", path)
        return context.show("Stopped sharing." if was["was_shared"] else "Nothing was shared.", was)
    shared = server.request("POST", path, notebook_argument(context, server, args.notebook))
    folder = os.path.join(context.project.folder, KERNELS)
    text = (
        f"The kernel of {shared['notebook']} is shared: choose `{shared['display_name']}` in VS Code or "
        f"JupyterLab, or\n  jupyter console --kernel {shared['kernelspec']}\nA Jupyter Server can "
        "list it, too:\n  jupyter lab --ServerApp.allow_external_kernels=True "
        f"--ServerApp.external_connection_dir={folder}"
    )
    return context.show(text, {**shared, "connection_dir": folder})


def _configure_lab(parser: Parser) -> None:
    add_notebook(parser, help="the notebook to open (default: the current one, if any)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


@command(
    "lab",
    "Open JupyterLab on this project's server, with its kernels and variables.",
    "nb lab",
    "nb lab analysis.ipynb --no-browser",
    configure=_configure_lab,
)
def _lab(context: CommandContext, args: argparse.Namespace) -> int:
    server = start_server(context.project)
    url = str(server.request("POST", f"{API}/project/lab")["url"])
    notebook = notebook_argument(context, server, args.notebook).get("notebook")
    if notebook is not None:
        from urllib.parse import quote

        url = url.replace("/lab?", f"/lab/tree/{quote(notebook)}?", 1)
    if not args.no_browser and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(url)
    return context.show(f"JupyterLab: {url}", {"url": url})


# -- run, verify and blame whole notebooks

_OF_FILES = ("output", "parameter", "parameters_file", "kernel", "allow_errors")
"""Options of `nb run` for whole notebooks alone."""


def configure_run(parser: Parser) -> None:
    """Add the arguments of `nb run`."""
    parser.add_argument(
        "code",
        metavar="CODE|NOTEBOOK",
        help="code for the notebook's kernel, - for standard input; or a notebook, to run all of it in "
        "a new one",
    )
    add_notebook(parser, by_place=False)
    parser.add_argument("--wait", type=float, help="seconds to wait (default: until it ends)")
    parser.add_argument("--timeout", type=float, help="seconds until the code is interrupted")
    whole = parser.add_argument_group("for a whole notebook")
    whole.add_argument("--output", metavar="FILE", help="write the result there, not in place")
    whole.add_argument(
        *("-p", "--parameter"),
        action="append",
        metavar="NAME=VALUE",
        help="set a variable, below the cell with the tag parameters (needs --output)",
    )
    whole.add_argument(
        *("-f", "--parameters-file"),
        action="append",
        metavar="FILE",
        help="parameters from a YAML file; those of -p take precedence",
    )
    whole.add_argument("--kernel", metavar="NAME", help="kernelspec, instead of the notebook's")
    whole.add_argument(
        "--allow-errors", action="store_true", default=None, help="run all cells, despite failures"
    )


@command(
    "run",
    "Run code in the notebook's kernel; or a whole notebook from the top, in a new kernel.",
    "nb run 'df.shape'                   # the notebook does not change",
    "nb run - < check.py",
    "nb run report.ipynb                 # a whole notebook in a new kernel, in place",
    "nb run report.ipynb --output may.ipynb -p month=5 -p region=north",
    configure=configure_run,
    group="Run",
)
def _run(context: CommandContext, args: argparse.Namespace) -> int:
    is_whole = re.fullmatch(r"[^\n!%?()=;'\"]+\.ipynb", args.code) is not None
    for name in ("notebook",) if is_whole else _OF_FILES:
        if getattr(args, name) is not None:
            what = "a whole notebook" if is_whole else "code"
            raise CommandError(f"run: --{name.replace('_', '-')} is not for {what}.")
    limits = {name: getattr(args, name) for name in ("wait", "timeout")}
    limits = {name: value for name, value in limits.items() if value is not None}
    if not is_whole:
        server, arguments = _named(context, args)
        arguments |= limits
        code = source_of(args.code)
        return context.finish(context.run(server, "execute_ipython", code=code, **arguments))
    path = os.path.abspath(os.path.expanduser(args.code))
    server = context.server(path)
    options: dict[str, Any] = {
        "notebook": context.there(server, path, args.code),
        "parameters": dict(map(_parameter, args.parameter or ())),
        "parameter_files": {each: read_text(each) for each in args.parameters_file or ()},
        "allow_errors": bool(args.allow_errors),
        **({} if args.kernel is None else {"kernel_name": args.kernel}),
        **limits,
    }
    if args.output is not None:
        options["output"] = context.there(server, os.path.abspath(args.output), args.output)
    return context.finish(context.run(server, "nb:run_notebook", **options))


def _parameter(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals:
        raise CommandError(f"run: -p {word}: write it as NAME=VALUE.")
    return name.strip(), value


def _configure_verify(parser: Parser) -> None:
    add_notebook(parser)
    for name, described in OPTIONS.items():
        parser.add_argument(f"--{name}", **described)
    parser.add_argument("--update", action="store_true", help="store the new outputs that differ")


@command(
    "verify",
    "Run a notebook in a fresh kernel and compare its outputs with the stored ones.",
    "nb verify analysis.ipynb",
    "nb verify analysis.ipynb --sanitize-with nbval.cfg --ignore-times",
    "nb verify analysis.ipynb --update   # store the outputs that differ",
    configure=_configure_verify,
    group="Run",
)
def _verify(context: CommandContext, args: argparse.Namespace) -> int:
    server, arguments = _named(context, args)
    options: dict[str, Any] = {
        "sanitizers": [read_text(file) for file in args.sanitize_with],
        "ignore_times": args.ignore_times,
        "lax": args.lax,
        "kernel_name": args.kernel,
        "timeout": args.timeout,
    }
    arguments |= {name: value for name, value in options.items() if value is not None}
    answer = context.run(server, "nb:verify_notebook", **arguments)
    if args.update and answer["result"]["status"] != "interrupted":
        name = answer["result"]["execution_id"]
        write_err(context.call(server, "nb:store_outputs", execution_id=name)["text"])
    return context.finish(answer)


def _configure_blame(parser: Parser) -> None:
    add_notebook(parser)
    parser.add_argument("cell", nargs="?", help="id or index of a cell (default: all cells)")


@command(
    "blame",
    "Show who changed each cell last, and who ran it (calls of tools, not a person's typing).",
    "nb blame analysis.ipynb",
    "nb blame analysis.ipynb 318a",
    configure=_configure_blame,
    group="Read",
)
def _blame(context: CommandContext, args: argparse.Namespace) -> int:
    server = context.server(context.path(args.notebook), changes=False)
    arguments = notebook_argument(context, server, args.notebook)
    cell = {} if args.cell is None else {"cell": args.cell}
    return context.finish(context.call(server, "nb:blame", **arguments, **cell))


# -- approve


def _configure_approve(parser: Parser) -> None:
    parser.add_argument(
        "request", nargs="?", help="the request's id (default: list pending requests)"
    )
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument(
        "--for",
        dest="answer",
        choices=ANSWERS,
        help="approve this call (default), all calls with that effect in this session, or in this "
        "notebook; with _tool only those of the same tool",
    )
    answer.add_argument(
        "--deny",
        nargs="?",
        const="",
        metavar="MESSAGE",
        help="deny it, with an optional message for the agent",
    )


@command(
    "approve",
    "Approve or deny an agent's requests; list pending ones with their code or diff.",
    "nb approve                          # pending requests and what they would do",
    "nb approve 9c1f0a55e3d2b784         # this call, once",
    "nb approve 9c1f0a55e3d2b784 --for notebook",
    "nb approve 9c1f0a55e3d2b784 --deny 'use the cached data instead'",
    configure=_configure_approve,
)
def _approve(context: CommandContext, args: argparse.Namespace) -> int:
    server = context.server(changes=False)
    asked = server.request("GET", f"{API}/permissions")["permissions"]
    if args.request is None:
        if args.answer is not None or args.deny is not None:
            raise CommandError("approve: name the request to answer")
        text = "\n\n".join(map(_asked, asked)) or "No requests are waiting."
        return context.show(text, {"permissions": asked})
    answer = "deny" if args.deny is not None else args.answer or "once"
    body = {"answer": answer, "message": args.deny or ""}
    done = server.request("POST", f"{API}/permissions/{args.request}", body)
    said = "Denied." if answer == "deny" else f"Approved ({answer})."
    return context.show(said, done)


def _asked(request: Mapping[str, Any]) -> str:
    """Return a request with its proposal and the commands that answer it."""
    where = f" in {request['notebook']}" if request["notebook"] else ""
    who = f"{request['author']} ({request['interface']})"
    ago = max(time.time() - request["created"], 0)
    answers: list[str] = request["answers"]
    lasting = "|".join(each for each in answers if each not in ("once", "deny"))
    longer = f" [--for {lasting}]" if lasting else ""
    return (
        f"{who} wants to call {request['tool']}{where}, {ago:.0f} s ago\n"
        f"{request['preview'].rstrip()}\n"
        f"nb approve {request['id']}{longer}\nnb approve {request['id']} --deny [MESSAGE]"
    )


# -- doctor


@command(
    "doctor", "Check what this machine and this project support.", "nb doctor", "nb doctor --json"
)
def _doctor(context: CommandContext, _args: argparse.Namespace) -> int:
    from tk_ai_extension.cli.doctor import doctor

    return doctor(context)


# -- mcp and completion


def _configure_mcp(parser: Parser) -> None:
    parser.add_argument("--toolsets", help="toolsets to offer, such as default,omp")
    parser.add_argument(
        "--mode",
        choices=MODES,
        help="permission mode: what runs without approval (default: auto)",
    )
    parser.add_argument(
        "--caller", help="the caller's name, for state that outlasts the connection"
    )


@command(
    "mcp",
    "Serve MCP over standard input and output, for agents that start MCP servers themselves.",
    "claude mcp add nb -- nb mcp",
    "nb mcp --toolsets default,claude-code --mode plan",
    configure=_configure_mcp,
)
def _mcp(context: CommandContext, args: argparse.Namespace) -> int:
    from tk_ai_extension.cli.mcp_stdio import bridge

    options = {name: getattr(args, name) for name in ("toolsets", "mode", "caller")}
    return bridge(context, {name: value for name, value in options.items() if value})


def _configure_completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


@command(
    "completion",
    "Print the script that completes commands in a shell.",
    'eval "$(nb completion bash)"',
    configure=_configure_completion,
)
def _completion(context: CommandContext, args: argparse.Namespace) -> int:
    import argcomplete

    script = argcomplete.shellcode(["nb", "tk-nb"], shell=args.shell)
    return context.show(script, {"shell": args.shell, "script": script})


command(
    "chat",
    "Chat with Claude, who works in the notebook: one message, or a dialogue.",
    'nb chat "why is the last cell slow?"',
    'nb chat -n sales.ipynb --mode auto "plot the prices"',
    "nb chat                             # a dialogue, in the open notebook's chat",
    configure=configure_chat,
)(chat)


def tool_call(context: CommandContext, tool: Mapping[str, Any], args: argparse.Namespace) -> int:
    """Run the command of a tool; return the exit status."""
    name, properties = tool["name"], tool["input_schema"]["properties"]
    arguments = _given(context, tool, args)
    if (sandbox := arguments.pop("sandbox", None)) is not None:
        body = {"sandbox": sandbox}
        start_server(context.project).request("POST", f"{API}/project/sandbox", body)
    # `search` takes a folder, too.
    path = context.path(arguments.get("notebook")) if "notebook" in properties else None
    server = context.server(path, changes=tool["effect"] != "READ")
    is_named = "kernel_id" in arguments or arguments.get("text", "").startswith("# %% notebook: ")
    if "notebook" in arguments or ("notebook" in properties and not is_named):
        arguments |= notebook_argument(context, server, arguments.get("notebook"))
    if given := arguments.get("path"):
        arguments["path"] = context.there(server, os.path.abspath(given), given)
    elif "path" in properties and "path" not in tool["input_schema"].get("required", ()):
        arguments["path"] = context.there(server, context.project.root)
    if "wait" in properties and name != "edit_cells":
        return context.finish(context.run(server, name, **arguments))
    answer = context.call(server, name, **arguments)
    if name == "use_notebook":
        there = os.path.join(server.root or context.project.root, answer["result"]["notebook"])
        context.project.keep(context.caller, notebook=path or there)
    elif name == "unuse_notebook" and path in (None, context.current):
        context.project.keep(context.caller, notebook="")
    elif name == "read_notebook" and not context.is_live:
        answer = _for_writing(answer)
    return context.finish(answer)


def _given(
    context: CommandContext, tool: Mapping[str, Any], args: argparse.Namespace
) -> dict[str, Any]:
    """Return the given arguments, with the text of standard input for ``-``, and defaults."""
    properties = tool["input_schema"]["properties"]
    arguments = {k: v for k, v in vars(args).items() if v is not None and k != "json"}
    for name, value in arguments.items():
        if value == STDIN and name != "text":
            is_text = properties[name].get("type") == "string"
            arguments[name] = source_of(value) if is_text else json_of(read_text(value))
    match tool["name"]:
        case "use_notebook":
            arguments["mode"] = "create"
        case "write_notebook":
            arguments["text"] = read_text(arguments.get("text", STDIN))
        case "wait_execution" if "execution_id" not in arguments:
            arguments["execution_id"] = context.last_execution()
        case "edit_cells":
            arguments.setdefault("wait", LONG)
        case _:
            pass
    if "budget" in properties:
        arguments.setdefault("budget", MAX_BUDGET)
    return arguments


def _for_writing(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the text of a notebook without the notices around it, so that it can be written back."""
    result = answer["result"]
    for each in (*result.get("warnings", ()), *result.get("notices", ())):
        write_err(f"Note: {each}")
    if "next_range" in result:
        write_err(f"There is more: --cells {result['next_range']}")
    return {**answer, "text": result["text"]}


def tools_of(context: CommandContext) -> list[dict[str, Any]]:
    """Return the descriptions of the tools: those of the server, else the default ones."""
    server = None
    with suppress(ToolFailed):
        place = context.current or context.project.root
        server = server_of(context.project, place, changes=False)
    found = None if server is None else server.tools()
    if found is not None:
        return found
    with open(DEFAULT_TOOLS, encoding="utf-8") as file:
        return json.load(file)


def commands_of(tools: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the tools by the name of their command, without those that a command of `nb` replaces.

    Of two with the same command, the latter: `execute_cells` also does the job of `execute_cell`.
    """
    found = {signature(tool)[0]: tool for tool in tools}
    return {name: tool for name, tool in found.items() if name not in COMMANDS}
