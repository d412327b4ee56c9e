"""The parts that descriptions of routes are put together from: schemas, parameters, operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]
Operation = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
MAYBE: Schema = {"type": ["string", "null"]}
SOME: Schema = {"type": "object"}


def object_of(required: str = "", /, **properties: Schema) -> Schema:
    """An object with these fields and no others; all of them are there unless it says which are."""
    return {
        "type": "object",
        "required": required.split() if required else list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def list_of(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def told(schema: Schema, description: str) -> Schema:
    """A schema with a sentence of what it means."""
    return {**schema, "description": description}


def maybe(schema: Schema) -> Schema:
    """A schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


NAMES = list_of(TEXT)
UNDONE = object_of(notebook=TEXT, cells=NAMES, left=NAMES)
"""What was taken back in a notebook, and the cells that others had changed since."""


def content(schema: Mapping[str, Any]) -> dict[str, Any]:
    """JSON of this schema."""
    return {"application/json": {"schema": schema}}


def body(schema: Schema) -> dict[str, Any]:
    """A request's body, which has to be there."""
    return {"required": True, "content": content(schema)}


def in_path(description: str, name: str = "id") -> dict[str, Any]:
    """A parameter that is part of the path."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": TEXT,
    }


def in_query(name: str, description: str) -> dict[str, Any]:
    """A parameter that the query has to have."""
    return {**in_path(description, name), "in": "query", "schema": {**TEXT, "minLength": 1}}


def last_event_id(description: str, pattern: str) -> dict[str, Any]:
    """The header by which a stream goes on where it was cut."""
    return {
        "name": "Last-Event-ID",
        "in": "header",
        "description": description,
        "schema": {**TEXT, "pattern": pattern},
    }


def operation(
    name: str,
    summary: str,
    answer: Mapping[str, Any],
    parameters: list[dict[str, Any]] | None = None,
    takes: Schema | None = None,
) -> Operation:
    """An operation that answers JSON, or an error.

    Args:
        name: Its id.
        summary: A sentence, which says of the answer what it is, too.
        answer: The schema of the answer.
        parameters: In the path, the query and the header.
        takes: The schema of the request's body.
    """
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters or [],
        **({"requestBody": body(takes)} if takes is not None else {}),
        "responses": {
            "200": {"description": summary, "content": content(answer)},
            "default": {"$ref": "#/components/responses/Error"},
        },
    }


def event_of(data: Schema) -> Schema:
    """One server-sent event, whose data is text of this schema."""
    return object_of("data", id=TEXT, event=TEXT, data=data)


def also_as_events(described: Operation, data: Schema = TEXT) -> Operation:
    """The same operation, for those who ask for a stream of events instead."""
    described["responses"]["200"]["content"]["text/event-stream"] = {"schema": event_of(data)}
    return described


def instead(described: Operation, description: str, *kinds: str, of: Schema = TEXT) -> Operation:
    """The same operation, which answers one of these content types and no JSON."""
    described["responses"]["200"] = {
        "description": description,
        "content": {kind: {"schema": of} for kind in kinds},
    }
    return described
