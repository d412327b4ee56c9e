"""Errors of agents as errors of chats."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from tk_ai_extension.model.agent_errors import ModelBusy, ModelFailed, ModelUnauthorized
from tk_ai_extension.model.errors import ToolError

AUTHENTICATION_REQUIRED = -32000
NOT_FOUND = -32002
"""Codes of the protocol."""

_STATUS = re.compile(r"\b(401|403|429|500|502|503|504|529)\b")


def failure(error: BaseException | None, title: str, redact: Callable[[str], str]) -> ToolError:
    """Return why a turn failed.

    Args:
        error: What the request raised; None if the agent refused to answer.
        title: The agent's display name.
        redact: Removes secrets from a text: an API may repeat the key that it refuses.
    """
    if error is None:
        return ModelFailed(f"{title} refused to answer.", hint="Change the message.")
    said = redact(words(error))[:500].rstrip(".")
    if getattr(error, "code", None) == AUTHENTICATION_REQUIRED:
        return ModelUnauthorized(f"{title} is not logged in: {said}.", hint=_LOGIN)
    status = _STATUS.search(said)
    if status is not None and status[1] in ("401", "403"):
        return ModelUnauthorized(f"The provider of {title} refused the key: {said}.", hint=_LOGIN)
    if status is not None and status[1] in ("429", "503", "529"):
        return ModelBusy(f"The provider of {title} is busy: {said}.")
    return ModelFailed(f"{title} failed: {said}.")


_LOGIN = "Log in with the agent's own program in a terminal, or set its key for the server."


def words(error: BaseException) -> str:
    """Return an error's message with the details that agents put beside it."""
    data: Any = getattr(error, "data", None)
    if isinstance(data, Mapping):
        given = cast("Mapping[str, Any]", data)
        detail: Any = given.get("details") or given.get("message") or given.get("error")
        data = detail if isinstance(detail, str) else json.dumps(dict(given))
    return f"{error}: {data}" if data and str(data) not in str(error) else str(error)
