"""The implementation of `%tk` and `%%tk`: ask, stream the answer, and prompt for approvals."""

from __future__ import annotations

import linecache
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tk_ai_extension.magics.asking import ask_unless_settled, number_of_next_request
from tk_ai_extension.magics.screens import Screen, describe, screen_for
from tk_ai_extension.magics.server_connection import ServerConnection, Stopped, TkError

USAGE = """\
%tk MESSAGE     Ask Claude in this notebook's chat. Use %%tk for several lines.
%tk fix         Explain and fix the last error in this kernel.

  --mode MODE   plan, ask (default), edit or auto: what runs without approval
  --model NAME  the model to use
  --new         start a new chat
  --plain       plain text, for consoles"""

FIX = "Explain this error in a sentence or two, then fix it in the cell that caused it."

MAX_ERROR = 20_000
"""Maximum characters of an error that is sent. The end is kept: it names the exception."""
MAX_CELL = 20_000
"""Maximum characters of the failed cell that are sent."""

CELL_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
"""A cell id as nbformat defines it. Some clients send names of another form."""

ANSWERS = {"yes": "once", "always": "notebook", "no": "deny"}
"""Answers by the word that the user types (or its first letter). `always` holds for the notebook."""


@dataclass(frozen=True, slots=True)
class Command:
    """The parsed arguments of `%tk`.

    Attributes:
        message: The message; empty for usage.
        fields: Further fields of the question.
        plain: Whether to answer in plain text.
    """

    message: str
    fields: Mapping[str, Any]
    plain: bool = False

    @classmethod
    def parse(cls, text: str) -> Command:
        """Parse the options at the beginning; the rest is the message, unchanged.

        Raises:
            TkError: An option is unknown or lacks its value.
        """
        fields: dict[str, Any] = {}
        plain = False
        while text.lstrip().startswith("--"):
            option, text = _word(text)
            if option == "--new":
                fields["new"] = True
            elif option == "--plain":
                plain = True
            elif option in ("--mode", "--model"):
                value, text = _word(text)
                if not value:
                    raise TkError(f"{option} needs a value.", USAGE)
                fields[option[2:]] = value
            else:
                raise TkError(f"Unknown option {option}.", USAGE)
        return cls(text.strip(), fields, plain)


class Magic:
    """The `%tk` magics of one IPython shell.

    Args:
        ipython: The shell.
        connect: Opens a connection to the server.
    """

    def __init__(
        self, ipython: Any, connect: Callable[[], ServerConnection] = ServerConnection
    ) -> None:
        self._ipython = ipython
        self._connect = connect
        self._error: BaseException | None = None

    def ask(self, text: str) -> None:
        """Ask Claude in this notebook's chat; print the usage if there is no message.

        Raises:
            TkError: Claude could not be asked or could not answer.
            Stopped: Somebody stopped the turn.
        """
        # IPython records our own errors, too: they are not what is to be fixed.
        if not isinstance(error_now := getattr(sys, "last_value", None), (TkError, Stopped)):
            self._error = error_now
        command = Command.parse(text)
        if not command.message:
            sys.stdout.write(USAGE + "\n")
            return
        message, error = command.message, ""
        if message == "fix":
            message, error = FIX, error_text(self._ipython, self._error)
            if not error:
                raise TkError("No error in this kernel.", "Describe what to fix: %tk MESSAGE.")
        with _interrupts_are_raised(), self._connect() as connection:
            location = _location(self._ipython)
            # A front end that names the cell renders display updates. Other clients (a server that
            # runs the cell) forward outputs, but not their updates.
            live = "cellId" in _metadata(self._ipython)
            screen = screen_for(self._ipython, plain=command.plain, live=live)
            try:
                connection.ask(message=message, error=error, **command.fields, **location)
                self._follow(connection, screen)
            except KeyboardInterrupt:
                # Closing the connection stops the turn.
                raise Stopped from None
            finally:
                screen.finish()

    def _follow(self, connection: ServerConnection, screen: Screen) -> None:
        """Show the turn's events until it ends.

        Raises:
            TkError: The turn failed.
            Stopped: Somebody stopped the turn elsewhere.
        """
        failed: TkError | None = None
        while True:
            event = connection.receive(screen.refresh_in)
            if event is None:
                screen.refresh()
                continue
            match event["kind"]:
                case "permission":
                    if answered := _ask_user(event, screen, connection):
                        answer, message = answered
                        connection.send(
                            {"permission": event["id"], "answer": answer, "message": message}
                        )
                case "error":
                    failed = TkError.of(event["error"])
                case "done":
                    if failed is not None:
                        raise failed
                    if event["end"] == "stopped":
                        raise Stopped
                    return
                case _:
                    _show(event, screen)


