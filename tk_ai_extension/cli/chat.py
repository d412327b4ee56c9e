"""`nb chat`: prints the events of a chat's turns, and asks the person for approvals."""

from __future__ import annotations

import json
import sys

from tk_ai_extension.cli.command_context import (
    INTERRUPTED,
    OK,
    CommandContext,
    harmless,
    on_interrupt,
    write_err,
)
from tk_ai_extension.cli.parsing import STDIN, add_notebook
from tk_ai_extension.cli.project_folder import CommandError
from tk_ai_extension.cli.servers import API, Server, ServerUnreachable, ToolFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

MODES = ("plan", "ask", "edit", "auto")

ANSWERS = {"yes": "once", "chat": "chat", "always": "notebook", "no": "deny"}
"""Answers to a permission request, by the word or its first letter; `always` means in this notebook."""

MAX_ARGUMENTS = 120
"""Maximum characters of a call's arguments in the output."""


def configure_chat(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--new", action="store_true", help="start a new chat (default: the notebook's newest)"
    )


def chat(context: CommandContext, args: argparse.Namespace) -> int:
    """Run `nb chat`; return the exit status."""
    path = context.path(args.notebook)
    server = context.server(path)
    notebook = args.notebook if path is None else context.there(server, path)
    fields: dict[str, Any] = {"mode": args.mode, "notebook": notebook, "latest": not args.new}
    if args.model is not None:
        fields["model"] = args.model
    dialogue = TerminalChat(context, server, fields)
    words: list[str] = args.message
    message = " ".join(words)
    if message == STDIN:
        message = sys.stdin.read()
    if message:
        return dialogue.send(message)
    if context.as_json or not sys.stdin.isatty():
        raise CommandError(
            'the message is empty: nb chat "plot the prices", or - to read standard input'
        )
    write_err("Ctrl-C stops the agent; Ctrl-D ends.")
    while (said := dialogue.read_line(f"{args.mode}> ")) is not None:
        if said.strip():
            dialogue.send(said)
    return OK


class TerminalChat:
    """A dialogue in a chat.

    Prints the agent's text to standard output, everything else to standard error.

    Args:
        context: The command.
        server: The server of the chat.
        fields: The fields of each message: mode, notebook, model, chat.
    """

    def __init__(self, context: CommandContext, server: Server, fields: dict[str, Any]) -> None:
        self._context = context
        self._server = server
        self._fields = fields
        self._block: int | None = None
        self._in_line = False

    def send(self, message: str) -> int:
        """Send a message and print the turn; return the exit status."""
        body = {**self._fields, "message": message}
        status, has_ended = OK, False
        try:
            with on_interrupt(self._stop):
                for event in self._server.events(f"{API}/mcp/chat", body):
                    has_ended = event["kind"] == "done"
                    if self._context.as_json and event["kind"] != "error":
                        self._context.print_json(event)
                    else:
                        self._print(event)
                    match event["kind"]:
                        case "message":
                            self._fields["chat"] = event["chat"]
                        case "permission":
                            self._answer(event)
                        case "question":
                            self._answer_questions(event)
                        case "error":
                            status = self._context.refuse(event["error"])
                        case "done" if event["end"] == "stopped":
                            status = INTERRUPTED
                        case _:
                            pass
                if not has_ended:
                    raise ServerUnreachable(f"{self._server.url} has ended.")
        except ToolFailed as error:
            return self._context.refuse(error.error)
        return status

    def read_line(self, prompt: str) -> str | None:
        """Read a line from the person; None at the end of input, or without a terminal."""
        if self._context.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return None
        try:
            return input(prompt)
        except (EOFError, KeyboardInterrupt):
            sys.stderr.write("\n")
            return None

    def _stop(self) -> None:
        if "chat" in self._fields:
            self._server.request("POST", f"{API}/chats/{self._fields['chat']}/stop", {})

    def _answer(self, event: Mapping[str, Any]) -> None:
        """Ask the person to approve a call; deny it if no one can be asked.

        Text after ``no`` is a message for the agent.
        """
        choices = {word: answer for word, answer in ANSWERS.items() if answer in event["answers"]}
        prompt = f"{event['tool']}: {', '.join(choices)}? "
        answer, message = None, ""
        while answer is None and (said := self.read_line(prompt)) is not None:
            word, _, message = said.strip().partition(" ")
            word = word.rstrip(",.;:").lower()
            answer = next((choices[one] for one in choices if word in (one, one[0])), None)
        if answer is None:
            self._note(
                "Denied: nobody can be asked here. `--mode edit` or `auto` needs fewer approvals."
            )
        body = {"answer": answer or "deny", "message": message if answer == "deny" else ""}
        self._post(f"permissions/{event['id']}", body)

    def _post(self, route: str, body: Mapping[str, Any]) -> None:
        """Send an answer."""
        try:
            self._server.request("POST", f"{API}/{route}", body)
        except ToolFailed as error:
            if error.code != "not_found":
                raise
            self._note("This request was answered elsewhere.")

    def _answer_questions(self, event: Mapping[str, Any]) -> None:
        """Ask the person each question of the agent; skip what no one answers."""
        answers: list[list[str]] = []
        for question in event["questions"]:
            labels: dict[str, str] = {}
            self._note(question["text"])
            for number, option in enumerate(question["options"], 1):
                labels[str(number)] = option["label"]
                self._note(f"  {number}. {option['label']}  {option['description']}")
            said = self.read_line("Numbers with commas: " if question["multiple"] else "Number: ")
            words = [each.strip() for each in (said or "").split(",")]
            if not question["multiple"]:
                words = [(said or "").strip()]
            answers.append([labels.get(word, word) for word in words if word])
        body = {"call": event["call"], "answers": answers}
        self._post(f"chats/{self._fields['chat']}/answer", body)

    # -- output

    def _print(self, event: Mapping[str, Any]) -> None:
        if event["kind"] == "text":
            self._text(event)
        elif event["kind"] == "permission":
            self._note(f"The agent wants to run {event['tool']}:\n{event['preview']}")
        else:
            self._note(_described(event))

    def _text(self, event: Mapping[str, Any]) -> None:
        if event["block"] != self._block:
            self._end_line()
            self._block = event["block"]
        text = harmless(event["text"])
        sys.stdout.write(text)
        sys.stdout.flush()
        self._in_line = not text.endswith("\n")

    def _note(self, text: str) -> None:
        """Print a note to standard error, on separate lines."""
        self._end_line()
        if text and not self._context.as_json:
            write_err(text)

    def _end_line(self) -> None:
        if self._in_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._in_line, self._block = False, None


def _described(event: Mapping[str, Any]) -> str:
    """Return the note for an event that is not part of the answer; empty for none."""
    match event["kind"]:
        case "tool_call":
            return f"● {event['tool']}{_arguments(event['arguments'])}"
        case "tool_result":
            why = "" if event["ok"] else str(event["text"]).strip().partition("\n")[0]
            mark = "✔" if event["ok"] else "✘"
            return f"{mark} {event['tool']}  {event['seconds']:.1f} s  {why}".rstrip()
        case "cell_change":
            diff = "".join(f"\n  {line}" for line in event["diff"].splitlines())
            return f"  {event['action']} @{event['cell'][:8]} in {event['notebook']}{diff}"
        case "message" if event["waits"]:
            return f"Queued behind {event['waits']} other messages of this chat."
        case "retry":
            return f"Retrying ({event['attempt']} of {event['attempts']}): {event['reason']}"
        case "notice":
            return str(event["text"])
        case "discarded":
            return "Model connection lost; the last response will be repeated."
        case "done" if event["end"] == "stopped":
            return "Stopped."
        case _:
            return ""


def _arguments(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments, shortened."""
    shown = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in arguments.items())
    return f"({shown if len(shown) <= MAX_ARGUMENTS else f'{shown[:MAX_ARGUMENTS]}…'})"
