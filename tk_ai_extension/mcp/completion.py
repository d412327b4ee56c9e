"""Completion of the arguments of prompts and resource templates."""

from __future__ import annotations

from collections.abc import Sequence

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tk_ai_extension.mcp.prompts import PROMPT_TEMPLATES
from tk_ai_extension.mcp.resources import Resources
from tk_ai_extension.mcp.sdk import Context
from tk_ai_extension.mcp.uris import (
    ARTIFACT_TEMPLATE,
    CELL_TEMPLATE,
    NOTEBOOK_TEMPLATE,
    OUTPUT_TEMPLATE,
)

MAX_VALUES = 100
"""The protocol's limit of values in a response."""

_TEMPLATES = frozenset({NOTEBOOK_TEMPLATE, CELL_TEMPLATE, OUTPUT_TEMPLATE, ARTIFACT_TEMPLATE})
_PROMPTS = frozenset(template.name for template in PROMPT_TEMPLATES)
_NOTEBOOK_ARGUMENTS = frozenset({"notebook", "path"})
_CELL_ARGUMENTS = frozenset({"cell", "id"})


class Completion:
    """``completion/complete``: notebooks below the root, and cells of a notebook."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Return the values that start with the text, then those that contain it.

        Raises:
            MCPError: there is no such prompt or template.
        """
        _check(params.ref)
        name, typed = params.argument.name, params.argument.value
        given = (params.context.arguments if params.context else None) or {}
        artifact = (
            isinstance(params.ref, types.ResourceTemplateReference)
            and "artifact:" in params.ref.uri
        )
        # Artifact ids must not be enumerable: they come with the outputs.
        values: Sequence[str] = ()
        if name in _NOTEBOOK_ARGUMENTS:
            values = await self._resources.notebooks(context, recent=True)
        elif name in _CELL_ARGUMENTS and not artifact:
            notebook = given.get("notebook") or given.get("path")
            values = await self._resources.cells(context, notebook)
        wanted = typed.casefold()
        matching = [value for value in values if wanted in value.casefold()]
        matching.sort(key=lambda value: not value.casefold().startswith(wanted))
        return types.CompleteResult(
            completion=types.Completion(
                values=matching[:MAX_VALUES],
                total=len(matching),
                has_more=len(matching) > MAX_VALUES,
            )
        )


def _check(ref: types.PromptReference | types.ResourceTemplateReference) -> None:
    if isinstance(ref, types.PromptReference):
        known, said = ref.name in _PROMPTS, f"Unknown prompt `{ref.name}`."
    else:
        known, said = ref.uri in _TEMPLATES, f"Unknown resource template `{ref.uri}`."
    if not known:
        raise MCPError(types.INVALID_PARAMS, said)
