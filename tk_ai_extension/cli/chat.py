"""`nb chat`: chat with Claude in a terminal, over REST and the chat's event stream."""

from __future__ import annotations

import json
import os
import re
import sys

from tk_ai_extension.cli.parsing import STDIN, WrongCall, add_notebook
from tk_ai_extension.cli.servers import API, Server, ToolFailed, Unreachable
from tk_ai_extension.cli.session import (
    INTERRUPTED,
    OK,
    UNREACHABLE,
    UNREACHABLE_CODES,
    Session,
    harmless,
    on_interrupt,
    write,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

MODES = ("plan", "ask", "edit", "auto")

WORDS = {"yes": "once", "chat": "chat", "always": "notebook", "no": "deny"}
"""Answers to a permission request, by the word or its first letter; `always` means in this notebook."""

PLANS = {"yes": "edit", "ask": "ask", "auto": "auto", "no": ""}
"""The mode in which a plan is carried out, by the answer; empty: it is not."""

MAX_MESSAGE = 2_000
"""Maximum characters of the message with a denial."""
MAX_ARGUMENTS = 120
"""Maximum characters of a call's arguments in the output."""

HELP = "/mode plan|ask|edit|auto   /new   /quit   Ctrl-C stops Claude"

GREEN, RED, YELLOW, DIM = "32", "31", "33", "2"
"""ANSI colour codes."""
MARKS = {"+": GREEN, "-": RED, "@": DIM}
"""Colour of a line of a diff by its mark."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `nb chat`."""
    parser.add_argument(
        "message", nargs="*", help="the message; - reads standard input (default: a dialogue)"
    )
    add_notebook(parser, by_place=False, help="the notebook (default: the current one)")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="ask",
        help="the permission mode: what runs without approval (default: ask)",
    )
    parser.add_argument("--model", help="the model to use")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--new", action="store_true", help="start a new chat")
    which.add_argument("--resume", metavar="CHAT", help="continue the chat with this id or prefix")
    which.add_argument("--list", action="store_true", help="list the chats")
    which.add_argument("--show", metavar="CHAT", help="show a chat")


def chat(session: Session, args: argparse.Namespace) -> int:
    """Run `nb chat`; return the exit status."""
    path = session.path(args.notebook)
    server = session.server(path)
    notebook = args.notebook if path is None else session.there(server, path)
    if args.list:
        chats = server.request("GET", f"{API}/chats")
        lines = [_listed(each) for each in chats["chats"]]
        return session.show("\n".join(lines) or "There are no chats.", chats)
    if args.show is not None:
        return _show(session, server, _found(server, args.show))
    found = None if args.resume is None else _found(server, args.resume)
    dialogue = Dialogue(session, server, notebook, args, found)
    words: list[str] = args.message
    message = " ".join(words)
    if message == STDIN:
        message = sys.stdin.read()
    if message:
        return dialogue.send(message)
    if session.as_json or not sys.stdin.isatty():
        raise WrongCall(
            'nb chat: the message is empty: nb chat "plot the prices", or - to read standard input\n'
        )
    return dialogue.run()


def _listed(chat: Mapping[str, Any]) -> str:
    where = f"  ({chat['notebook']})" if chat["notebook"] else ""
    return f"{chat['id'][:8]}  {chat['title']}{where}{'  busy' if chat['busy'] else ''}"


def _found(server: Server, beginning: str) -> str:
    """Return the id of the chat that starts with this.

    Raises:
        ToolFailed: there is none, or more than one.
    """
    chats = server.request("GET", f"{API}/chats")["chats"]
    found = [each["id"] for each in chats if each["id"].startswith(beginning)]
    if len(found) != 1:
        message = f"{len(found) or 'No'} chats have an id that starts with `{beginning[:80]}`."
        hint = "`nb chat --list` lists them."
        raise ToolFailed({"code": "chat_not_found", "message": message, "hint": hint})
    return found[0]


def _show(session: Session, server: Server, chat: str) -> int:
    if not session.as_json:
        write(server.request("GET", f"{API}/chats/{chat}/export"))
        return OK
    page = server.request("GET", f"{API}/chats/{chat}")
    whole = page
    while page["next"] is not None:
        page = server.request("GET", f"{API}/chats/{chat}?after={page['next']}")
        whole["events"] += page["events"]
    del whole["next"]
    session.print_json(whole)
    return OK


