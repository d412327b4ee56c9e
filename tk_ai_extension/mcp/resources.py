"""Notebooks, cells, outputs and artifacts as MCP resources, and prompts about them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.uri_template import UriTemplate

from tk_ai_extension.mcp.approvals import Context, is_modern
from tk_ai_extension.mcp.tool_calls import McpCallers, one_page
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments, NotReadable, ToolError
from tk_ai_extension.model.json_values import MALFORMED, Json
from tk_ai_extension.model.output_changes import json_size, stream_text
from tk_ai_extension.model.output_text import error_text, sanitise
from tk_ai_extension.tools.default.focus import person_focus
from tk_ai_extension.tools.registry import Registry, ToolContext
from tk_ai_extension.workspace.files import FolderWalk

MAX_NOTEBOOKS = 2_000
"""Maximum number of listed notebooks; unlisted ones can be read as well."""
PAGE = 200
"""Resources per page of the list."""
MAX_SIZE = 3_000_000
"""Maximum size of a resource's contents, in bytes or characters: a message is encoded at once."""
RESOURCE_NOT_FOUND = -32002
"""Error code of the protocol with sessions; without sessions it is -32602."""

FOCUS = "notebook://focus"
"""The URI of the person's focus; a notebook's ends in ``.ipynb``."""

NOTEBOOK = "A notebook: its cells with their outputs, as text"
TEMPLATES = {
    "notebook": ("notebook://{+path}", NOTEBOOK),
    "cell": (
        "notebook://{+path}/cells/{id}",
        "A cell, by id or index: its whole source and its outputs",
    ),
    "output": (
        "notebook://{+path}/cells/{id}/outputs/{n}",
        "One output of a cell, by its index from 0: text or an image",
    ),
    "artifact": ("artifact://{id}", "A whole output that was too long to show"),
}
"""Template and description by name."""
_PARSED = {name: UriTemplate.parse(template) for name, (template, _) in TEMPLATES.items()}

Contents = list[types.TextResourceContents | types.BlobResourceContents]


def notebook_uri(path: str, cell: str | None = None) -> str:
    """Return the URI of a notebook, or of one of its cells.

    >>> notebook_uri("my plots/fig 1.ipynb", "318a")
    'notebook://my%20plots/fig%201.ipynb/cells/318a'
    """
    uri = f"notebook://{quote(path)}"
    return uri if cell is None else f"{uri}/cells/{quote(cell, safe='')}"


class Resources:
    """``resources/list``, ``resources/templates/list`` and ``resources/read``.

    Args:
        callers: Returns the callers.
        registry: Returns the registry with ``read_notebook`` and ``read_cell``.
    """

    def __init__(self, callers: McpCallers, registry: Callable[[], Registry]) -> None:
        self._callers = callers
        self._workspace = callers.workspace
        self._registry = registry

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List a page of the notebooks below the root."""
        notebooks = await self._notebooks(context)
        offset = _offset(params)
        page = notebooks[offset : offset + PAGE]
        end = offset + len(page)
        focus = types.Resource(
            uri=FOCUS,
            name="focus",
            title="What the person looks at",
            description="The open notebook in front, its active cell and the selection, as text",
            mime_type="text/plain",
        )
        return types.ListResourcesResult(
            resources=[
                *([] if offset else [focus]),
                *(
                    types.Resource(
                        uri=notebook_uri(path),
                        name=path.rsplit("/", 1)[-1],
                        title=path,
                        description=NOTEBOOK,
                        mime_type="text/plain",
                    )
                    for path in page
                ),
            ],
            next_cursor=str(end) if end < len(notebooks) else None,
        )

    async def templates(
        self, _context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the templates."""
        one_page(params)
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=template, name=name, description=description)
                for name, (template, description) in TEMPLATES.items()
            ]
        )

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read one resource."""
        return types.ReadResourceResult(contents=await self.contents(context, params.uri))

    def path(self, context: Context, notebook: str | None) -> str:
        """Return the path of the notebook that a caller names, or of the current one."""
        try:
            return self._workspace.path(self._callers.of(context), notebook, tool="this prompt")
        except ToolError as error:
            raise _protocol_error(context, error) from None

    async def contents(self, context: Context, uri: str) -> Contents:
        """Return the contents of a URI.

        Raises:
            MCPError: it does not exist or is too large, or reading is not allowed.
        """
        found = {name: template.match(uri) for name, template in _PARSED.items()}
        # The most specific template: a path may contain anything.
        name = next((name for name in reversed(found) if found[name] is not None), None)
        name = "focus" if uri == FOCUS else name
        if name is None:
            raise _not_found(context, f"Unknown resource `{uri}`.", None)
        values = {key: str(value) for key, value in (found.get(name) or {}).items()}
        try:
            contents = await self._contents(context, name, uri, values)
            _check_size(sum(map(_size, contents)))
        except ToolError as error:
            raise _protocol_error(context, error) from None
        return contents

    async def _notebooks(self, context: Context) -> Sequence[str]:
        """Return the paths of the notebooks below the root, the caller's managed ones first."""
        caller = self._callers.of(context)
        found = {each.path: None for each in self._workspace.notebooks.list(caller)}
        try:
            async for entry in FolderWalk(self._workspace.files, "", recursive=True):
                if entry.kind == "notebook":
                    found[entry.path] = None
                if len(found) >= MAX_NOTEBOOKS:
                    break
        except ToolError as error:
            raise _protocol_error(context, error) from None
        return list(found)

    async def _contents(
        self, context: Context, name: str, uri: str, values: dict[str, str]
    ) -> Contents:
        """Return the contents of the resource for a template's values."""
        caller = self._callers.of(context)
        tool_context = ToolContext(self._workspace, caller)
        if name == "focus":
            return [_content(uri, "text/plain", (await person_focus(tool_context)).as_text())]
        if name == "output":
            return await self._output(context, uri, values["path"], values["id"], values["n"])
        if name == "artifact":
            data, mime = await self._workspace.artifacts.data(
                caller.user, values["id"], max_bytes=MAX_SIZE
            )
            return [_content(uri, mime, data)]
        further = {"cell": values["id"]} if name == "cell" else {"view": "reading"}
        result = await self._registry().call(
            f"read_{name}",
            {"notebook": values["path"], **further},
            tool_context,
        )
        return [_content(uri, "text/plain", result.full_text())]

    async def _output(
        self, context: Context, uri: str, path: str, cell: str, index: str
    ) -> Contents:
        document = await self._workspace.open(self._callers.of(context), path)
        found, _ = (await document.read()).find(cell)
        outputs = await document.outputs(found.key)
        if not (index.isascii() and index.isdecimal() and int(index) < len(outputs)):
            raise CellNotFound(
                f"Cell @{found.key} has {len(outputs)} outputs.", hint="They are numbered from 0."
            )
        output = outputs[int(index)]
        try:
            _check_size(json_size(output))  # before it is converted
            return _output_contents(uri, output)
        except MALFORMED as error:
            raise NotReadable("The output is not valid.", hint="Run the cell again.") from error


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise NotReadable(
            f"It has {size:,} characters; the limit is {MAX_SIZE:,}.",
            hint="Read it in parts: read_notebook with `lines`, read_output, or code in a kernel.",
        )


