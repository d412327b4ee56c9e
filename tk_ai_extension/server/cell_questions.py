"""Messages of running cells to Claude (`%tk`): each is a turn of its notebook's chat."""

from __future__ import annotations

import asyncio

from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.requests import AskingCell, ChatRequest, parse_request
from tk_ai_extension.agent.sent_messages import StartedTurn
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, NotebookRequired, PermissionNotFound
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.server.kernel_chat_server import JsonLineConnection
from tk_ai_extension.workspace.permission_requests import Answer
from tk_ai_extension.workspace.permissions import MAX_MESSAGE
from tk_ai_extension.workspace.workspace import Workspace

FIELDS = ("message", "mode", "model", "active_cell")
"""Fields of a chat's message that a cell may set."""

MAX_ERROR = 50_000
"""Maximum length of an error in a message, in characters."""

ANSWERS: tuple[Answer, ...] = ("once", "notebook", "deny")
"""Answers of a cell to permission requests of its turn: approval for a whole chat would outlast the turn."""


class CellQuestion:
    """A message of a cell, and the turn that answers it.

    The turn goes to the newest chat about the kernel's notebook, or to a new one. The cell receives the
    chat's events, except fields that it does not need, and finally ``later``: the cells that run after
    it has ended. It may send ``{"permission": id, "answer": "once"}`` for requests of this turn, and
    ``{"stop": true}``; a disconnect stops the turn as well, with the runs that it has queued.

    Args:
        chats: The server's chats.
        workspace: What their tools work on.
        user: The user of the cell.
        kernel_id: The cell's kernel.
        connection: Connection to the cell.
    """

    def __init__(
        self,
        chats: Chats,
        workspace: Workspace,
        user: str,
        kernel_id: str,
        connection: JsonLineConnection,
    ) -> None:
        self._chats = chats
        self._workspace = workspace
        self._user = user
        self._kernel_id = kernel_id
        self._connection = connection
        self._path = ""
        # Possible answers to each permission request of this turn.
        self._asked: dict[str, tuple[Answer, ...]] = {}

    async def answer(self, question: Json) -> None:
        """Run the turn and send its events.

        Raises:
            InvalidArguments, NotebookRequired, and what `Chats.send` raises.
        """
        error = question.get("error", "")
        if not isinstance(error, str) or len(error) > MAX_ERROR:
            raise InvalidArguments(f"`error` must be text of at most {MAX_ERROR:,} characters.")
        request = await self._request(question)
        asking = AskingCell(self._kernel_id, error)
        begun = await self._chats.send(self._user, request, asking=asking)
        caller = Caller(user=self._user, key=begun.chat, interface="chat")
        self._workspace.questions.begin(self._kernel_id, caller)
        try:
            await self._follow(begun)
        finally:
            self._workspace.questions.end(self._kernel_id, caller)

    async def _follow(self, begun: StartedTurn) -> None:
        """Send events to the cell and receive its answers until the turn is over."""
        sending = asyncio.create_task(self._send_events(begun))
        receiving = asyncio.create_task(self._receive_answers())
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                await self._chats.stop(self._user, begun.chat, begun.turn)
            await sending
            if receiving.done():
                receiving.result()
        except asyncio.CancelledError:
            # The server is stopping: stop the turn.
            await self._chats.stop(self._user, begun.chat, begun.turn)
            raise
        finally:
            for task in (sending, receiving):
                task.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _request(self, question: Json) -> ChatRequest:
        """Return the message as a request about the kernel's notebook.

        Raises:
            NotebookRequired: the kernel has no notebook.
        """
        paths = await self._workspace.sessions.paths_of(self._kernel_id)
        if not paths:
            raise NotebookRequired(
                "This kernel has no notebook on this server.",
                hint="Ask from a notebook, or in the chat.",
            )
        # If several notebooks share the kernel: the one that it was started for.
        started_for = str(question.get("notebook", ""))
        self._path = next((path for path in paths if started_for.endswith(f"/{path}")), paths[0])
        fields = {name: question[name] for name in FIELDS if name in question}
        latest = question.get("new") is not True
        return parse_request({**fields, "notebook": self._path, "latest": latest})

    async def _send_events(self, begun: StartedTurn) -> None:
        async for event in begun.events:
            shown = _light(event)
            if event.kind == "permission":
                shown["answers"] = self._asked[event.data["id"]] = tuple(
                    answer
                    for answer in ANSWERS
                    if answer != "notebook" or event.data["notebook"] == self._path
                )
            if event.kind == "done":
                await self._send_later_cells(begun.turn)
            await self._connection.send(shown)

    async def _send_later_cells(self, turn: str) -> None:
        # They have not started: the kernel is still busy with this cell.
        queued = self._workspace.executions.active(kernel_id=self._kernel_id, turn=turn)
        cells = [step.cell for run in queued for step in run.steps if step.cell]
        if cells:
            await self._connection.send({"kind": "later", "cells": cells})

    async def _receive_answers(self) -> None:
        """Receive answers to permission requests until the cell stops the turn or disconnects."""
        while (said := await self._connection.receive()) is not None and "stop" not in said:
            permission, answer = str(said.get("permission")), said.get("answer")
            message = str(said.get("message", ""))[:MAX_MESSAGE] if answer == "deny" else ""
            if answer not in self._asked.get(permission, ()):
                raise InvalidArguments("This turn has no such permission request.")
            try:
                self._workspace.policy.answer(self._user, permission, answer, message)
            except PermissionNotFound:
                await self._connection.send(
                    {"kind": "notice", "text": "This request was answered elsewhere."}
                )


def _light(event: Event) -> Json:
    """Return an event without the fields that the notebook shows anyway."""
    shown = event.as_dict()
    if event.kind == "tool_result":
        del shown["structured"], shown["images"]
    return shown