class Dialogue:
    """A dialogue in a chat.

    Args:
        session: The command.
        server: The server of the chat.
        notebook: Path of the notebook there.
        args: The arguments of the command.
        chat: The chat; None before the first message.
    """

    def __init__(
        self,
        session: Session,
        server: Server,
        notebook: str | None,
        args: argparse.Namespace,
        chat: str | None,
    ) -> None:
        self._session = session
        self._server = server
        self._notebook = notebook
        self._mode: str = args.mode
        self._model: str | None = args.model
        self._is_new: bool = args.new
        self._chat = chat
        self._plan: Mapping[str, Any] | None = None
        self._screen = Screen(session)

    def run(self) -> int:
        """Read and send messages until the person quits; return the exit status."""
        self._screen.note(HELP)
        while (said := self._read_line(f"{self._mode}> ")) is not None:
            words = said.split()
            match words:
                case []:
                    continue
                case ["/quit" | "/exit"]:
                    break
                case ["/new"]:
                    self._chat, self._is_new = None, True
                case ["/mode", mode] if mode in MODES:
                    self._mode = mode
                case [command, *_] if command.startswith("/"):
                    self._screen.note(HELP)
                case _:
                    self.send(said)
        return OK

    def send(self, message: str) -> int:
        """Send a message and print the turn; return the exit status."""
        body: dict[str, Any] = {"message": message, "mode": self._mode, "notebook": self._notebook}
        if self._model is not None:
            body["model"] = self._model
        if self._chat is not None:
            body["chat"] = self._chat
        else:
            body["latest"] = not self._is_new
        status = self._turn(f"{API}/mcp/chat", body)
        while self._plan is not None and self._chat is not None:
            prompt = "Carry it out: yes (ask before code runs), ask (each time), auto, no? "
            mode = self._chosen(prompt)
            if not mode:
                break
            answer = {"plan": self._plan["turn"], "answer": "approve", "mode": mode}
            status = self._turn(f"{API}/chats/{self._chat}/plan", answer)
        return status

    def _turn(self, path: str, body: Mapping[str, Any]) -> int:
        """Print a turn to its end; Ctrl-C stops it. Return the exit status."""
        self._plan = None
        status, has_ended = OK, False
        try:
            with on_interrupt(self._stop):
                for event in self._server.events(path, body):
                    has_ended = event["kind"] == "done"
                    match event["kind"]:
                        case "message":
                            self._chat = event["chat"]
                        case "permission":
                            self._screen.print_event(event)
                            self._answer(event)
                            continue
                        case "plan":
                            self._plan = event
                        case "error":
                            status = self._screen.refuse(event["error"])
                            continue
                        case "done" if event["end"] == "stopped":
                            status = INTERRUPTED
                            self._screen.note("Stopped.")
                        case _:
                            pass
                    self._screen.print_event(event)
                if not has_ended:
                    raise Unreachable(f"{self._server.url} has ended.")
        except ToolFailed as error:
            return self._session.refuse(error.error)
        return status

    def _stop(self) -> None:
        if self._chat is not None:
            self._server.again().request("POST", f"{API}/chats/{self._chat}/stop", {})

    def _answer(self, event: Mapping[str, Any]) -> None:
        """Ask the person to approve a call; deny it if nobody can be asked.

        Text after ``no`` is a message for Claude.
        """
        self._screen.preview(event)
        choices = {word: answer for word, answer in WORDS.items() if answer in event["answers"]}
        prompt = f"{event['tool']}: {', '.join(choices)}? "
        answer, message = None, ""
        while answer is None and (said := self._read_line(prompt)) is not None:
            word, message = first_word(said)
            answer = next((choices[one] for one in choices if word in (one, one[0])), None)
            if message and answer != "deny":
                answer = None
        if answer is None:
            answer, message = "deny", ""
            self._screen.note(
                "Denied: nobody can be asked here. `--mode edit` or `auto` needs fewer approvals."
            )
        body = {"answer": answer, "message": message}
        try:
            self._server.again().request("POST", f"{API}/permissions/{event['id']}", body)
        except ToolFailed as error:
            if error.code != "not_found":
                raise
            self._screen.note("This request was answered elsewhere.")

    def _chosen(self, prompt: str) -> str | None:
        """Ask the person how a plan is carried out; None if nobody answers."""
        while (said := self._read_line(prompt)) is not None:
            for word, choice in PLANS.items():
                if said.strip().lower() in (word, word[0]):
                    return choice
        return None

    def _read_line(self, prompt: str) -> str | None:
        """Read a line from the person; None at the end of input, or without a terminal."""
        if self._session.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return None
        try:
            return input(prompt)
        except (EOFError, KeyboardInterrupt):
            sys.stderr.write("\n")
            return None


