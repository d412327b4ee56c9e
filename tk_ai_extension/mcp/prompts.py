"""Prompts for the common jobs in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tk_ai_extension.mcp.requests import Context, one_page
from tk_ai_extension.mcp.resources import Resources, notebook_uri

_NOTEBOOK = types.PromptArgument(
    name="notebook", description="The notebook's path (default: the current one)", required=False
)
_CELL = types.PromptArgument(
    name="cell",
    description="The cell's id or index (default: the whole notebook)",
    required=False,
)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt about a notebook or one of its cells."""

    name: str
    description: str
    request: str
    takes_cell: bool = False

    def describe(self) -> types.Prompt:
        """Return the entry in ``prompts/list``."""
        return types.Prompt(
            name=self.name,
            title=self.name.replace("_", " ").capitalize(),
            description=self.description,
            arguments=[_NOTEBOOK, _CELL] if self.takes_cell else [_NOTEBOOK],
        )


PROMPT_TEMPLATES = (
    PromptTemplate(
        "explain",
        "Explain a notebook or a cell: what it does and how",
        "Explain {what}: its purpose, how it works step by step, what its outputs show, "
        "and what deserves attention. Change nothing.",
        takes_cell=True,
    ),
    PromptTemplate(
        "fix",
        "Find out why a notebook or a cell fails, and fix it",
        "Find out what is wrong with {what} and fix it. Check the errors in the outputs and the "
        "kernel's variables, name the cause, make the smallest change that removes it, "
        "and run the affected cells to show that it works.",
        takes_cell=True,
    ),
    PromptTemplate(
        "clean_up",
        "Tidy a notebook without changing its results",
        "Clean up {what} without changing its results: imports together at the top, dead and "
        "repeated code removed, clear names, cells in an order that runs from top to bottom. Then run "
        "all cells from a fresh kernel and compare the results.",
    ),
    PromptTemplate(
        "document",
        "Add headings and explanations to a notebook",
        "Document {what}: a title and a short summary at the top, a markdown heading before each "
        "part, one or two sentences on what each part does and why, docstrings where functions "
        "lack them. Leave the code and the results as they are.",
    ),
)


class Prompts:
    """``prompts/list`` and ``prompts/get``."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._jobs: Mapping[str, PromptTemplate] = {job.name: job for job in PROMPT_TEMPLATES}

    async def list(
        self, _context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List all prompts."""
        one_page(params)
        return types.ListPromptsResult(prompts=[job.describe() for job in self._jobs.values()])

    async def get(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Return one prompt, with its notebook or cell as an embedded resource."""
        job = self._jobs.get(params.name)
        if job is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt `{params.name}`.")
        given = params.arguments or {}
        cell = (given.get("cell") or None) if job.takes_cell else None
        path = self._resources.path(context, given.get("notebook") or None)
        what = (
            f"the notebook `{path}`" if cell is None else f"cell `{cell}` of the notebook `{path}`"
        )
        contents = await self._resources.contents(context, notebook_uri(path, cell))
        return types.GetPromptResult(
            description=job.description,
            messages=[
                types.PromptMessage(role="user", content=content)
                for content in (
                    types.TextContent(text=job.request.format(what=what)),
                    *(types.EmbeddedResource(resource=content) for content in contents),
                )
            ],
        )
