"""The tour: what answers where no model is connected. A script, and it says so in every answer.

It is served as a model is, so that all the rest is real: the SDK and its CLI, the tools, permissions,
the kernel, the notebook. Where it stands is in the conversation itself (the ids of its calls name
their steps), so it keeps nothing and goes on with a chat after a restart.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tk_ai_extension.agent.claude import tour_texts as texts
from tk_ai_extension.agent.claude.messages import (
    Answer,
    MessagesRequest,
    Text,
    ToolResult,
    ToolUse,
    Usage,
    text_of,
)
from tk_ai_extension.agent.claude.messages_api import MessagesServer, Reply
from tk_ai_extension.agent.claude.providers import TOUR_MODEL

NOTEBOOK: Final = "tour.ipynb"
"""The notebook that it makes where the person has none open."""

_CALL = re.compile(r"toolu_tour_(?P<step>[a-z]+)_")
_SEEN = re.compile(r"<seen>\n(?P<seen>.*?)\n</seen>", re.DOTALL)
_MODE = re.compile(r"Permission mode: (\w+)")
_CELL = re.compile(r"^@(\S+)", re.MULTILINE)
_ERROR = re.compile(r"Error \[(\w+)\]")
_CONNECT = re.compile(
    r"\b(connect\w*|keys?|models?|tokens?|ollama|litellm|bedrock|vertex|anthropic|provider\w*|api)\b",
    re.IGNORECASE,
)
_START = re.compile(
    r"\b(start|go|begin|tour|yes|ok|okay|sure|please|show|plot|run|next|continue|again|approved)\b",
    re.IGNORECASE,
)
_REFUSALS = frozenset({"permission_denied", "permission_required"})


@dataclass(frozen=True, slots=True)
class Message:
    """What a person wrote, and what the chat says of their config.

    Attributes:
        text: The person's own words.
        mode: The permission mode of the turn.
        has_notebook: Whether the turn is about a notebook.
        first: Whether nothing was answered before.
    """

    text: str
    mode: str
    has_notebook: bool
    first: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the tour: what it says, and the call that it makes.

    Attributes:
        say: Said before the call.
        tool: The tool's name.
        arguments: The call's arguments, from the cell that the step before touched.
        then: The step after it; None at the end.
        on_error: The step where the call's error is what the tour is about, or can be mended.
    """

    say: str
    tool: str
    arguments: Callable[[str], Mapping[str, Any]]
    then: str | None
    on_error: str | None = None

    def answer(self, name: str, cell: str, before: str = "") -> Answer:
        """The model's answer that takes this step."""
        call = f"toolu_tour_{name}_{secrets.token_hex(8)}"
        return Answer(
            (Text(before + self.say), ToolUse(self.tool, self.arguments(cell), id=call)), FREE
        )


LABEL: Final = f"{texts.LABEL} "
FREE: Final = Usage(0, 0)
"""Nothing is counted: no tokens were made."""

STEPS: Mapping[str, Step] = {
    "open": Step(
        texts.OPEN, "use_notebook", lambda _: {"notebook": NOTEBOOK, "mode": "create"}, "read"
    ),
    "read": Step(texts.READ, "read_notebook", lambda _: {"view": "reading"}, "title"),
    "title": Step(
        texts.TITLE,
        "insert_cell",
        lambda _: {"source": texts.TITLE_CELL, "cell_type": "markdown"},
        "data",
    ),
    "data": Step(
        texts.DATA, "insert_and_execute_cell", lambda _: {"source": texts.DATA_CELL}, "plot"
    ),
    "plot": Step(
        texts.PLOT,
        "insert_and_execute_cell",
        lambda _: {"source": texts.PLOT_CELL},
        "fail",
        on_error="redraw",
    ),
    "redraw": Step(
        texts.REDRAW,
        "overwrite_cell",
        lambda cell: {"cell": cell, "source": texts.DRAWING_CELL},
        "redrawn",
    ),
    "redrawn": Step(texts.RERUN, "execute_cell", lambda cell: {"cell": cell}, "fail"),
    "fail": Step(
        texts.FAIL,
        "insert_and_execute_cell",
        lambda _: {"source": texts.FAILING_CELL},
        None,
        on_error="mend",
    ),
    "mend": Step(
        texts.MEND,
        "overwrite_cell",
        lambda cell: {"cell": cell, "source": texts.MENDED_CELL},
        "mended",
    ),
    "mended": Step(texts.RERUN, "execute_cell", lambda cell: {"cell": cell}, None),
}
"""The tour, step by step. The ids of calls name the steps: a name that was used keeps its meaning."""


