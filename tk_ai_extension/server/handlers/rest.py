"""The tools for programs: ``health``, ``tools``, ``executions``, ``artifacts``, ``openapi.json``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from tornado.iostream import StreamClosedError

from tk_ai_extension import __version__
from tk_ai_extension.model.errors import SaveFailed, ToolError
from tk_ai_extension.server.handlers.base import Action, TkAIHandler, allowed
from tk_ai_extension.server.handlers.operations import TOOLSETS, last_event_id, operation
from tk_ai_extension.server.handlers.streaming import StreamingHandler

if TYPE_CHECKING:
    from tk_ai_extension.server.following import Position
    from tk_ai_extension.server.models import ErrorInfo, Health, ToolList
    from tk_ai_extension.workspace.runs import Run
    from tk_ai_extension.workspace.workspace import Workspace

FEATURES = ("call_mode",)
"""What another program may rely on here: ``call_mode``, an MCP call names a mode (`mcp.MODE`)."""

ACTIONS: Mapping[str, Action] = {"READ": "read", "WRITE": "write", "EXECUTE": "execute"}
"""What a user has to be allowed for a tool of each effect."""
PIECE = 1 << 20
"""Bytes of an artifact that are sent at once."""

HEALTH = 5.0
"""Seconds after which a part that does not answer is reported by ``health``."""


_EVENT_ID = last_event_id(
    "Goes on after the event with this id", "^([0-9]+(-[0-9]+-[0-9]+-[0-9]+)?)?$"
)


class HealthHandler(TkAIHandler):
    """Whether the extension is up, and what it works with."""

    @operation("read", "health")
    async def get(self) -> Health:
        """Return the version, the backends, and what is configured for the chat.

        ``status`` is ``degraded`` where something that the tools need does not work; ``problems``
        are the errors that a call would get.
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
            "missing_parts": dict(services.missing_parts),
            "chat": await models.health(),
        }


async def _problems(workspace: Workspace) -> list[ToolError]:
    """What does not work just now."""
    try:
        async with asyncio.timeout(HEALTH):
            await workspace.journal.check()
    except ToolError as error:
        return [error]
    except TimeoutError:
        return [SaveFailed(f"The journal did not answer in {HEALTH:.0f} s.")]
    return []


class ToolsHandler(TkAIHandler):
    """The tools that there are."""

    @operation("read", "list_tools", TOOLSETS)
    async def get(self) -> ToolList:
        """List the tools and their schemas."""
        registry = await self.services.tools(self.get_query_argument("toolsets", None))
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

    _gone: asyncio.Event | None = None

    @allowed("read")
    async def post(self, name: str) -> None:
        """Calls it with the body as its arguments; its effect is what the user has to be allowed.

        Answers with the structured reading, or with the compact text where only that is accepted.
        Where the client goes away first, the call goes on.
        """
        arguments = self.json_body()
        caller = self.caller
        registry = await self.services.tools(self.get_query_argument("toolsets", None))
        # Imported with the tools, in their thread.
        from tk_ai_extension.tools.context import ToolContext

        tool = registry.get(name)
        if tool.effect != "READ":
            # Refused before its arguments are looked at; with these it may need more.
            await self.authorize(ACTIONS[tool.effect])
        await self.authorize(ACTIONS[tool.effect_for(registry.validate(tool, arguments))])
        context = ToolContext(self.services.workspace, caller)
        self._gone = context.gone
        self.services.calls += 1
        try:
            result = await registry.call(name, arguments, context)
        finally:
            self.services.calls -= 1
        if context.gone.is_set():
            return
        if self._wants_text():
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish(result.full_text(), set_content_type="text/plain; charset=utf-8")
        else:
            self.write_json(result.structured())

    def on_connection_close(self) -> None:
        """The client is gone."""
        super().on_connection_close()
        if self._gone is not None:
            self._gone.set()

    def _wants_text(self) -> bool:
        accepted = self.request.headers.get("Accept", "")
        return "text/plain" in accepted and "json" not in accepted


class ExecutionHandler(StreamingHandler):
    """One execution, as it goes on."""

    @operation("read", "follow_execution", _EVENT_ID, streams="ExecutionEvent")
    async def get(self, execution_id: str) -> None:
        """Stream the events of an execution, from the first or from after ``Last-Event-ID``."""
        await self.services.ready()
        from tk_ai_extension.server.following import Position

        run = self.services.workspace.executions.get(self.caller, execution_id)
        position = Position.parse(self.request.headers.get("Last-Event-ID") or "0", run)
        await self.stream(_frames(run, position))


async def _frames(run: Run, position: Position) -> AsyncIterator[str]:
    """A run's events after a position, as a stream sends them."""
    async for event in run.events_after(position.event):
        for kind, data in position.follow(run, event):
            yield f"id: {position}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"


class ArtifactHandler(TkAIHandler):
    """An output that was too long to show."""

    @operation("read", "get_artifact", media=("*/*",))
    async def get(self, artifact_id: str) -> None:
        """Return an output that was too long to show, whole and with its own content type.

        It is a download: whatever a cell wrote must not run in a page.
        """
        await self.services.ready()
        data, mime = await self.services.workspace.artifacts.data(self.caller.user, artifact_id)
        self.set_header("Content-Type", mime)
        self.set_header("Content-Length", str(len(data)))
        self.set_attachment_header(artifact_id)
        try:
            for start in range(0, len(data), PIECE):
                self.send(data[start : start + PIECE])
                await self.flush()
        except StreamClosedError:
            return
        self.finish(set_content_type=mime)


class OpenAPIHandler(TkAIHandler):
    """The description of these routes."""

    @operation("read", "openapi")
    async def get(self) -> dict[str, Any]:
        """Return this description."""
        tools = await self.services.tools()
        await self.services.models()
        from tk_ai_extension.server.openapi import describe

        return dict(describe(tools, self.base_url))
