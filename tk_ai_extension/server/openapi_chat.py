"""The OpenAPI description of the chat's routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tk_ai_extension.agent.requests import ChatRequest, PlanAnswer
from tk_ai_extension.tools.schemas import compact_schema

Operation = Callable[[str, str, dict[str, Any]], dict[str, Any]]
"""Makes an operation of its id, a summary and the schema of its answer."""


def _object(required: str = "", /, **properties: Any) -> dict[str, Any]:
    """An object with these fields and no others; all of them are there unless it says which are."""
    names = required.split() if required else list(properties)
    return {
        "type": "object",
        "required": names,
        "properties": properties,
        "additionalProperties": False,
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}
_WHOLE = {"type": "integer"}
_FLAG = {"type": "boolean"}
_MAYBE = {"type": ["string", "null"]}
_SOME = {"type": "object"}
_NAMES = _list(_TEXT)

_CHAT = _object(
    id=_TEXT,
    title=_TEXT,
    notebook=_MAYBE,
    created={**_NUMBER, "description": "Seconds since the epoch"},
    updated=_NUMBER,
    busy={**_FLAG, "description": "Whether a turn goes on or waits"},
)
_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "number", "turn", "time", "kind"],
    "properties": {
        "id": {
            "type": ["integer", "string"],
            "description": "The number; of `permission` and `permission_settled` the request's id",
        },
        "number": {**_WHOLE, "description": "Rises within the chat: what Last-Event-ID takes"},
        "turn": _TEXT,
        "time": _NUMBER,
        "kind": _TEXT,
    },
}
_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": [
        *("chat", "turn", "end", "text", "calls", "changes", "plan", "usage", "last_event")
    ],
    "properties": {
        "chat": {**_TEXT, "description": "Send it with the next message"},
        "turn": {**_TEXT, "description": "What is undone as one"},
        "end": {"enum": ["done", "stopped", "failed"]},
        "text": {**_TEXT, "description": "Claude's last words"},
        "calls": _list(_object(tool=_TEXT, ok=_FLAG, text=_TEXT)),
        "changes": {**_list(_SOME), "description": "Each cell that was changed, with its diff"},
        "plan": {**_FLAG, "description": "Whether the text is a plan that waits for an answer"},
        "usage": {"type": ["object", "null"], "description": "Tokens, cost in dollars, seconds"},
        "last_event": _WHOLE,
    },
    "additionalProperties": False,
}
_UNDO = _object("turn", turn=_TEXT, cells=_NAMES, onwards=_FLAG)
_STANDING = _object(
    changes=_list(
        _object(
            entry={**_WHOLE, "description": "As the event `cell_change` names it"},
            turn=_MAYBE,
            notebook={**_TEXT, "description": "Its path now"},
            time=_NUMBER,
            cells={**_NAMES, "description": "The cells of which the change stands"},
        )
    ),
    since={**_NUMBER, "description": "Earlier changes may stand without being listed"},
)
_UNDONE = _object(notebooks=_list(_object(notebook=_TEXT, cells=_NAMES, left=_NAMES)))
MODELS = _object(
    provider=_TEXT,
    label=_TEXT,
    ready=_FLAG,
    model=_TEXT,
    models=_NAMES,
    address=_MAYBE,
    configured={**_NAMES, "description": "Names of the variables that were found"},
    missing={**_NAMES, "description": "Names of those that have to be set"},
    ignored=_NAMES,
    hint=_TEXT,
)
"""What answers in chats: which provider, what is configured for it, what is missing."""
_EVENTS = (
    "Server-sent events: message, began, text, thinking, discarded, tool_call, tool_progress, "
    "permission, permission_settled, plan, plan_settled, cell_change, tool_result, retry, notice, "
    "usage, error, done"
)
_LAST_EVENT = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "Goes on after the event with this number",
    "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"},
}


def chat_paths(prefix: str, operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    """The paths of the chat's routes.

    Args:
        prefix: Of all routes.
        operation: Makes an operation.
        schemas: Takes the definitions that the paths refer to.
    """
    reference = "#/components/schemas/chat.{model}"
    model = ChatRequest.model_json_schema(ref_template=reference)
    for name, definition in model.pop("$defs", {}).items():
        schemas[f"chat.{name}"] = compact_schema(definition)
    message = _turn(operation("send_message", "Sends a message to Claude", _ANSWER))
    message["requestBody"] = _body(compact_schema(model))
    plan = _turn(operation("answer_plan", "Has a plan carried out, or made anew", _ANSWER))
    plan["requestBody"] = _body(compact_schema(PlanAnswer.model_json_schema()))
    chat = f"{prefix}/chats/{{id}}"
    events = operation("follow_chat", "What happens in a chat, as it happens", {})
    events["parameters"] = [_id(), _LAST_EVENT]
    events["responses"]["200"] = _content(_EVENTS, "text/event-stream")
    rename = _of_chat(operation("rename_chat", "Gives a chat another title", _CHAT))
    rename["requestBody"] = _body(_object(title=_TEXT))
    stop = _of_chat(operation("stop_chat", "Stops Claude", _object(stopped=_FLAG)))
    stop["requestBody"] = _body(
        {"type": "object", "properties": {"turn": _TEXT}, "additionalProperties": False}
    )
    undo = _of_chat(operation("undo_turn", "Takes back what a turn changed", _UNDONE))
    undo["requestBody"] = _body(_UNDO)
    export = operation("export_chat", "A chat as a document", {})
    formats = {"enum": ["markdown", "notebook"], "default": "markdown"}
    export["parameters"] = [_id(), {"name": "format", "in": "query", "schema": formats}]
    export["responses"]["200"] = _content("A download", "text/markdown", "application/json")
    read = _object(chat=_CHAT, events=_list(_EVENT))
    return {
        f"{prefix}/mcp/chat": {"post": message},
        f"{prefix}/chats": {
            "get": operation("list_chats", "Your chats", _object(chats=_list(_CHAT)))
        },
        chat: {
            "get": _of_chat(operation("read_chat", "All that happened in a chat", read)),
            "patch": rename,
            "delete": _of_chat(operation("delete_chat", "Removes a chat", _object(deleted=_TEXT))),
        },
        f"{chat}/events": {"get": events},
        f"{chat}/changes": {
            "get": _of_chat(operation("list_chat_changes", "What it changed and stands", _STANDING))
        },
        f"{chat}/stop": {"post": stop},
        f"{chat}/plan": {"post": _of_chat(plan)},
        f"{chat}/undo": {"post": undo},
        f"{chat}/export": {"get": export},
        f"{prefix}/models": {
            "get": operation("list_models", "What answers, and what is missing", MODELS)
        },
    }


def _turn(operation: dict[str, Any]) -> dict[str, Any]:
    """What came of a turn, whole or as events."""
    operation["responses"]["200"]["content"]["text/event-stream"] = {"schema": _TEXT}
    return operation


def _of_chat(operation: dict[str, Any]) -> dict[str, Any]:
    operation["parameters"] = [_id()]
    return operation


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _content(description: str, *kinds: str) -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": _TEXT} for kind in kinds}}


def _id() -> dict[str, Any]:
    return {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "A chat's id",
        "schema": {"type": "string"},
    }
