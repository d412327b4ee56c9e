"""The OpenAPI description of the chat's routes."""

from __future__ import annotations

from typing import Any

from tk_ai_extension.agent.requests import ChatRequest, PlanAnswer
from tk_ai_extension.server.openapi.schemas import (
    FLAG,
    MAYBE,
    NAMES,
    NUMBER,
    SOME,
    TEXT,
    UNDONE,
    WHOLE,
    Operation,
    also_as_events,
    event_of,
    in_path,
    instead,
    last_event_id,
    list_of,
    object_of,
    operation,
    told,
)
from tk_ai_extension.tools.schemas import compact_schema

_CHAT = object_of(
    id=TEXT,
    title=TEXT,
    notebook=MAYBE,
    created=told(NUMBER, "Seconds since the epoch"),
    updated=NUMBER,
    busy=told(FLAG, "Whether a turn goes on or waits"),
)
_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "number", "turn", "time", "kind"],
    "properties": {
        "id": {
            "type": ["integer", "string"],
            "description": "The number; of `permission` and `permission_settled` the request's id",
        },
        "number": told(WHOLE, "Rises within the chat: what Last-Event-ID takes"),
        "turn": TEXT,
        "time": NUMBER,
        "kind": TEXT,
    },
}
_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": [
        *("chat", "turn", "end", "text", "calls", "changes", "plan", "usage", "last_event")
    ],
    "properties": {
        "chat": told(TEXT, "Send it with the next message"),
        "turn": told(TEXT, "What is undone as one"),
        "end": {"enum": ["done", "stopped", "failed"]},
        "text": told(TEXT, "Claude's last words"),
        "calls": list_of(object_of(tool=TEXT, ok=FLAG, text=TEXT)),
        "changes": told(list_of(SOME), "Each cell that was changed, with its diff"),
        "plan": told(FLAG, "Whether the text is a plan that waits for an answer"),
        "usage": {"type": ["object", "null"], "description": "Tokens, cost in dollars, seconds"},
        "last_event": WHOLE,
    },
    "additionalProperties": False,
}
_UNDO = object_of("turn", turn=TEXT, cells=NAMES, onwards=FLAG)
_STANDING = object_of(
    changes=list_of(
        object_of(
            entry=told(WHOLE, "As the event `cell_change` names it"),
            turn=MAYBE,
            notebook=told(TEXT, "Its path now"),
            time=NUMBER,
            cells=told(NAMES, "The cells of which the change stands"),
        )
    ),
    since=told(NUMBER, "Earlier changes may stand without being listed"),
)
_UNDONE = object_of(notebooks=list_of(UNDONE))
MODELS = object_of(
    provider=TEXT,
    label=TEXT,
    ready=FLAG,
    model=TEXT,
    models=NAMES,
    address=MAYBE,
    configured=told(NAMES, "Names of the variables that were found"),
    missing=told(NAMES, "Names of those that have to be set"),
    source=told(MAYBE, "Who gave the credentials: settings, environment, user or project"),
    untrusted=told(MAYBE, "A folder whose file of keys is not used before it is trusted"),
    ignored=NAMES,
    hint=TEXT,
)
"""What answers in chats: which provider, what is configured for it, what is missing."""
_EVENTS = (
    "Server-sent events: message, began, text, thinking, discarded, tool_call, tool_progress, "
    "permission, permission_settled, plan, plan_settled, cell_change, tool_result, retry, notice, "
    "usage, error, done"
)
_ID = in_path("A chat's id")
_LAST_EVENT = last_event_id("Goes on after the event with this number", "^[0-9]{0,15}$")
_NEXT: dict[str, Any] = told(
    {"type": ["integer", "null"]}, "Where it goes on: the `after` of the next request"
)
_AFTER = {
    "name": "after",
    "in": "query",
    "description": "Goes on after the event with this number",
    "schema": {"type": "integer", "minimum": 0, "default": 0},
}
_FORMAT = {
    "name": "format",
    "in": "query",
    "schema": {"enum": ["markdown", "notebook"], "default": "markdown"},
}


def chat_paths(prefix: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """The paths of the chat's routes.

    Args:
        prefix: Of all routes.
        schemas: Takes the definitions that the paths refer to.
    """
    reference = "#/components/schemas/chat.{model}"
    model = ChatRequest.model_json_schema(ref_template=reference)
    for name, definition in model.pop("$defs", {}).items():
        schemas[f"chat.{name}"] = compact_schema(definition)
    says = "Sends a message to Claude"
    message = operation("send_message", says, _ANSWER, takes=compact_schema(model))
    answers = compact_schema(PlanAnswer.model_json_schema())
    plan = _of_chat("answer_plan", "Has a plan carried out, or made anew", _ANSWER, answers)
    events = operation(
        "follow_chat", "What happens in a chat, as it happens", {}, [_ID, _LAST_EVENT]
    )
    # A plan is not rejected without a word.
    answers["if"] = {"properties": {"answer": {"const": "reject"}}, "required": ["answer"]}
    answers["then"] = {"properties": {"words": {"pattern": r"\S"}}, "required": ["words"]}
    export = operation("export_chat", "A chat as a document", {}, [_ID, _FORMAT])
    exported = instead(export, "A download", "text/markdown")
    exported["responses"]["200"]["content"]["application/json"] = {
        "schema": {**SOME, "description": "A notebook"}
    }
    turn: dict[str, Any] = {
        "type": "object",
        "properties": {"turn": MAYBE},
        "additionalProperties": False,
    }
    stop = _of_chat("stop_chat", "Stops Claude", object_of(stopped=FLAG), turn)
    stop["requestBody"]["required"] = False
    read = object_of(chat=_CHAT, events=list_of(_EVENT), next=_NEXT)
    chat = f"{prefix}/chats/{{id}}"
    return {
        f"{prefix}/mcp/chat": {"post": also_as_events(message)},
        f"{prefix}/chats": {
            "get": operation("list_chats", "Your chats", object_of(chats=list_of(_CHAT)))
        },
        chat: {
            "get": operation("read_chat", "What happened in a chat", read, [_ID, _AFTER]),
            "patch": _of_chat(
                "rename_chat", "Gives a chat another title", _CHAT, object_of(title=TEXT)
            ),
            "delete": _of_chat("delete_chat", "Removes a chat", object_of(deleted=TEXT)),
        },
        f"{chat}/events": {"get": instead(events, _EVENTS, "text/event-stream", of=event_of(TEXT))},
        f"{chat}/changes": {
            "get": _of_chat("list_chat_changes", "What it changed and stands", _STANDING)
        },
        f"{chat}/stop": {"post": stop},
        f"{chat}/plan": {"post": also_as_events(plan)},
        f"{chat}/undo": {
            "post": _of_chat("undo_turn", "Takes back what a turn changed", _UNDONE, _UNDO)
        },
        f"{chat}/export": {"get": exported},
        f"{prefix}/models": {
            "get": operation("list_models", "What answers, and what is missing", MODELS)
        },
        f"{prefix}/trust": {
            "post": operation(
                "trust_folder",
                "Uses the keys of the root folder's file",
                MODELS,
                takes=object_of(trusted={"const": True}),
            ),
            "delete": operation("distrust_folder", "Uses them no more", MODELS),
        },
    }


def _of_chat(
    name: str, summary: str, answer: dict[str, Any], takes: dict[str, Any] | None = None
) -> Operation:
    return operation(name, summary, answer, [_ID], takes)
