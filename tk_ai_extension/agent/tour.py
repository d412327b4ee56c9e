"""The tour: a scripted agent for servers without a model. It says so in each turn.

The tools, the approvals, the kernel and the notebook are real. It stores no history.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from typing import Any, Final

from tk_ai_extension.agent import tour_texts as texts
from tk_ai_extension.agent.backend import AgentEvent, ContentBlock, TextBlock, ToolCall
from tk_ai_extension.agent.events import TextDelta, ToolCalled
from tk_ai_extension.agent.task_session import TaskSession
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
        self.heading = f"{texts.LABEL} "

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
            raise _Ended(texts.REFUSED)
        if result.is_error and (error is not None or not may_fail):
            raise _Ended(texts.BROKEN)
        return answer if result.is_error else {}

    async def run(self, say: str, source: str) -> str | None:
        """Insert a cell and run it; return the key of a cell whose code fails."""
        failed = await self.call(say, "insert_and_execute_cell", may_fail=True, source=source)
        return failed["runs"][0]["cell"] if failed else None

    async def fix(self, say: str, cell: str, source: str) -> None:
        """Overwrite a cell and run it again."""
        await self.call(say, "overwrite_cell", cell=cell, source=source)
        await self.call(texts.RERUN, "execute_cell", cell=cell)


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
        turn.heading += f"{texts.INTRO}\n\n"
    if _CONNECT.search(message) and not begins:
        return texts.CONNECT
    if not begins and not _START.search(message):
        return texts.MENU
    if has_notebook:
        await turn.call(texts.READ, "read_notebook", view="reading")
    if mode is not None and mode[1] == "plan":
        return texts.PLAN
    if not has_notebook:
        await turn.call(texts.OPEN, "use_notebook", notebook=NOTEBOOK, mode="create")
        await turn.call(texts.READ, "read_notebook", view="reading")
    await turn.call(texts.TITLE, "insert_cell", source=texts.TITLE_CELL, cell_type="markdown")
    await turn.call(texts.DATA, "insert_and_execute_cell", source=texts.DATA_CELL)
    if (cell := await turn.run(texts.PLOT, texts.PLOT_CELL)) is not None:
        await turn.fix(texts.REDRAW, cell, texts.DRAWING_CELL)
    if (cell := await turn.run(texts.FAIL, texts.FAILING_CELL)) is not None:
        await turn.fix(texts.FIX, cell, texts.FIXED_CELL)
    return texts.END
