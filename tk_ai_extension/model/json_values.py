"""The type of JSON objects."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object; its values are JSON values."""
