"""What `%tk` and `%%tk` do: ask, show the answer as it comes, and let the person answer back."""

from __future__ import annotations

import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tk_ai_extension.magics.screens import Screen, describe, screen_for
from tk_ai_extension.magics.server_connection import Line, Stopped, TkError

USAGE = """\
%tk MESSAGE     asks Claude in this notebook's chat; %%tk takes a message of many lines.
%tk fix         explains the last error in this kernel, and mends it.

  --mode MODE   plan, ask (unless given), edit or auto: what is done without asking
  --model NAME  the model that answers
  --new         begin a new chat
  --plain       plain text, for consoles"""

FIX = "Explain this error in a sentence or two, then mend it in the cell where it comes from."

MAX_ERROR = 20_000
"""Characters of an error that is sent; of a longer one the end, which says what was wrong."""
MAX_CELL = 20_000
"""Characters of the failed cell."""

CELL_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
"""A cell's id, as the notebook format has it; some clients name cells in ways of their own."""

WORDS = {"yes": "once", "always": "notebook", "no": "deny"}
"""What a person types, or its first letter, and what it answers: `always` holds in this notebook."""


@dataclass(frozen=True, slots=True)
class Command:
    """What was typed after `%tk`.

    Attributes:
        message: The message; empty where nothing is asked.
        fields: The question's further fields.
        plain: Whether it is answered as plain text.
    """

    message: str
    fields: Mapping[str, Any]
    plain: bool = False

    @classmethod
    def parse(cls, text: str) -> Command:
        """Takes the options at the beginning; the rest is the message as it stands.

        Raises:
            TkError: an option that there is not, or one without its value.
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
                raise TkError(f"There is no option {option}.", USAGE)
        return cls(text.strip(), fields, plain)


class Magic:
    """The magics of one IPython shell.

    Args:
        ipython: The shell.
        connect: Opens the line to the server.
    """

    def __init__(self, ipython: Any, connect: Callable[[], Line] = Line) -> None:
        self._ipython = ipython
        self._connect = connect

    def ask(self, text: str) -> None:
        """Asks Claude in this notebook's chat what was typed; where that is nothing, says how.

        Raises:
            TkError: Claude could not be asked, or could not answer.
            Stopped: somebody stopped the turn.
        """
        command = Command.parse(text)
        if not command.message:
            sys.stdout.write(USAGE + "\n")
            return
        message, error = command.message, ""
        if message == "fix":
            message, error = FIX, last_error(self._ipython)
            if not error:
                raise TkError("Nothing has failed in this kernel.", "Say what is to be mended.")
        with self._connect() as line:
            place = _place(self._ipython)
            # Who names the cell shows what it puts out; others (a server that runs it) pass that on, and
            # no changes of it.
            live = "cellId" in _metadata(self._ipython)
            screen = screen_for(self._ipython, plain=command.plain, live=live)
            try:
                line.ask(message=message, error=error, **command.fields, **place)
                self._follow(line, screen)
            except KeyboardInterrupt:
                # Leaving the line is what stops the turn.
                raise Stopped from None
            finally:
                screen.finish()

    def _follow(self, line: Line, screen: Screen) -> None:
        """Shows what happens until the turn is over.

        Raises:
            TkError: it failed.
            Stopped: somebody stopped it elsewhere.
        """
        failed: TkError | None = None
        while True:
            event = line.hear(screen.late)
            if event is None:
                screen.look()
                continue
            match event["kind"]:
                case "permission":
                    answer, message = _answer(event, screen)
                    line.say({"permission": event["id"], "answer": answer, "message": message})
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


def _show(event: Mapping[str, Any], screen: Screen) -> None:
    """Shows an event."""
    match event["kind"]:
        case "text":
            screen.text(event["block"], event["start"], event["text"])
        case "discarded":
            screen.discard(event["block"])
        case "tool_call" | "tool_progress" | "tool_result":
            screen.call(event["call"], describe(event), over=event["kind"] == "tool_result")
        case _:
            if note := _note(event):
                screen.note(note)


def _answer(event: Mapping[str, Any], screen: Screen) -> tuple[str, str]:
    """What the person says to a question, and the words after a no; no, where nobody is asked."""
    choices = {word: answer for word, answer in WORDS.items() if answer in event["answers"]}
    screen.note(f"Claude wants to run {event['tool']}")
    # In the question itself: some clients show what was put out only when the cell has ended.
    prompt = f"{_proposed(event['proposal'])}\n\n{event['tool']}: {', '.join(choices)}? "
    while True:
        try:
            said = input(prompt)
        except (EOFError, RuntimeError):
            # ipykernel raises a RuntimeError where its client takes no questions.
            screen.note("Nobody can be asked here; `--mode edit` or `auto` asks less.")
            return "deny", ""
        first, _, rest = said.strip().replace(",", " ").partition(" ")
        for word, answer in choices.items():
            if first.lower() in (word, word[0]) and (answer == "deny" or not rest.strip()):
                return answer, said.strip()[len(first) :].strip(" ,")


def _proposed(proposal: Mapping[str, Any]) -> str:
    """A proposal as text: titles, and lines of code after their mark, with nothing hidden in them."""
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


def last_error(ipython: Any) -> str:
    """The last error in this kernel: the cell where it was raised, and the traceback; else nothing."""
    error: BaseException | None = getattr(sys, "last_value", None)
    if error is None:
        return ""
    trace = "".join(traceback.format_exception(error))[-MAX_ERROR:]
    source = _cell_of(ipython, error.__traceback__)[:MAX_CELL]
    return f"The cell:\n{source}\n\n{trace}" if source else trace


def _cell_of(ipython: Any, trace: TracebackType | None) -> str:
    """The source of the cell that a traceback begins in."""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals is ipython.user_ns or frame.f_globals is ipython.user_global_ns:
            return "".join(linecache.getlines(frame.f_code.co_filename))
        trace = trace.tb_next
    return ""


def _place(ipython: Any) -> dict[str, str]:
    """Where the question is asked: the notebook that the kernel was started for, and the cell."""
    place: dict[str, str] = {}
    if notebook := os.environ.get("JPY_SESSION_NAME"):
        place["notebook"] = notebook
    cell = str(_metadata(ipython).get("cellId", ""))
    if CELL_ID.fullmatch(cell):
        place["active_cell"] = cell
    return place


def _metadata(ipython: Any) -> dict[str, Any]:
    """What the client says of the cell that it runs."""
    get_parent: Callable[[], Any] | None = getattr(ipython, "get_parent", None)
    parent: dict[str, Any] = get_parent() if get_parent is not None else {}
    return parent.get("metadata") or {}


def _note(event: Mapping[str, Any]) -> str:
    """What a person is told of an event that is no part of the answer; empty for nothing."""
    match event["kind"]:
        case "message" if event["waits"]:
            return f"Messages of this chat that come first: {event['waits']}."
        case "retry":
            return f"The model is asked again ({event['attempt']} of {event['attempts']}): {event['reason']}"
        case "notice":
            return str(event["text"])
        case "later":
            count = len(event["cells"])
            return f"{count} cell{'' if count == 1 else 's'} of Claude's run{'s' if count == 1 else ''} now."
        case _:
            return ""


def _word(text: str) -> tuple[str, str]:
    """The first word of a text, and what comes after it."""
    word, rest, *_ = (*text.split(maxsplit=1), "", "")
    return word, rest
