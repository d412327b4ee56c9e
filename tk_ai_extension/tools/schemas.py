"""JSON schemas in as few characters as say the same: a model pays for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def compact_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema without what tells a reader nothing: titles, null alternatives, null defaults."""
    return cast("dict[str, Any]", _compact(schema, property_names=False))


def _compact(node: Any, *, property_names: bool) -> Any:
    if isinstance(node, list):
        return [_compact(item, property_names=False) for item in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, Mapping):
        return node
    items = cast("Mapping[str, Any]", node)
    if property_names:
        return {name: _compact(value, property_names=False) for name, value in items.items()}
    compacted: dict[str, Any] = {}
    for key, value in items.items():
        if key == "title" or (key == "default" and value is None):
            continue
        if key == "anyOf":
            choices = [choice for choice in value if choice != {"type": "null"}]
            if len(choices) < len(value) and len(choices) == 1:
                compacted |= _compact(choices[0], property_names=False)
                continue
            if all(set(choice) == {"type"} for choice in choices):
                compacted["type"] = [choice["type"] for choice in choices]
                continue
        compacted[key] = _compact(value, property_names=key in ("properties", "$defs"))
    return compacted
