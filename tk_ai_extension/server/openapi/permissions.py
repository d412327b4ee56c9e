"""The part of the OpenAPI description that tells of requests for permission."""

from __future__ import annotations

from typing import Any, get_args

from tk_ai_extension.model.proposals import StepKind
from tk_ai_extension.server.openapi.schemas import (
    FLAG,
    MAYBE,
    NUMBER,
    TEXT,
    WHOLE,
    also_as_events,
    in_path,
    list_of,
    maybe,
    object_of,
    operation,
    told,
)
from tk_ai_extension.workspace.permissions import MAX_MESSAGE

_ANSWERS = {"enum": ["once", "chat", "notebook", "deny"]}
_OUTCOMES = {
    "enum": ["once", "chat", "notebook", "deny", "expired", "withdrawn"],
    "description": "Its user's answer, whatever it came by; or it waited for too long; or who asked is gone",
}

_LINE = object_of(
    mark=told({"enum": [" ", "+", "-", "@"]}, "Stays, added, removed; `@` between parts of a diff"),
    text=told(TEXT, "Verbatim"),
)
_CELL = object_of(
    id=TEXT,
    index=told(WHOLE, "From 0"),
    type={"enum": ["code", "markdown", "raw"]},
    address=TEXT,
)
_STEP = object_of(
    kind={"enum": list(get_args(StepKind))},
    title=told(TEXT, "A sentence for a person, in one line"),
    cell=maybe(_CELL),
    to=told(maybe(WHOLE), "Where a cell is inserted or moved to, from 0"),
    runs=told(FLAG, "Whether the lines marked with a space or `+` are run; then all are there"),
    lines=list_of(_LINE),
)
PROPOSAL = object_of(
    notebook=told(MAYBE, "The notebook that the approval is bound to"),
    kernel=told(
        maybe(object_of(id=told(MAYBE, "None where one is started"), name=MAYBE)),
        "The kernel that the approval is bound to; null where nothing runs",
    ),
    title=TEXT,
    steps=list_of(_STEP),
    omitted=told(WHOLE, "Characters that were left out"),
)
"""What a call would do, as a person is shown it."""

_REQUEST = object_of(
    id=TEXT,
    author=told(TEXT, "Who wants to act"),
    caller=told(MAYBE, "The key of a caller that gives no name of its own"),
    face=told(TEXT, "The way in by which the call came"),
    tool=TEXT,
    effect={"enum": ["READ", "WRITE", "EXECUTE"]},
    notebook=MAYBE,
    proposal=told(PROPOSAL, "What will happen: the diff or the code"),
    preview=told(TEXT, "The proposal as plain text"),
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
        object_of(
            "answer",
            answer=_ANSWERS,
            message={**told(TEXT, "With `deny`: read by the caller"), "maxLength": MAX_MESSAGE},
        ),
    )
    return {
        f"{prefix}/permissions": {"get": also_as_events(waiting, _EVENTS)},
        f"{prefix}/permissions/{{id}}": {"post": answer},
    }
