"""The tour: a scripted agent for servers without a model. It says so in each turn.

The tools, the approvals, the kernel and the notebook are real. It stores no history.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from tk_ai_extension.agent.backend import AgentEvent, ContentBlock, TextBlock, ToolCall, TurnEnded
from tk_ai_extension.agent.events import TextDelta, ToolCalled
from tk_ai_extension.model.errors import InternalError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.workspace.turn_credentials import TurnCredential

NOTEBOOK: Final = "tour.ipynb"
"""The notebook that it creates if the person has none open."""

_MODE = re.compile(r"Permission mode: (\w+)")
_CONNECT = re.compile(
    r"\b(connect\w*|keys?|models?|tokens?|ollama|litellm|bedrock|vertex|anthropic|provider\w*|api)\b",
    re.IGNORECASE,
)
_START = re.compile(
    r"\b(start|go|begin|tour|yes|ok|okay|sure|please|show|plot|run|next|continue|again|approved)\b",
    re.IGNORECASE,
)
_REFUSALS = frozenset({"permission_denied", "permission_required"})


class TaskSession:
    """An `AgentSession` without `send`, which calls `begin`.

    Attributes:
        alive: See `AgentSession.alive`.
        events: Queue of the events that `receive` returns.
    """

    def __init__(self) -> None:
        self.alive = True
        self.events: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._answering: asyncio.Task[None] | None = None

    def begin(self, answer: Coroutine[None, None, None]) -> None:
        """Answer in a task. `TurnEnded` follows, even if the task is cancelled before it starts."""
        self._answering = asyncio.create_task(answer, name="tk-ai agent")
        self._answering.add_done_callback(self._on_end)

    async def receive(self) -> AgentEvent:
        """Return the next event."""
        return await self.events.get()

    async def interrupt(self) -> None:
        """End the running turn."""
        if self._answering is not None:
            self._answering.cancel()

    async def close(self) -> None:
        """End the agent."""
        self.alive = False
        await self.interrupt()
        if self._answering is not None:
            await asyncio.wait((self._answering,))

    def _on_end(self, answering: asyncio.Task[None]) -> None:
        error = None if answering.cancelled() else answering.exception()
        failed = None if error is None else InternalError(f"The agent failed: {error!r}")
        self.events.put_nowait(TurnEnded(failed))


class TourSession(TaskSession):
    """`AgentSession` of the tour in one chat.

    Args:
        call: Carries out tool calls.
    """

    def __init__(self, call: ToolCall) -> None:
        super().__init__()
        self._call = call
        self._is_first = True

    async def send(
        self,
        content: Sequence[ContentBlock],
        *,
        model: str,
        credential: TurnCredential,
    ) -> None:
        """Begin a turn."""
        del model
        seen, *_, message = [block.text for block in content if isinstance(block, TextBlock)]
        turn = _Turn(self._call, credential.token, self.events)
        is_first, self._is_first = self._is_first, False
        self.begin(_answer(turn, seen, message, is_first=is_first))


class _Ended(Exception):
    """The tour ends early.

    Attributes:
        text: The final text.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Turn:
    """One turn of the tour."""

    def __init__(self, call: ToolCall, token: str, events: asyncio.Queue[AgentEvent]) -> None:
        self._call = call
        self._token = token
        self._events = events
        self._texts = 0
        # Prefix of the first text of the turn.
        self.heading = f"{LABEL} "

    def say(self, text: str) -> None:
        """Write a text block."""
        heading, self.heading = self.heading, ""
        self._events.put_nowait(TextDelta(self._texts, 0, heading + text))
        self._texts += 1

    async def call(self, say: str, tool: str, *, may_fail: bool = False, **arguments: Any) -> Json:
        """Announce and make a tool call.

        Args:
            say: The announcement.
            tool: The tool.
            may_fail: Whether an error of the code is expected.
            arguments: The tool's arguments.

        Returns:
            The structured result of code that failed; empty if nothing did.

        Raises:
            _Ended: The call was denied, or failed unexpectedly.
        """
        self.say(say)
        call = f"tour-{secrets.token_hex(8)}"
        self._events.put_nowait(ToolCalled(call, tool, arguments))
        result = await self._call(self._token, call, tool, arguments)
        answer: Json = result.structured_content or {}
        error = answer.get("error")
        if error is not None and error["code"] in _REFUSALS:
            raise _Ended(REFUSED)
        if result.is_error and (error is not None or not may_fail):
            raise _Ended(BROKEN)
        return answer if result.is_error else {}

    async def run(self, say: str, source: str) -> str | None:
        """Insert a cell and run it; return the key of a cell whose code fails."""
        failed = await self.call(say, "insert_and_execute_cell", may_fail=True, source=source)
        return failed["runs"][0]["cell"] if failed else None

    async def fix(self, say: str, cell: str, source: str) -> None:
        """Overwrite a cell and run it again."""
        await self.call(say, "overwrite_cell", cell=cell, source=source)
        await self.call(RERUN, "execute_cell", cell=cell)


async def _answer(turn: _Turn, seen: str, message: str, *, is_first: bool) -> None:
    try:
        turn.say(await _reply(turn, seen, message, is_first=is_first))
    except _Ended as ended:
        turn.say(ended.text)


