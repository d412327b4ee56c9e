"""Operations: methods of routes with the request and response models of `server.rest_models`."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.server.handlers.base_handler import Action, Method, TkAIHandler, allowed

Parameter = Json
"""A parameter in the query or a header, as OpenAPI describes it."""


@dataclass(frozen=True, slots=True)
class OpenAPIOperation:
    """OpenAPI description of a method, in addition to its signature and docstring.

    Attributes:
        id: The operation's id.
        parameters: Parameters that are not in the path.
        streams: Model of its server-sent events, for clients that accept them.
        media: Media types of responses that are not JSON.
    """

    id: str
    parameters: tuple[Parameter, ...] = ()
    streams: str | None = None
    media: tuple[str, ...] = ()


def operation(
    action: Action,
    operation_id: str,
    *parameters: Parameter,
    streams: str | None = None,
    media: tuple[str, ...] = (),
) -> Callable[[Callable[..., Awaitable[Any]]], Method]:
    """Make a method an operation for users who are authorized for an action.

    A parameter ``body`` of the method receives the request's body as the model of `server.rest_models` in
    its annotation. The return value is sent as JSON; None sends nothing.

    Args:
        action: The required action.
        operation_id: See `OpenAPIOperation`.
        *parameters: Parameters in the query or a header.
        streams: The model of server-sent events.
        media: Other media types than JSON.
    """

    def decorate(method: Callable[..., Awaitable[Any]]) -> Method:
        model = method.__annotations__.get("body")

        @functools.wraps(method)
        async def respond(self: TkAIHandler, *path: str) -> None:
            given: Json = {}
            if model is not None:
                body = self.json_body()
                models = await self.services.models()
                given["body"] = models.parsed(getattr(models, model), body, "Invalid body")
            answer = await method(self, *path, **given)
            if answer is not None:
                self.write_json(answer)

        described = OpenAPIOperation(operation_id, parameters, streams, media)
        vars(respond)["operation"] = described
        return allowed(action)(respond)

    return decorate


def query(name: str, description: str, *, required: bool = False, **schema: Any) -> Parameter:
    """Describe a query parameter; text by default."""
    schema.setdefault("type", "string")
    found: Parameter = {"name": name, "in": "query", "description": description, "schema": schema}
    return {**found, "required": True} if required else found


def last_event_id(description: str, pattern: str) -> Parameter:
    """Describe the header that resumes a stream."""
    schema = {"type": "string", "pattern": pattern}
    return {"name": "Last-Event-ID", "in": "header", "description": description, "schema": schema}


NOTEBOOK = query("notebook", "The notebook's path", required=True, minLength=1)
TOOLSETS = query(
    "toolsets",
    "Comma-separated toolsets; default: the server's",
    minLength=1,
)
CALLER = query(
    "caller",
    "Groups calls of one session; same as the header X-TK-Caller",
    maxLength=200,
)
