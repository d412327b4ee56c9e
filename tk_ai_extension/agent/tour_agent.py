"""The tour: a scripted agent for servers without a model. It says so in each turn.

Its script is `tour_agent.toml`. The tools, the approvals, the kernel and the notebook are real. It stores no
history.
"""

from __future__ import annotations

import asyncio
import secrets
import tomllib
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path

from tk_ai_extension.agent.backend import (
    AgentEvent,
    AgentTurnEnded,
    ContentBlock,
    TextBlock,
    ToolCall,
)
from tk_ai_extension.agent.chat_events import TextDelta, ToolCalled
from tk_ai_extension.model.errors import InternalError
from tk_ai_extension.model.json_values import Json

_REFUSALS = frozenset({"permission_denied", "permission_required"})


def read_script() -> Json:
    """Return the script of the tour."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class InProcessSession:
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
        """Answer in a task. `AgentTurnEnded` follows, even if the task is cancelled before it starts."""
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
        self.events.put_nowait(AgentTurnEnded(failed))


class TourSession(InProcessSession):
    """`AgentSession` of the tour in one chat.

    Args:
        call: Carries out tool calls.
    """

    def __init__(self, call: ToolCall) -> None:
        super().__init__()
        self._call = call
        # The number of texts of the running turn.
        self._texts = 0

    async def send(
        self, content: Sequence[ContentBlock], *, model: str, options: Mapping[str, str]
    ) -> None:
        """Begin a turn."""
        del options
        del model
        seen, *_, message = [block.text for block in content if isinstance(block, TextBlock)]
        self.begin(self._answer(seen, message))

    async def _answer(self, seen: str, message: str) -> None:
        script = await asyncio.to_thread(read_script)
        self._texts = 0
        self._say(script["intro"])
        if "connect" in message.lower():
            last = "connect"
        elif "Permission mode: plan" in seen:
            last = "plan"
        else:
            begin = [] if "\nNotebook " in seen else [script["create"]]
            last = await self._carry_out([*begin, *script["steps"]])
        self._say(script[last])

    async def _carry_out(self, steps: Sequence[Json], cell: str | None = None) -> str:
        """Announce and make calls, and return the name of the final text.

        Args:
            steps: The calls. If the code of one fails, those in its `fix` are made.
            cell: The cell that they fix.
        """
        for step in steps:
            self._say(step["say"])
            call, tool = f"tour-{secrets.token_hex(8)}", step["tool"]
            arguments = {**step.get("arguments", {}), **({"cell": cell} if cell else {})}
            self.events.put_nowait(ToolCalled(call, tool, arguments))
            result = await self._call(call, tool, arguments)
            answer: Json = result.structured_content or {}
            error, last = answer.get("error"), "end"
            if error is not None:
                last = "refused" if error["code"] in _REFUSALS else "broken"
            elif result.is_error:
                failed = str(answer["runs"][0]["cell"])
                last = await self._carry_out(step["fix"], failed) if "fix" in step else "broken"
            if last != "end":
                return last
        return "end"

    def _say(self, text: str) -> None:
        """Write a text block."""
        self.events.put_nowait(TextDelta(self._texts, text))
        self._texts += 1
