"""REST routes for code as a person types: proposals only, nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from tk_ai_extension.server.handlers.base_handler import TkAIHandler
from tk_ai_extension.server.handlers.openapi_operations import operation

if TYPE_CHECKING:
    from tk_ai_extension.server.rest_models import (
        CompletedCode,
        CompletionRequest,
        EditedCell,
        EditRequest,
    )

T = TypeVar("T")


class CodeHandler(TkAIHandler):
    """A route that cancels the model's request when its client stops waiting."""

    async def result(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result; None if the client disconnected first."""
        working = asyncio.create_task(work, name="tk-ai request for code")
        return working.result() if await self.while_connected(working) else None


class CodeCompletionHandler(CodeHandler):
    """Completions at a cursor."""

    @operation("execute", "complete_code")
    async def post(self, body: CompletionRequest) -> CompletedCode | None:
        """Propose the text at the cursor of a cell."""
        assistant = await self.services.code_assistant()
        return await self.result(assistant.complete(body))


class CellEditHandler(CodeHandler):
    """Edits of one cell by a prompt."""

    @operation("execute", "edit_code")
    async def post(self, body: EditRequest) -> EditedCell | None:
        """Propose the new source of a cell; nothing is written.

        `earlier` has the prompts that the person refines, each with its proposal.
        """
        assistant = await self.services.code_assistant()
        return await self.result(assistant.edit(body))
