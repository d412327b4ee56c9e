"""The part of the OpenAPI description that tells of requests for permission."""

from __future__ import annotations

from typing import Any

from tk_ai_extension.server.openapi.schemas import (
    FLAG,
    MAYBE,
    NUMBER,
    TEXT,
    also_as_events,
    in_path,
    list_of,
    object_of,
    operation,
    told,
)

_ANSWERS = {"enum": ["once", "chat", "notebook", "deny"]}
_OUTCOMES = {
    "enum": ["once", "chat", "notebook", "deny", "expired", "withdrawn"],
    "description": "Its user's answer, whatever it came by; or it waited for too long; or who asked is gone",
}

_REQUEST = object_of(
    id=TEXT,
    author=told(TEXT, "Who wants to act"),
    caller=told(MAYBE, "The key of a caller that gives no name of its own"),
    face=told(TEXT, "The way in by which the call came"),
    tool=TEXT,
    effect={"enum": ["READ", "WRITE", "EXECUTE"]},
    notebook=MAYBE,
    preview=told(TEXT, "What will happen: the diff or the code"),
    answers=list_of(_ANSWERS),
    created=told(NUMBER, "Seconds since the epoch"),
    within_call=told(
        FLAG, "Whether somebody is asked within the call: in its chat, or by its client"
    ),
)
_REQUESTS = told(list_of(_REQUEST), "The oldest first")
_EVENT = {
    "oneOf": [
        object_of(kind={"const": "waiting"}, permissions=_REQUESTS),
        object_of(kind={"const": "asked"}, permission=_REQUEST),
        object_of(kind={"const": "settled"}, id=TEXT, outcome=_OUTCOMES),
    ]
}
_EVENTS = {
    **told(TEXT, "First `waiting`, the list; from then on each that is `asked` or `settled`"),
    # Of the data of each event.
    "contentMediaType": "application/json",
    "contentSchema": _EVENT,
}


def permissions_paths(prefix: str) -> dict[str, Any]:
    """The paths of the routes that tell of requests for permission and answer them.

    Args:
        prefix: Of all routes.
    """
    what = "The requests for permission that wait"
    waiting = operation("list_permissions", what, object_of(permissions=_REQUESTS))
    answer = operation(
        "answer_permission",
        "A person's answer to a request for permission",
        object_of(id=TEXT, answer=_ANSWERS),
        [in_path("A request's id")],
        object_of(answer=_ANSWERS),
    )
    return {
        f"{prefix}/permissions": {"get": also_as_events(waiting, _EVENTS)},
        f"{prefix}/permissions/{{id}}": {"post": answer},
    }
