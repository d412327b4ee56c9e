"""Prompts for the common jobs in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tk_ai_extension.mcp.resources import Resources, one_page
from tk_ai_extension.mcp.sdk import Context

_NOTEBOOK = types.PromptArgument(
    name="notebook", description="The notebook's path; the current one if left out", required=False
)
_CELL = types.PromptArgument(
    name="cell",
    description="The cell's id or index; the whole notebook if left out",
    required=False,
)


@dataclass(frozen=True, slots=True)
class Job:
    """A prompt: what it asks for, about a notebook or one of its cells."""

    name: str
    description: str
    request: str
    takes_cell: bool = False

    def describe(self) -> types.Prompt:
        """The entry in ``prompts/list``."""
        return types.Prompt(
            name=self.name,
            title=self.name.replace("_", " ").capitalize(),
            description=self.description,
            arguments=[_NOTEBOOK, _CELL] if self.takes_cell else [_NOTEBOOK],
        )


JOBS = (
    Job(
        "explain",
        "Explain a notebook or a cell: what it does and how",
        "Explain {what}: what it is for, how it goes about it step by step, what its outputs show, "
        "and what deserves attention. Change nothing.",
        takes_cell=True,
    ),
    Job(
        "fix",
        "Find out why a notebook or a cell fails, and mend it",
        "Find out what is wrong with {what} and mend it. Look at the errors in the outputs and at "
        "the kernel's variables, say what the cause is, make the smallest change that removes it, "
        "and run the cells concerned to show that it works.",
        takes_cell=True,
    ),
    Job(
        "clean_up",
        "Tidy a notebook without changing its results",
        "Clean up {what} without changing its results: imports together at the top, dead and "
        "repeated code away, clear names, cells in an order that runs from top to bottom. Then run "
        "all cells from a fresh kernel and compare the results.",
    ),
    Job(
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
        self._jobs: Mapping[str, Job] = {job.name: job for job in JOBS}

    async def list(
        self, _context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """All prompts."""
        one_page(params)
        return types.ListPromptsResult(prompts=[job.describe() for job in self._jobs.values()])

    async def get(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """One prompt, with what it is about as an embedded resource."""
        job = self._jobs.get(params.name)
        if job is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no prompt `{params.name}`.")
        given = params.arguments or {}
        cell = given.get("cell") if job.takes_cell else None
        place = self._resources.place(context, given.get("notebook") or None, cell or None)
        what = (
            f"cell `{cell}` of the notebook `{place.path}`"
            if cell
            else f"the notebook `{place.path}`"
        )
        contents = await self._resources.contents(context, place)
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
