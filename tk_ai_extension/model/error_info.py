"""Errors for interfaces that translate their sentences."""

from __future__ import annotations

from typing import Any

from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.sentences import SentenceInfo, sentence_info


def error_info(error: ToolError) -> dict[str, Any]:
    """Return an error as JSON, with the codes of its message and of its hint where they have one."""
    hint = sentence_info(error.hint)
    if hint is None and error.hint == error.default_hint:
        hint = SentenceInfo(hint_code(type(error)), {})
    message = sentence_info(error.message)
    return {
        **error.as_dict(),
        "sentence": message and message.as_dict(),
        "hint_sentence": hint and hint.as_dict(),
    }


def hint_code(error: type[ToolError]) -> str:
    """Return the code of the sentence that is the hint of a class of errors."""
    return f"hint_{error.code}"