async def _reply(turn: _Turn, seen: str, message: str, *, is_first: bool) -> str:
    """Carry out a message and return the final text."""
    mode = _MODE.search(seen)
    has_notebook = "\nNotebook " in seen
    begins = is_first and mode is not None and mode[1] == "auto"
    if is_first:
        turn.heading += f"{INTRO}\n\n"
    if _CONNECT.search(message) and not begins:
        return CONNECT
    if not begins and not _START.search(message):
        return MENU
    if has_notebook:
        await turn.call(READ, "read_notebook", view="reading")
    if mode is not None and mode[1] == "plan":
        return PLAN
    if not has_notebook:
        await turn.call(OPEN, "use_notebook", notebook=NOTEBOOK, mode="create")
        await turn.call(READ, "read_notebook", view="reading")
    await turn.call(TITLE, "insert_cell", source=TITLE_CELL, cell_type="markdown")
    await turn.call(DATA, "insert_and_execute_cell", source=DATA_CELL)
    if (cell := await turn.run(PLOT, PLOT_CELL)) is not None:
        await turn.fix(REDRAW, cell, DRAWING_CELL)
    if (cell := await turn.run(FAIL, FAILING_CELL)) is not None:
        await turn.fix(FIX, cell, FIXED_CELL)
    return END


# -- texts and cells

LABEL: Final = "**[The tour: a script, not a model]**"
"""Prefix of each response."""

INTRO: Final = """\
No model is connected to this server yet, so a built-in tour answers. It follows a script, but the \
notebook, the kernel, the tools and the approvals are real."""

MENU: Final = """\
Type `start`, and I work in your notebook: I read it, run a few cells, draw a plot, break a cell and \
fix it, and ask for your approval where the permission mode requires it. Type `connect` to see how to \
connect a model. I cannot answer anything else."""

PLAN: Final = """\
In the mode `plan` I only read. My plan: add a heading at the end of the notebook; add a cell that \
computes a few numbers, and run it; add a cell that plots them; add a cell with a mistake, and fix it. \
Approve the plan to continue, or choose the mode `ask` or `auto` and type `start`."""

CONNECT: Final = """\
Choose **Connect a model** in the panel, or set one of these in the server's environment, restart it \
and start a new chat:

- `ANTHROPIC_API_KEY`: an Anthropic API key.
- `CLAUDE_CODE_OAUTH_TOKEN`: the token of a subscription, as `claude setup-token` prints it.
- `ANTHROPIC_BASE_URL` and `ANTHROPIC_MODEL`: any server with the Messages API, such as Ollama \
(`http://localhost:11434`) or LiteLLM; with `ANTHROPIC_AUTH_TOKEN` if it requires a key.
- `CLAUDE_CODE_USE_BEDROCK=1` and `AWS_REGION`: Amazon Bedrock, with AWS credentials.
- `CLAUDE_CODE_USE_VERTEX=1`, `CLOUD_ML_REGION` and `ANTHROPIC_VERTEX_PROJECT_ID`: Google Vertex AI.

Keys are sent to the provider only: no kernel, notebook or log sees them. `/api/tk-ai/health` says \
what was found and what is missing."""

OPEN: Final = "You have no notebook open, so I create `tour.ipynb` with its own kernel."
READ: Final = "First I read the notebook, as a model would. Reading needs no approval."
TITLE: Final = (
    "Now I add a heading at the end. In the mode `ask`, you see the text and approve it first."
)
DATA: Final = "Next, a cell with a few numbers. It runs in the kernel that you use."
PLOT: Final = "The numbers are in the kernel, so I can plot them."
REDRAW: Final = (
    "That did not work here: it requires matplotlib and a Python kernel. I overwrite the cell with a "
    "drawing that does not."
)
FAIL: Final = (
    "Now a mistake, on purpose: I misspell a name. The cell fails, and I receive the traceback."
)
FIX: Final = (
    "The traceback names the line. I overwrite the cell. If you had edited it, I would get an error and "
    "your edit would be kept."
)
RERUN: Final = "Now I run it again."

END: Final = """\
That was the tour. Everything is in your notebook, and you can undo it: the whole turn or single \
cells. A model does the same with your data and your questions: type `connect` to see how to connect \
one."""

REFUSED: Final = """\
That call was denied, so it changed nothing, and the tour ends here. It is the same with a model: \
what you deny does not happen. Type `start` to begin again, or `connect`."""

BROKEN: Final = """\
That did not work; the tool's result above says why. A model would read it and try another way; a \
script cannot. (The tour's cells are Python: they fail in a kernel of another language.) Type `start` \
to try again, or `connect` to connect a model."""

TITLE_CELL: Final = """\
## A cup of coffee cools

The tour of the notebook tools wrote this part."""

DATA_CELL: Final = """\
tour_minutes = list(range(0, 31, 3))
tour_celsius = [round(21 + 63 * 2 ** (-minute / 17), 1) for minute in tour_minutes]
for minute, celsius in zip(tour_minutes, tour_celsius):
    print(f"{minute:2d} min {celsius:5.1f} °C")"""

PLOT_CELL: Final = """\
import matplotlib.pyplot as plt

tour_figure, tour_axes = plt.subplots(figsize=(6, 3))
tour_axes.plot(tour_minutes, tour_celsius, "o-")
tour_axes.set(xlabel="minutes", ylabel="°C", title="A cup of coffee cools")
plt.show()"""

DRAWING_CELL: Final = """\
from IPython.display import SVG

tour_points = " ".join(f"{20 + 18 * m},{220 - 2 * c}" for m, c in zip(tour_minutes, tour_celsius))
SVG(
    '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="220">'
    f'<polyline points="{tour_points}" fill="none" stroke="steelblue" stroke-width="3"/></svg>'
)"""

FAILING_CELL: Final = """\
tour_lost = tour_celsius[0] - tour_celcius[-1]
print(f"{tour_lost:.1f} °C in {tour_minutes[-1]} minutes")"""

FIXED_CELL: Final = FAILING_CELL.replace("tour_celcius", "tour_celsius")