class Tour:
    """The script as a model: a `Model`."""

    names = (TOUR_MODEL,)

    def reply(self, request: MessagesRequest) -> Reply:
        """The next thing that it says and does."""
        message = message_of(request)
        if message is not None:
            return _to_message(message)
        *_, last = request.tool_results or (None,)
        return _say(texts.MENU, LABEL) if last is None else _to_result(last, request)


class TourServer:
    """The tour as a Messages API of its own: on a free loopback port, with a random key."""

    def __init__(self) -> None:
        self._key: Final = secrets.token_urlsafe(32)
        self._server: Final = MessagesServer(Tour(), key=self._key)
        self._started = False

    def environment(self) -> dict[str, str]:
        """What Claude's process needs to talk to it; starts it where it is not started.

        Called on the event loop that it is served on.
        """
        if not self._started:
            self._server.start()
            self._started = True
        return {"ANTHROPIC_BASE_URL": self._server.url, "ANTHROPIC_API_KEY": self._key}

    async def close(self) -> None:
        """Stops it, where it was started."""
        if self._started:
            await self._server.stop()


def message_of(request: MessagesRequest) -> Message | None:
    """What the person wrote last; None where the request brings what tools answered instead."""
    asked = [each for each in request.messages if each.get("role") == "user"]
    blocks = text_of(asked[-1].get("content", "")) if asked else []
    said = [text for text in blocks if not text.startswith("<system-reminder>")]
    if request.tool_results and not any("</seen>" in text for text in said):
        return None
    whole = "\n".join(said)
    seen = _SEEN.search(whole)
    around = seen["seen"] if seen else ""
    mode = _MODE.search(around)
    return Message(
        text=_SEEN.sub("", whole).strip(),
        mode=mode[1] if mode else "ask",
        has_notebook="\nNotebook " in around,
        first=not any(each.get("role") == "assistant" for each in request.messages),
    )


def _to_message(message: Message) -> Reply:
    # What it says later in the turn stands below this.
    before = f"{LABEL}{texts.INTRO}\n\n" if message.first else LABEL
    starts = _START.search(message.text) is not None or (message.first and message.mode == "auto")
    if _CONNECT.search(message.text) and not (message.first and message.mode == "auto"):
        return _say(texts.CONNECT, before)
    if not starts:
        return _say(texts.MENU, before)
    if message.mode == "plan" and not message.has_notebook:
        return _say(texts.PLAN, before)
    step = "read" if message.has_notebook else "open"
    return STEPS[step].answer(step, "", before)


def _to_result(result: ToolResult, request: MessagesRequest) -> Reply:
    """What follows on what a tool answered."""
    name = _CALL.match(result.id)
    step = STEPS.get(name["step"]) if name else None
    if step is None:
        return _say(texts.MENU)
    error = _ERROR.search(result.text) if result.is_error else None
    if error is not None and error[1] in _REFUSALS:
        return _say(texts.REFUSED)
    if result.is_error and (error is not None or step.on_error is None):
        # A call that could not be made at all, or code that failed where it should not.
        return _say(texts.BROKEN)
    if step is STEPS["read"] and _mode(request) == "plan":
        return _say(texts.PLAN)
    following = step.on_error if result.is_error else step.then
    if following is None:
        return _say(texts.END)
    return STEPS[following].answer(following, _cell(result, request))


def _say(text: str, before: str = "") -> Answer:
    return Answer((Text(before + text),), FREE)


def _mode(request: MessagesRequest) -> str:
    """The permission mode of the turn, as the message that began it says."""
    modes = [_MODE.search(prompt) for prompt in request.prompts if "<seen>" in prompt]
    return modes[-1][1] if modes and modes[-1] else "ask"


def _cell(result: ToolResult, request: MessagesRequest) -> str:
    """The cell that the answered call named, else the one that it ran; empty where it did neither."""
    named = request.call(result.id).get("cell")
    ran = _CELL.search(result.text)
    return str(named) if named else ran[1] if ran else ""