@contextmanager
def _interrupts_are_raised() -> Generator[None]:
    """Raise KeyboardInterrupt in a cell that awaits, too: ipykernel only schedules its cancellation."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python's signal handlers run in the main thread alone.
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        # None stands for a handler that is not Python's.
        signal.signal(signal.SIGINT, previous or signal.default_int_handler)


def _show(event: Mapping[str, Any], screen: Screen) -> None:
    """Show an event."""
    match event["kind"]:
        case "text":
            screen.text(event["block"], event["start"], event["text"])
        case "discarded":
            screen.discard(event["block"])
        case "tool_call" | "tool_progress" | "tool_result":
            screen.call(event["call"], describe(event), ended=event["kind"] == "tool_result")
        case _:
            if note := _note(event):
                screen.note(note)


def _ask_user(
    event: Mapping[str, Any], screen: Screen, connection: ServerConnection
) -> tuple[str, str] | None:
    """Return the user's answer and the message after a `no`; deny where nobody can be asked.

    None if no answer is needed any more.
    """
    choices = {word: answer for word, answer in ANSWERS.items() if answer in event["answers"]}
    screen.note(f"Claude wants to run {event['tool']}")
    # Some clients show outputs only when the cell has ended: the prompt holds the proposal too.
    number = number_of_next_request()
    answers = ", ".join(f"{word} {number}".strip() for word in choices)
    prompt = f"{_proposed(event['proposal'])}\n\n{event['tool']}: {answers}? "
    while True:
        try:
            typed = ask_unless_settled(prompt, connection, event["id"])
        except (EOFError, RuntimeError):
            # ipykernel raises RuntimeError if the front end does not allow stdin.
            screen.note("This client cannot ask for approval. Use `--mode edit` or `--mode auto`.")
            return "deny", ""
        if typed is None:
            screen.note("This request needs no answer any more.")
            return None
        if answered := _parsed(typed, choices, number):
            return answered


def _parsed(typed: str, choices: Mapping[str, str], number: str) -> tuple[str, str] | None:
    """Return the answer and the message after it; None if this is no answer to the request.

    Args:
        typed: What the user types.
        choices: Answers by their words.
        number: What must follow the word; empty for nothing.
    """
    first, message = _first_word(typed)
    if number:
        given, message = _first_word(message)
        if given != number:
            return None
    for word, answer in choices.items():
        if first.lower() in (word, word[0]) and (answer == "deny" or not message):
            return answer, message
    return None


def _first_word(text: str) -> tuple[str, str]:
    """Return the text before the first space or comma, and the rest."""
    first = text.strip().replace(",", " ").partition(" ")[0]
    return first, text.strip()[len(first) :].strip(" ,")


def _proposed(proposal: Mapping[str, Any]) -> str:
    """Return a proposal as text: titles, and marked lines of code with invisible characters escaped."""
    parts = [f"In {proposal['notebook']}:"] if proposal["notebook"] else []
    if not proposal["steps"]:
        parts.append(proposal["title"])
    for step in proposal["steps"]:
        parts.append(step["title"])
        parts += [f"{line['mark']}{line['text']}" for line in step["lines"]]
    if proposal["omitted"]:
        parts.append(f"… and {proposal['omitted']:,} more characters")
    return "\n".join(
        "".join(char if char.isprintable() or char == "\t" else repr(char)[1:-1] for char in part)
        for part in parts
    )


def error_text(ipython: Any, error: BaseException | None) -> str:
    """Return the cell and the traceback of an error in this kernel; empty if there is none."""
    if error is None:
        return ""
    trace = "".join(traceback.format_exception(error))[-MAX_ERROR:]
    source = _cell_of(ipython, error.__traceback__)[:MAX_CELL]
    return f"The cell:\n{source}\n\n{trace}" if source else trace


def _cell_of(ipython: Any, trace: TracebackType | None) -> str:
    """Return the source of the cell in which a traceback begins."""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals is ipython.user_ns or frame.f_globals is ipython.user_global_ns:
            return "".join(linecache.getlines(frame.f_code.co_filename))
        trace = trace.tb_next
    return ""


def _location(ipython: Any) -> dict[str, str]:
    """Return the notebook that the kernel was started for, and the running cell."""
    location: dict[str, str] = {}
    if notebook := os.environ.get("JPY_SESSION_NAME"):
        location["notebook"] = notebook
    cell = str(_metadata(ipython).get("cellId", ""))
    if CELL_ID.fullmatch(cell):
        location["active_cell"] = cell
    return location


def _metadata(ipython: Any) -> dict[str, Any]:
    """Return the metadata of the execute request that is running."""
    get_parent: Callable[[], Any] | None = getattr(ipython, "get_parent", None)
    parent: dict[str, Any] = get_parent() if get_parent is not None else {}
    return parent.get("metadata") or {}


def _note(event: Mapping[str, Any]) -> str:
    """Return the note for an event that is not part of the answer; empty for none."""
    match event["kind"]:
        case "message" if event["waits"]:
            return f"Queued. Messages ahead of this one: {event['waits']}."
        case "retry":
            return (
                f"Retrying the model ({event['attempt']} of {event['attempts']}): {event['reason']}"
            )
        case "notice":
            return str(event["text"])
        case "later":
            count = len(event["cells"])
            return f"Running {count} cell{'' if count == 1 else 's'} for Claude."
        case _:
            return ""


def _word(text: str) -> tuple[str, str]:
    """Return the first word of a text, and the rest."""
    word, rest, *_ = (*text.split(maxsplit=1), "", "")
    return word, rest
