"""Code for a person who types: completions at the cursor, and edits of one cell by a prompt.

Nothing is written to a notebook here: the page shows a proposal, and the person accepts it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tk_ai_extension.agent.code.model import CodeModels
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

_COMMENTS: Final = {"javascript": "//", "typescript": "//", "java": "//", "c++": "//", "rust": "//"}
"""The beginning of a comment by language; `#` in others."""

COMPLETION = "The tour wrote this, not a model: Tab accepts it."
"""What a completion says where no model is connected."""

EDITED = "The tour, a script, wrote this line. A connected model would do: {prompt}"
"""The line that the tour adds to a cell."""


class CodeAssistant:
    """Answers requests for code. A page that wants another answer ends its request, and so the model's.

    Args:
        models: Finds the model.
        names: The variables of the kernels.
    """

    def __init__(self, models: CodeModels, names: VariableNames) -> None:
        self._models = models
        self._names = names

    async def close(self) -> None:
        """Close connections; running requests fail."""
        await self._names.close()
        await self._models.close()

    async def complete(self, request: CompletionRequest) -> CompletedCode:
        """Return the text to insert at the cursor.

        Raises:
            PathRefused, InvalidArguments: The path is none of a notebook in the root.
            ToolError: See `CodeModels.find` and `CodeModel.answer`.
        """
        model, variables = await asyncio.gather(
            self._models.find(fast=True), self._variables(request, NAMES_WITHIN)
        )
        if model is None:
            return {"text": _tour_completion(request), "scripted": True, "usage": None}
        prompt = completion_prompt(request, variables)
        answer = await model.answer(prompt, COMPLETION_TIMEOUT)
        text = completion_of(answer.text, request, is_cut=answer.is_cut)
        return {"text": text, "scripted": False, "usage": answer.usage}

    async def edit(self, request: EditRequest) -> EditedCell:
        """Return the source that is proposed for a cell.

        Raises:
            ModelFailed: The model's answer has no source, or not all of it.
            ToolError: See `complete`.
        """
        model, variables = await asyncio.gather(
            self._models.find(fast=False), self._variables(request, EDIT_NAMES_WITHIN)
        )
        if model is None:
            return {"source": _tour_edit(request), "scripted": True, "usage": None}
        prompt = edit_prompt(request, variables)
        answer = await model.answer(prompt, EDIT_TIMEOUT)
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
        return {"source": source, "scripted": False, "usage": answer.usage}

    async def _variables(self, request: CodeContext, within: float) -> str:
        if request.notebook is None or request.cell_type != "code":
            return ""
        return await self._names.of(request.notebook, within)


def _tour_completion(request: CompletionRequest) -> str:
    if request.suffix.partition("\n")[0].strip():
        return ""  # A comment would swallow the rest of the line.
    line = request.prefix.rpartition("\n")[2]
    gap = "  " if line.strip() else ""
    return f"{gap}{_comment(request)}{COMPLETION}"


def _tour_edit(request: EditRequest) -> str:
    prompts = [each.prompt for each in (*request.earlier, request)]
    lines = [
        f"{_comment(request)}{EDITED.format(prompt=' '.join(prompt.split())[:80])}"
        for prompt in prompts
    ]
    return "\n".join([*lines, request.source] if request.source else lines)


def _comment(request: CodeContext) -> str:
    if request.cell_type != "code":
        return ""
    return f"{_COMMENTS.get(request.language.lower(), '#')} "
