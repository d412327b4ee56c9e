"""Operations: the methods of routes that take and answer what `server.models` says."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.server.handlers.handler import Action, Method, TkAIHandler, allowed

Parameter = dict[str, Any]
"""A parameter in the query or a header, as OpenAPI describes it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What is described of a method besides its signature and its docstring.

    Attributes:
        id: The operation's id.
        parameters: Those that are not in the path.
        streams: The model of the server-sent events that it answers with where a client accepts them.
        media: The media types that it answers with instead of JSON.
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
    """Make a method an operation that users may call who are authorized for this action.

    A parameter ``body`` of the method receives the request's body as the model of `server.models` that
    it is annotated with. What the method returns is answered as JSON; None is no answer.

    Args:
        action: What a user has to be allowed.
        operation_id: See `Operation`, as for the others.
        *parameters: Those in the query or a header.
        streams: The model of server-sent events.
        media: Other media types than JSON.
    """

    def decorate(method: Callable[..., Awaitable[Any]]) -> Method:
        model = method.__annotations__.get("body")

        @functools.wraps(method)
        async def respond(self: TkAIHandler, *path: str) -> None:
            given: dict[str, Any] = {}
            if model is not None:
                body = self.json_body()
                models = await self.services.models()
                given["body"] = models.parsed(getattr(models, model), body, "Invalid body")
            answer = await method(self, *path, **given)
            if answer is not None:
                self.write_json(answer)

        described = Operation(operation_id, parameters, streams, media)
        vars(respond)["operation"] = described
        return allowed(action)(respond)

    return decorate


def query(name: str, description: str, *, required: bool = False, **schema: Any) -> Parameter:
    """A parameter in the query; text unless its schema says more."""
    schema.setdefault("type", "string")
    found: Parameter = {"name": name, "in": "query", "description": description, "schema": schema}
    return {**found, "required": True} if required else found


def last_event_id(description: str, pattern: str) -> Parameter:
    """The header by which a stream is resumed."""
    schema = {"type": "string", "pattern": pattern}
    return {"name": "Last-Event-ID", "in": "header", "description": description, "schema": schema}


NOTEBOOK = query("notebook", "The notebook's path", required=True, minLength=1)
TOOLSETS = query(
    "toolsets",
    "Toolsets to choose from, with commas between; the server's usual ones if left out",
    minLength=1,
)
CALLER = query(
    "caller",
    "Names the session of calls that belong together; X-TK-Caller does the same",
    maxLength=200,
)