def _size(contents: types.TextResourceContents | types.BlobResourceContents) -> int:
    if isinstance(contents, types.BlobResourceContents):
        return len(contents.blob)
    return len(json.dumps(contents.text, ensure_ascii=False))  # control characters take six


def _output_contents(uri: str, output: Json) -> Contents:
    """Convert an nbformat output: one content per MIME type, images as binary."""
    match output.get("output_type"):
        case "stream":
            return [_content(uri, "text/plain", sanitise(stream_text(output)))]
        case "error":
            return [_content(uri, "text/plain", sanitise(error_text(output)))]
        case _:
            data: Json = output.get("data") or {}
            return [_content(uri, mime, _decoded(mime, value)) for mime, value in data.items()]


def _decoded(mime: str, value: Any) -> str | bytes:
    text = None if mime == "application/json" or mime.endswith("+json") else _joined(value)
    if text is None:
        return json.dumps(value)
    if mime.startswith("image/") and mime != "image/svg+xml":
        try:
            return base64.b64decode(text)
        except ValueError as error:
            raise NotReadable(
                f"The {mime} is not valid base64.", hint="Run the cell again."
            ) from error
    return sanitise(text)


def _joined(value: Any) -> str | None:
    """Return a text, stored as a string, a list of lines or null; None for any other value."""
    if value is None:
        return ""
    lines = cast("list[Any]", value) if isinstance(value, list) else [value]
    return "".join(lines) if all(isinstance(line, str) for line in lines) else None


def _content(
    uri: str, mime: str, data: str | bytes
) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(data, bytes) and mime.startswith("text/"):
        data = data.decode("utf-8", "replace")
    if isinstance(data, bytes):
        return types.BlobResourceContents(
            uri=uri, mime_type=mime, blob=base64.b64encode(data).decode("ascii")
        )
    return types.TextResourceContents(uri=uri, mime_type=mime, text=data)


def _offset(params: types.PaginatedRequestParams | None) -> int:
    cursor = params.cursor if params is not None else None
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise MCPError(types.INVALID_PARAMS, "Unknown cursor.")
    return int(cursor)


def _protocol_error(context: Context, error: ToolError) -> MCPError:
    """Return an error as a JSON-RPC error, for methods without error results; with the same fields."""
    if error.status == 404:
        return _not_found(context, error.message, error.as_dict())
    known = error.status < 500 or isinstance(error, InvalidArguments)
    code = types.INVALID_PARAMS if known else types.INTERNAL_ERROR
    return MCPError(code, error.message, {"error": error.as_dict()})


def _not_found(context: Context, message: str, error: Json | None) -> MCPError:
    code = types.INVALID_PARAMS if is_modern(context) else RESOURCE_NOT_FOUND
    return MCPError(code, message, None if error is None else {"error": error})


_NOTEBOOK_ARGUMENT = types.PromptArgument(
    name="notebook", description="The notebook's path (default: the current one)", required=False
)
_CELL_ARGUMENT = types.PromptArgument(
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
            arguments=[_NOTEBOOK_ARGUMENT, _CELL_ARGUMENT]
            if self.takes_cell
            else [_NOTEBOOK_ARGUMENT],
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
