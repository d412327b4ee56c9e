"""The tour: a scripted agent for servers without a model. It says so in each turn.

Its script is `tour.toml`. The tools, the approvals, the kernel and the notebook are real. It stores no
history.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import tomllib
from collections.abc import Coroutine, Sequence
from pathlib import Path

from tk_ai_extension.agent.backend import AgentEvent, ContentBlock, TextBlock, ToolCall, TurnEnded
from tk_ai_extension.agent.events import TextDelta, ToolCalled
from tk_ai_extension.model.errors import InternalError
from tk_ai_extension.model.json_values import Json

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


def read_script() -> Json:
    """Return the script of the tour."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


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


class _Ended(Exception):
    """The tour ends early; the message is the name of its last text."""


class TourSession(TaskSession):
    """`AgentSession` of the tour in one chat.

    Args:
        call: Carries out tool calls.
    """

    def __init__(self, call: ToolCall) -> None:
        super().__init__()
        self._call = call
        self._is_first = True
        # Of the running turn: the number of its texts, and what the first one begins with.
        self._texts = 0
        self._heading = ""

    async def send(self, content: Sequence[ContentBlock], *, model: str) -> None:
        """Begin a turn."""
        del model
        seen, *_, message = [block.text for block in content if isinstance(block, TextBlock)]
        self._texts = 0
        self.begin(self._answer(seen, message))

    async def _answer(self, seen: str, message: str) -> None:
        script = await asyncio.to_thread(read_script)
        self._heading = f"{script['label']} "
        is_first, self._is_first = self._is_first, False
        if is_first:
            self._heading += f"{script['intro']}\n\n"
        try:
            last = await self._carry_out(script, seen, message, is_first=is_first)
        except _Ended as ended:
            last = str(ended)
        self._say(script[last])

    async def _carry_out(self, script: Json, seen: str, message: str, *, is_first: bool) -> str:
        """Carry out a message, and return the name of the final text."""
        mode = _MODE.search(seen)
        has_notebook = "\nNotebook " in seen
        begins = is_first and mode is not None and mode[1] == "auto"
        if _CONNECT.search(message) and not begins:
            return "connect"
        if not begins and not _START.search(message):
            return "menu"
        plans = mode is not None and mode[1] == "plan"
        if not has_notebook and not plans:
            await self._make(script["create"])
        if has_notebook or not plans:
            await self._make(script["read"])
        if plans:
            return "plan"
        for step in script["steps"]:
            if (failed := await self._make(step)) is not None:
                for fix in step["fix"]:
                    await self._make(fix, cell=failed)
        return "end"

    async def _make(self, step: Json, **more: str) -> str | None:
        """Announce and make a call; return the key of a cell whose code fails, if the step has a fix.

        Raises:
            _Ended: The call was denied, or failed for another reason.
        """
        self._say(step["say"])
        call, tool = f"tour-{secrets.token_hex(8)}", step["tool"]
        arguments = {**step.get("arguments", {}), **more}
        self.events.put_nowait(ToolCalled(call, tool, arguments))
        result = await self._call(call, tool, arguments)
        if not result.is_error:
            return None
        answer: Json = result.structured_content or {}
        error = answer.get("error")
        if error is None and "fix" in step:
            return str(answer["runs"][0]["cell"])
        raise _Ended("refused" if error is not None and error["code"] in _REFUSALS else "broken")

    def _say(self, text: str) -> None:
        """Write a text block."""
        heading, self._heading = self._heading, ""
        self.events.put_nowait(TextDelta(self._texts, 0, heading + text))
        self._texts += 1
