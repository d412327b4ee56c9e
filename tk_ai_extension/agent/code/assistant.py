"""Code for a person who types: completions at the cursor, and edits of one cell by a prompt.

Nothing is written to a notebook here: the page shows a proposal, and the person accepts it.
"""

from __future__ import annotations

from typing import Final

from tk_ai_extension.agent.code.model import CodeModel
from tk_ai_extension.agent.code.prompts import (
    completion_of,
    completion_prompt,
    edit_prompt,
    source_of,
)
from tk_ai_extension.agent.code.requests import (
    CodeContext,
    CompletedCode,
    CompletionRequest,
    EditedCell,
    EditRequest,
)
from tk_ai_extension.agent.code.variable_names import VariableNames
from tk_ai_extension.model.agent_errors import ModelFailed

COMPLETION_TIMEOUT: Final = 15.0
"""Timeout of the model for a completion, in seconds."""
EDIT_TIMEOUT: Final = 120.0
"""Timeout of the model for an edit, in seconds."""
NAMES_WITHIN: Final = 0.02
"""Seconds that a completion waits for the names of variables; until then the last known ones count."""
EDIT_NAMES_WITHIN: Final = 2.0
"""Seconds that an edit waits for the names of variables."""


class CodeAssistant:
    """Answers requests for code. A page that wants another answer ends its request, and so the model's.

    Args:
        model: The model.
        names: The variables of the kernels.
    """

    def __init__(self, model: CodeModel, names: VariableNames) -> None:
        self._model = model
        self._names = names

    async def close(self) -> None:
        """Close connections; running requests fail."""
        await self._names.close()
        await self._model.close()

    async def complete(self, request: CompletionRequest) -> CompletedCode:
        """Return the text to insert at the cursor.

        Raises:
            PathRefused, InvalidArguments: The path is none of a notebook in the root.
            ToolError: See `CodeModel.answer`.
        """
        prompt = completion_prompt(request, await self._variables(request, NAMES_WITHIN))
        answer = await self._model.answer(prompt, COMPLETION_TIMEOUT, fast=True)
        return {"text": completion_of(answer.text, request, is_cut=answer.is_cut)}

    async def edit(self, request: EditRequest) -> EditedCell:
        """Return the source that is proposed for a cell.

        Raises:
            ModelFailed: The model's answer has no source, or not all of it.
            ToolError: See `complete`.
        """
        prompt = edit_prompt(request, await self._variables(request, EDIT_NAMES_WITHIN))
        answer = await self._model.answer(prompt, EDIT_TIMEOUT, fast=False)
        if answer.is_cut:
            raise ModelFailed(
                "The new source is too long for one answer of the model.",
                hint="Split the cell, or ask in the chat.",
            )
        source = source_of(answer.text, request.source)
        if source is None:
            raise ModelFailed(
                "The model did not answer with the source of a cell.", hint="Try again."
            )
        return {"source": source}

    async def _variables(self, request: CodeContext, within: float) -> str:
        if request.notebook is None or request.cell_type != "code":
            return ""
        return await self._names.of(request.notebook, within)
