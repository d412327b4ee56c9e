"""Notebooks, cells, outputs and artifacts as MCP resources, read through the tools themselves."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tk_ai_extension.mcp.callers import CallerOf
from tk_ai_extension.mcp.sdk import Context, is_modern
from tk_ai_extension.mcp.uris import (
    ARTIFACT_TEMPLATE,
    CELL_TEMPLATE,
    NOTEBOOK_TEMPLATE,
    OUTPUT_TEMPLATE,
    ArtifactUri,
    NotebookUri,
    Place,
    parse,
)
from tk_ai_extension.model.digest import error_text, sanitise
from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments, NotReadable, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import json_size, stream_text
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.files import Walk
from tk_ai_extension.workspace.workspace import Workspace

MAX_NOTEBOOKS = 2_000
"""Maximum number of listed notebooks; unlisted ones can be read as well."""
PAGE = 200
"""Resources per page of the list."""
MAX_SIZE = 3_000_000
"""Maximum size of a resource's contents, in bytes or characters: a message is encoded at once."""
RESOURCE_NOT_FOUND = -32002
"""Error code of the protocol with sessions; without sessions it is -32602."""

Contents = list[types.TextResourceContents | types.BlobResourceContents]


class Resources:
    """``resources/list``, ``resources/templates/list`` and ``resources/read``.

    Args:
        workspace: Where the notebooks are.
        registry: Returns the registry with ``list_notebooks``, ``read_notebook`` and ``read_cell``.
        caller_of: Returns the caller.
    """

    def __init__(
        self,
        workspace: Workspace,
        registry: Callable[[], Registry],
        caller_of: CallerOf,
    ) -> None:
        self._workspace = workspace
        self._registry = registry
        self._caller_of = caller_of

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List a page of the notebooks below the root."""
        notebooks = await self._notebooks(context)
        offset = _offset(params)
        page = notebooks[offset : offset + PAGE]
        end = offset + len(page)
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=NotebookUri(path).uri,
                    name=path.rsplit("/", 1)[-1],
                    title=path,
                    description="A notebook: its cells with their outputs, as text",
                    mime_type="text/plain",
                )
                for path in page
            ],
            next_cursor=str(end) if end < len(notebooks) else None,
        )

    async def templates(
        self, _context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List the templates."""
        one_page(params)
        described = {
            NOTEBOOK_TEMPLATE: ("notebook", "A notebook: its cells with their outputs, as text"),
            CELL_TEMPLATE: ("cell", "A cell, by id or index: its whole source and its outputs"),
            OUTPUT_TEMPLATE: (
                "output",
                "One output of a cell, by its index from 0: text or an image",
            ),
            ARTIFACT_TEMPLATE: ("artifact", "The whole of an output that was too long to show"),
        }
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=template, name=name, description=description)
                for template, (name, description) in described.items()
            ]
        )

    async def read(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read one resource."""
        place = parse(params.uri)
        if place is None:
            raise no_resource(context, params.uri)
        return types.ReadResourceResult(contents=await self.contents(context, place))

    def place(self, context: Context, notebook: str | None, cell: str | None) -> NotebookUri:
        """Return the URI of a notebook that a caller names, or of the current one, or of its cell."""
        try:
            path = self._workspace.path(self._caller_of(context), notebook, tool="this prompt")
        except ToolError as error:
            raise protocol_error(context, error) from None
        return NotebookUri(path, cell)

    async def contents(self, context: Context, place: Place) -> Contents:
        """Return the contents of a URI.

        Raises:
            MCPError: it does not exist or is too large, or reading is not allowed.
        """
        try:
            contents = await self._contents(context, place)
            _check_size(sum(map(_size, contents)))
        except ToolError as error:
            raise protocol_error(context, error) from None
        return contents

    async def _notebooks(self, context: Context) -> Sequence[str]:
        """Return the paths of the notebooks below the root, the caller's managed ones first."""
        found = {
            each.path: None for each in self._workspace.notebooks.list(self._caller_of(context))
        }
        try:
            async for entry in Walk(self._workspace.files, "", recursive=True):
                if entry.kind == "notebook":
                    found[entry.path] = None
                if len(found) >= MAX_NOTEBOOKS:
                    break
        except ToolError as error:
            raise protocol_error(context, error) from None
        return list(found)

    async def _contents(self, context: Context, place: Place) -> Contents:
        match place:
            case ArtifactUri(artifact_id):
                data, mime = await self._workspace.artifacts.data(
                    self._caller_of(context).user, artifact_id, max_bytes=MAX_SIZE
                )
                return [_contents(place.uri, mime, data)]
            case NotebookUri(path, None):
                text = await self._call(context, "read_notebook", notebook=path, view="reading")
            case NotebookUri(path, str(cell), None):
                text = await self._call(context, "read_cell", notebook=path, cell=cell)
            case NotebookUri(path, cell, output):
                return await self._output(context, place, path, cell or "", output or 0)
        return [_contents(place.uri, "text/plain", text)]

    async def _call(self, context: Context, tool: str, **arguments: Any) -> str:
        result = await self._registry().call(
            tool, arguments, ToolContext(self._workspace, self._caller_of(context))
        )
        return result.full_text()

    async def _output(
        self, context: Context, place: NotebookUri, path: str, cell: str, index: int
    ) -> Contents:
        document = await self._workspace.open(self._caller_of(context), path)
        found, _ = (await document.read()).find(cell)
        outputs = await document.outputs(found.key)
        if index >= len(outputs):
            raise CellNotFound(
                f"Cell @{found.key} has {len(outputs)} outputs.", hint="They are numbered from 0."
            )
        try:
            _check_size(json_size(outputs[index]))  # before it is converted
            return _output_contents(place.uri, outputs[index])
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
            return [_contents(uri, "text/plain", sanitise(stream_text(output)))]
        case "error":
            return [_contents(uri, "text/plain", sanitise(error_text(output)))]
        case _:
            data: Json = output.get("data") or {}
            return [_contents(uri, mime, _decoded(mime, value)) for mime, value in data.items()]


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


def _contents(
    uri: str, mime: str, data: str | bytes
) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(data, bytes) and mime.startswith("text/"):
        data = data.decode("utf-8", "replace")
    if isinstance(data, bytes):
        return types.BlobResourceContents(
            uri=uri, mime_type=mime, blob=base64.b64encode(data).decode("ascii")
        )
    return types.TextResourceContents(uri=uri, mime_type=mime, text=data)


def one_page(params: types.PaginatedRequestParams | None) -> None:
    """Refuse cursors for lists with a single page.

    Raises:
        MCPError.
    """
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "Unknown cursor.")


def _offset(params: types.PaginatedRequestParams | None) -> int:
    cursor = params.cursor if params is not None else None
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise MCPError(types.INVALID_PARAMS, "Unknown cursor.")
    return int(cursor)


def protocol_error(context: Context, error: ToolError) -> MCPError:
    """Return an error as a JSON-RPC error, for methods without error results; with the same fields."""
    if error.status == 404:
        return _not_found(context, error.message, error.as_dict())
    known = error.status < 500 or isinstance(error, InvalidArguments)
    code = types.INVALID_PARAMS if known else types.INTERNAL_ERROR
    return MCPError(code, error.message, {"error": error.as_dict()})


def no_resource(context: Context, uri: str) -> MCPError:
    """Return the error for an unknown URI."""
    return _not_found(context, f"Unknown resource `{uri}`.", None)


def _not_found(context: Context, message: str, error: Json | None) -> MCPError:
    code = types.INVALID_PARAMS if is_modern(context) else RESOURCE_NOT_FOUND
    return MCPError(code, message, None if error is None else {"error": error})
