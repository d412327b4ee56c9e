"""Compact JSON schemas, and validation of values by pydantic models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json

_Model = TypeVar("_Model", bound=BaseModel)

MAX_PROBLEMS = 10
"""Maximum invalid fields that an error names."""


def parsed(
    model: type[_Model], values: Mapping[str, Any], failure: str, *, fields: str = "fields"
) -> _Model:
    """Return the values as an instance of the model.

    Args:
        model: A pydantic model.
        values: The values to validate.
        failure: The beginning of the error message.
        fields: The name of the model's fields in the error message.

    Raises:
        InvalidArguments: Some fields are invalid; the message names each one and the reason.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [
            f"`{'.'.join(str(part) for part in item['loc']) or fields}`: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        ]
        known = ", ".join(f"`{name}`" for name in model.model_fields) or "none"
        raise InvalidArguments(
            f"{failure}: {'; '.join(problems[:MAX_PROBLEMS])}.", hint=f"The {fields} are: {known}."
        ) from None


def compact_schema(schema: Mapping[str, Any]) -> Json:
    """Return a JSON schema without titles, null alternatives and null defaults."""
    return cast("Json", _compact(schema, property_names=False))


def _compact(node: Any, *, property_names: bool) -> Any:
    if isinstance(node, list):
        return [_compact(item, property_names=False) for item in node]  # pyrefly: ignore[unknown-argument-type, unknown-variable-type]
    if not isinstance(node, Mapping):
        return node
    items = cast("Mapping[str, Any]", node)
    if property_names:
        return {name: _compact(value, property_names=False) for name, value in items.items()}
    compacted: Json = {}
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
