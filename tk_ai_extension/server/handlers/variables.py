"""REST routes of a kernel's variables, for a person who points at one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.server.handlers.handler import TkAIHandler
from tk_ai_extension.server.handlers.operations import NOTEBOOK, operation

if TYPE_CHECKING:
    from tk_ai_extension.server.models import VariablePreview


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
