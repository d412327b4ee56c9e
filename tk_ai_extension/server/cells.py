"""What a running cell asks Claude (`%tk`): a turn of its notebook's chat, followed and stopped by it."""

from __future__ import annotations

import asyncio
from typing import Any

from tk_ai_extension.agent.chats import Chats, StartedTurn
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.requests import Asking, ChatRequest, parse_request
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, NotebookRequired, PermissionNotFound
from tk_ai_extension.server.kernel_line import Wire
from tk_ai_extension.workspace.permission_requests import Answer
from tk_ai_extension.workspace.permissions import MAX_MESSAGE
from tk_ai_extension.workspace.runs import Run
from tk_ai_extension.workspace.workspace import Workspace

FIELDS = ("message", "mode", "model", "active_cell")
"""What of a chat's message a cell says itself."""

MAX_ERROR = 50_000
"""Characters of an error that a cell asks about."""

ANSWERS: tuple[Answer, ...] = ("once", "notebook", "deny")
"""What a cell may say to a question of its own turn: leave for a whole chat would reach beyond it."""


class CellQuestion:
    """One question of a cell, and the turn that answers it.

    The turn goes into the newest chat about the kernel's notebook, or a new one. The cell is sent the
    chat's events, without what it has no use for, and at last ``later``: which cells run when it has
    ended. It may send ``{"permission": id, "answer": "once"}`` for what this turn asks, and
    ``{"stop": true}``; one that goes away stops the turn as well. What the turn has queued in the kernel
    does not run then.

    Args:
        chats: The server's.
        workspace: What their tools work on.
        user: For whom the cell asks.
        kernel_id: The kernel that the cell runs in.
        wire: The cell's end.
    """

    def __init__(
        self, chats: Chats, workspace: Workspace, user: str, kernel_id: str, wire: Wire
    ) -> None:
        self._chats = chats
        self._workspace = workspace
        self._user = user
        self._kernel_id = kernel_id
        self._wire = wire
        self._path = ""
        # What may be said to each question of this turn.
        self._asked: dict[str, tuple[Answer, ...]] = {}

    async def answer(self, question: dict[str, Any]) -> None:
        """Answers it.

        Raises:
            InvalidArguments, NotebookRequired, and what `Chats.send` raises.
        """
        error = question.get("error", "")
        if not isinstance(error, str) or len(error) > MAX_ERROR:
            raise InvalidArguments(f"`error` is text of at most {MAX_ERROR:,} characters.")
        request = await self._request(question)
        asking = Asking(self._kernel_id, error)
        begun = await self._chats.send(self._user, request, asking=asking)
        caller = Caller(user=self._user, key=begun.chat, interface="chat")
        self._workspace.questions.begin(self._kernel_id, caller)
        try:
            await self._follow(begun)
        finally:
            self._workspace.questions.end(self._kernel_id, caller)

    async def _follow(self, begun: StartedTurn) -> None:
        """Tells the cell what happens, and hears what it says, until the turn is over."""
        telling = asyncio.create_task(self._tell(begun))
        hearing = asyncio.create_task(self._hear())
        try:
            await asyncio.wait((telling, hearing), return_when=asyncio.FIRST_COMPLETED)
            if not telling.done():
                await self._stop(begun)
            await telling
            if hearing.done():
                hearing.result()
        except asyncio.CancelledError:
            # The server stops, and with it the turn.
            await self._stop(begun)
            raise
        finally:
            for task in (telling, hearing):
                task.cancel()
            await asyncio.gather(telling, hearing, return_exceptions=True)

    async def _request(self, question: dict[str, Any]) -> ChatRequest:
        """What is asked, about the kernel's own notebook.

        Raises:
            NotebookRequired: it has none.
        """
        paths = await self._workspace.sessions.paths_of(self._kernel_id)
        if not paths:
            raise NotebookRequired(
                "This kernel belongs to no notebook of the server.",
                hint="Ask from a notebook, or in the chat.",
            )
        # A kernel that several notebooks share knows which of them it was started for.
        started_for = str(question.get("notebook", ""))
        self._path = next((path for path in paths if started_for.endswith(f"/{path}")), paths[0])
        fields = {name: question[name] for name in FIELDS if name in question}
        latest = question.get("new") is not True
        return parse_request({**fields, "notebook": self._path, "latest": latest})

    async def _tell(self, begun: StartedTurn) -> None:
        async for event in begun.events:
            shown = _light(event)
            if event.kind == "permission":
                shown["answers"] = self._asked[event.data["id"]] = tuple(
                    answer
                    for answer in ANSWERS
                    if answer != "notebook" or event.data["notebook"] == self._path
                )
            if event.kind == "done":
                await self._tell_what_runs_later(begun.turn)
            await self._wire.send(shown)

    async def _tell_what_runs_later(self, turn: str) -> None:
        cells = [step.cell for run in self._queued(turn) for step in run.steps if step.cell]
        if cells:
            await self._wire.send({"kind": "later", "cells": cells})

    async def _hear(self) -> None:
        """Takes answers to what the turn asks, until the cell stops it or is gone."""
        while (said := await self._wire.receive()) is not None and "stop" not in said:
            permission, answer = str(said.get("permission")), said.get("answer")
            message = str(said.get("message", ""))[:MAX_MESSAGE] if answer == "deny" else ""
            if answer not in self._asked.get(permission, ()):
                raise InvalidArguments("This answers no question of this turn.")
            try:
                self._workspace.policy.answer(self._user, permission, answer, message)
            except PermissionNotFound:
                await self._wire.send({"kind": "notice", "text": "That was answered elsewhere."})

    async def _stop(self, begun: StartedTurn) -> None:
        await self._chats.stop(self._user, begun.chat, begun.turn)
        # They have not begun: the kernel still waits.
        for run in self._queued(begun.turn):
            await self._workspace.executions.cancel(run, grace=0)

    def _queued(self, turn: str) -> list[Run]:
        """The turn's runs that wait for this kernel."""
        active = self._workspace.executions.active(kernel_id=self._kernel_id)
        return [run for run in active if run.caller.turn == turn]


def _light(event: Event) -> dict[str, Any]:
    """An event without what the notebook shows anyway."""
    shown = event.as_dict()
    if event.kind == "tool_result":
        del shown["structured"], shown["images"]
    return shown
