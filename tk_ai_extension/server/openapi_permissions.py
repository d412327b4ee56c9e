"""The part of the OpenAPI description that tells of requests for permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ANSWERS = {"enum": ["once", "chat", "notebook", "deny"]}
_OUTCOMES = {
    "enum": ["once", "chat", "notebook", "deny", "expired", "withdrawn"],
    "description": "Its user's answer, whatever it came by; or it waited for too long; or who asked is gone",
}


def _all_of(**properties: dict[str, Any]) -> dict[str, Any]:
    """An object that has just these fields."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


_REQUEST = _all_of(
    id={"type": "string"},
    author={"type": "string", "description": "Who wants to act"},
    caller={
        "type": ["string", "null"],
        "description": "The key of a caller that gives no name of its own",
    },
    face={"type": "string", "description": "The way in by which the call came"},
    tool={"type": "string"},
    effect={"enum": ["READ", "WRITE", "EXECUTE"]},
    notebook={"type": ["string", "null"]},
    preview={"type": "string", "description": "What will happen: the diff or the code"},
    answers={"type": "array", "items": _ANSWERS},
    created={"type": "number", "description": "Seconds since the epoch"},
    within_call={
        "type": "boolean",
        "description": "Whether somebody is asked within the call: in its chat, or by its client",
    },
)
_REQUESTS = {"type": "array", "items": _REQUEST, "description": "The oldest first"}
_EVENT = {
    "oneOf": [
        _all_of(kind={"const": "waiting"}, permissions=_REQUESTS),
        _all_of(kind={"const": "asked"}, permission=_REQUEST),
        _all_of(kind={"const": "settled"}, id={"type": "string"}, outcome=_OUTCOMES),
    ]
}
_ANSWER = _all_of(answer=_ANSWERS)
_ANSWERED = _all_of(id={"type": "string"}, answer=_ANSWERS)
_ID = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "A request's id",
    "schema": {"type": "string"},
}


def permissions_paths(prefix: str, operation: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The paths of the routes that tell of requests for permission and answer them.

    Args:
        prefix: Of all routes.
        operation: Makes an operation.
    """
    waiting = operation(
        "list_permissions", "The requests for permission that wait", _all_of(permissions=_REQUESTS)
    )
    waiting["responses"]["200"]["content"]["text/event-stream"] = {
        "schema": {
            "type": "string",
            "description": "First `waiting`, the list; from then on each that is `asked` or `settled`",
            # Of the data of each event.
            "contentMediaType": "application/json",
            "contentSchema": _EVENT,
        }
    }
    answer = operation(
        "answer_permission", "A person's answer to a request for permission", _ANSWERED, [_ID]
    )
    answer["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": _ANSWER}},
    }
    return {
        f"{prefix}/permissions": {"get": waiting},
        f"{prefix}/permissions/{{id}}": {"post": answer},
    }
