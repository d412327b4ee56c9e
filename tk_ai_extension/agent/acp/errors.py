"""Errors of agents as errors of chats."""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from tk_ai_extension.model.agent_errors import ModelFailed, ModelUnauthorized
from tk_ai_extension.model.errors import ToolError

logger = logging.getLogger(__name__)

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
        return ModelFailed(
            f"The provider of {title} is busy: {said}.",
            hint="Wait a moment, then send the message again. Completed changes are kept.",
        )
    return ModelFailed(f"{title} failed: {said}.")


@contextmanager
def redacting(
    redact: Callable[[str], str], unforeseen: Callable[[str], ToolError]
) -> Generator[None]:
    """Let only errors without secrets out of a block: an agent's words may be in any of them.

    Args:
        redact: Removes secrets from a text.
        unforeseen: Returns the error for an exception of another kind, by its redacted words.
    """
    try:
        yield
    except ToolError as error:
        message, hint = redact(error.message), redact(error.hint)
        if (message, hint) != (error.message, error.hint):
            error.message, error.hint, error.args = message, hint, (message,)
        raise
    except Exception as error:  # noqa: BLE001 - what an agent's message can cause
        said = redact(words(error))[:500].rstrip(".")
        # Not chained, and logged with frames alone: the words of its causes are the agent's.
        where = "".join(traceback.format_tb(error.__traceback__))
        logger.warning("%s: %s\n%s", type(error).__name__, said, where)
        raise unforeseen(f"{type(error).__name__}: {said}") from None


_LOGIN = "Log in with the agent's own program in a terminal, or set its key for the server."


def words(error: BaseException) -> str:
    """Return an error's message with the details that agents put beside it."""
    data: Any = getattr(error, "data", None)
    if isinstance(data, Mapping):
        given = cast("Mapping[str, Any]", data)
        detail: Any = given.get("details") or given.get("message") or given.get("error")
        data = detail if isinstance(detail, str) else json.dumps(dict(given), ensure_ascii=False)
    return f"{error}: {data}" if data and str(data) not in str(error) else str(error)
