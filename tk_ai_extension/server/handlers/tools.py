"""The handlers of the tools: ``health``, ``tools``, ``save``, ``artifacts``, ``openapi.json``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from tornado.iostream import StreamClosedError

from tk_ai_extension._version import __version__
from tk_ai_extension.model.errors import SaveFailed, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.server.handlers.base_handler import Action, TkAIHandler, allowed
from tk_ai_extension.server.handlers.openapi_operations import TOOLSETS, operation
from tk_ai_extension.server.handlers.streaming import StreamingHandler

if TYPE_CHECKING:
    from tk_ai_extension.server.rest_models import (
        ErrorInfo,
        Health,
        SavedNotebook,
        SaveRequest,
        ToolList,
    )
    from tk_ai_extension.workspace.workspace import Workspace

FEATURES = ("call_mode",)
"""Features that other programs may use: ``call_mode``, MCP calls with a mode (`mcp.MODE`)."""

ACTIONS: Mapping[str, Action] = {"READ": "read", "WRITE": "write", "EXECUTE": "execute"}
"""Required action for a tool, by its effect."""
PIECE = 1 << 16
"""Chunk size of an artifact, in bytes."""

HEALTH = 5.0
"""Timeout of the checks of ``health``, in seconds."""


class HealthHandler(TkAIHandler):
    """Status of the extension."""

    @operation("read", "health")
    async def get(self) -> Health:
        """Return the version, the backends, and what is configured for the chat.

        ``status`` is ``degraded`` if a service that the tools need does not work; ``problems``
        lists the errors that a call would return.
        """
        services = self.services
        models = await services.chat_models()
        problems = [error.as_dict() for error in await _problems(services.workspace)]
        return {
            "status": "degraded" if problems else "ok",
            "problems": cast("list[ErrorInfo]", problems),
            "version": __version__,
            "features": list(FEATURES),
            "toolsets": list(services.settings.toolsets),
            "backends": dict(services.backends),
            "chat": await models.health(),
        }


async def _problems(workspace: Workspace) -> list[ToolError]:
    """Return what currently does not work."""
    try:
        async with asyncio.timeout(HEALTH):
            await workspace.journal.open()
    except ToolError as error:
        return [error]
    except TimeoutError:
        return [SaveFailed(f"The journal did not answer within {HEALTH:.0f} s.")]
    return []


class ToolsHandler(TkAIHandler):
    """The available tools."""

    @operation("read", "list_tools", TOOLSETS)
    async def get(self) -> ToolList | None:
        """List the tools and their schemas."""
        registry = await self.services.tools(self.get_query_argument("toolsets", None))
        if self.get_query_argument("for", None) == "commands":
            self.write_json({"tools": [tool.for_commands() for tool in registry]})
            return None
        return {
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "effect": tool.effect,
                    "destructive": tool.destructive,
                    "idempotent": tool.idempotent,
                    "input_schema": tool.input_schema,
                    "output_schema": tool.output_schema,
                }
                for tool in registry
            ]
        }


class ToolHandler(TkAIHandler):
    """One tool."""

    @allowed("read")
    async def post(self, name: str) -> None:
        """Call the tool with the body as its arguments; its effect decides the required action.

        Returns the structured result, or the compact text if only that is accepted. The call continues
        after a disconnect.
        """
        arguments = self.json_body()
        caller = self.caller
        registry = await self.services.tools(self.get_query_argument("toolsets", None))
        # Imported with the tools, in their thread.
        from tk_ai_extension.tools.registry import ToolContext

        tool = registry.get(name)
        if tool.effect != "READ":
            # Before the arguments are parsed; they may require a further action.
            await self.authorize(ACTIONS[tool.effect])
        await self.authorize(ACTIONS[tool.effect_for(registry.validate(tool, arguments))])
        context = ToolContext(self.services.workspace, caller, gone=self.gone)
        self.services.calls += 1
        try:
            result = await registry.call(name, arguments, context)
        finally:
            self.services.calls -= 1
        if self.gone.is_set():
            return
        if self.get_query_argument("with_text", None):
            text, is_error = result.full_text(), result.is_error
            self.write_json({"text": text, "is_error": is_error, "result": result.structured()})
        elif self._wants_text():
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(result.full_text(), set_content_type="text/plain; charset=utf-8")
        else:
            self.write_json(result.structured())

    def _wants_text(self) -> bool:
        accepted = self.request.headers.get("Accept", "")
        return "text/plain" in accepted and "json" not in accepted


class SaveHandler(TkAIHandler):
    """Save of a notebook."""

    @operation("write", "save_notebook")
    async def post(self, body: SaveRequest) -> SavedNotebook:
        """Save the changes in an open tab, and outputs that are not written yet; return when all is saved."""
        await self.services.ready()
        workspace = self.services.workspace
        path = workspace.path(self.caller, body.notebook)
        document = await workspace.store.open(path)
        await document.flush()
        return {"notebook": path, "revision": (await document.read()).revision}


class ArtifactHandler(StreamingHandler):
    """An output that was too long to show."""

    @operation("read", "get_artifact", media=("*/*",))
    async def get(self, artifact_id: str) -> None:
        """Return the whole of an output that was too long to show, with its content type.

        It is sent as a download: content of a cell must not run in a page.
        """
        await self.services.ready()
        data, mime = await self.services.workspace.artifacts.data(self.caller.user, artifact_id)
        self.set_header("Content-Type", mime)
        self.set_header("Content-Length", str(len(data)))
        self.set_attachment_header(artifact_id)
        try:
            for start in range(0, len(data), PIECE):
                self.send(data[start : start + PIECE])
                await self.send_out()
        except StreamClosedError:
            return
        self.finish(set_content_type=mime)


class OpenAPIHandler(TkAIHandler):
    """The description of these routes."""

    @operation("read", "openapi")
    async def get(self) -> Json:
        """Return this description."""
        tools = await self.services.tools()
        await self.services.models()
        return dict(self.services.describe(tools, self.base_url))