def first_word(said: str) -> tuple[str, str]:
    """Split an answer into its first word, in lower case, and the message after it."""
    match = re.match(r"\s*(\w*)[\s,:;.-]*(.*)", said, re.DOTALL)
    word, message = match.groups() if match else ("", "")
    return word.lower(), message.strip()[:MAX_MESSAGE]


class Screen:
    """Prints a turn: Claude's text to standard output, everything else to standard error."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_coloured = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        self._block: int | None = None
        self._in_line = False

    def print_event(self, event: Mapping[str, Any]) -> None:
        """Print an event."""
        if self._session.as_json:
            self._session.print_json(event)
            return
        match event["kind"]:
            case "text":
                self._text(event)
            case "tool_call":
                self._beside(f"● {event['tool']}{_arguments(event['arguments'])}", DIM)
            case "tool_result":
                took = f"{event['tool']}  {event['seconds']:.1f} s"
                first = str(event["text"]).strip().partition("\n")[0]
                ok = event["ok"]
                self._beside(f"✔ {took}" if ok else f"✘ {took}  {first}", GREEN if ok else RED)
            case "cell_change":
                what = f"{event['action']} @{event['cell'][:8]} in {event['notebook']}"
                self._beside(f"  {what}", DIM)
                for line in event["diff"].splitlines():
                    self._beside(f"  {line}", MARKS.get(line[:1], ""))
            case "done":
                self._end_line()
            case _:
                if said := _note(event):
                    self.note(said)

    def note(self, text: str) -> None:
        """Print a note."""
        if not self._session.as_json:
            self._beside(text, YELLOW)

    def refuse(self, error: Mapping[str, Any]) -> int:
        """Print the error of a turn; return the exit status."""
        if self._session.as_json:
            self._session.print_json({"error": error})
        else:
            self.note(f"Error [{error['code']}]: {error['message']}\n{error['hint']}")
        return UNREACHABLE if error["code"] in UNREACHABLE_CODES else 2

    def preview(self, event: Mapping[str, Any]) -> None:
        """Print the proposal of a call that needs approval."""
        if self._session.as_json:
            return
        where = f" in {event['notebook']}" if event["notebook"] else ""
        self._beside(f"Claude wants to run {event['tool']}{where}", YELLOW)
        for step in event["proposal"]["steps"] or [{**event["proposal"], "lines": ()}]:
            self._beside(f"  {step['title']}", YELLOW)
            for line in step["lines"]:
                self._beside(f"  {line['mark']}{line['text']}", MARKS.get(line["mark"], ""))
        if event["proposal"]["omitted"]:
            self._beside(f"  … and {event['proposal']['omitted']:,} more characters", DIM)

    def _text(self, event: Mapping[str, Any]) -> None:
        if event["block"] != self._block:
            self._end_line()
            self._block = event["block"]
        text = harmless(event["text"])
        sys.stdout.write(text)
        sys.stdout.flush()
        self._in_line = not text.endswith("\n")

    def _beside(self, line: str, colour: str) -> None:
        self._end_line()
        text = harmless(line)
        if self._is_coloured and colour:
            text = f"\x1b[{colour}m{text}\x1b[0m"
        sys.stderr.write(f"{text}\n")

    def _end_line(self) -> None:
        if self._in_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._in_line = False
        self._block = None


def _note(event: Mapping[str, Any]) -> str:
    """Return the note for an event that is not part of the response; empty for none."""
    match event["kind"]:
        case "discarded":
            return "Model connection lost; the last response will be repeated."
        case "message" if event["waits"]:
            return f"Queued behind {event['waits']} other messages of this chat."
        case "retry":
            return f"Retrying ({event['attempt']} of {event['attempts']}): {event['reason']}"
        case "notice":
            return str(event["text"])
        case _:
            return ""


def _arguments(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments, shortened."""
    shown = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in arguments.items())
    return f"({shown if len(shown) <= MAX_ARGUMENTS else f'{shown[:MAX_ARGUMENTS]}…'})"
