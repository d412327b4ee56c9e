"""REST routes for a person who types: proposals of code, and variables. They write nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.server.handlers.handler import TkAIHandler
from tk_ai_extension.server.handlers.operations import NOTEBOOK, operation
from tk_ai_extension.server.users import username

if TYPE_CHECKING:
    from tk_ai_extension.server.models import (
        CompletedCode,
        CompletionRequest,
        EditedCell,
        EditRequest,
        VariablePreview,
    )

T = TypeVar("T")


class CodeHandler(TkAIHandler):
    """A route whose client may stop waiting at any time, which cancels the model's request."""

    _working: asyncio.Task[Any] | None = None
    _is_gone = False

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result; None if the client disconnected before it was there."""
        self._working = asyncio.create_task(work, name="tk-ai request for code")
        try:
            return await self._working
        except asyncio.CancelledError:
            if not self._is_gone:
                raise
            return None

    def on_connection_close(self) -> None:
        """Cancel the work: nobody reads its result."""
        super().on_connection_close()
        self._is_gone = True
        if self._working is not None:
            self._working.cancel()


class CompletionHandler(CodeHandler):
    """Completions at a cursor."""

    @operation("execute", "complete_code")
    async def post(self, body: CompletionRequest) -> CompletedCode | None:
        """Propose the text at the cursor of a cell.

        A newer request of the same client replaces this one, which fails with `completion_replaced`.
        """
        assistant = await self.services.code_assistant()
        return await self.while_connected(assistant.complete(username(self), body))


class EditHandler(CodeHandler):
    """Edits of one cell by a prompt."""

    @operation("execute", "edit_code")
    async def post(self, body: EditRequest) -> EditedCell | None:
        """Propose the new source of a cell; nothing is written.

        `earlier` has the prompts that the person refines, each with its proposal.
        """
        assistant = await self.services.code_assistant()
        return await self.while_connected(assistant.edit(username(self), body))


class VariableHandler(TkAIHandler):
    """A variable of a notebook's kernel."""

    @operation("read", "preview_variable", NOTEBOOK)
    async def get(self, variable: str) -> VariablePreview:
        """Return the columns and first rows of a table of pandas or polars.

        It fails with `kernel_busy` while the kernel runs code. The variable's own code does not run.
        """
        notebook = self.get_query_argument("notebook", None)
        if not notebook:
            raise InvalidArguments(
                Sentence("notebook_missing"), hint=Sentence("notebook_missing_hint")
            )
        await self.services.tools()
        # Imported with the tools, in their thread.
        from tk_ai_extension.tools.context import ToolContext
        from tk_ai_extension.tools.default.variables import preview_variable

        context = ToolContext(self.services.workspace, self.caller)
        return await preview_variable(context, variable, notebook)
