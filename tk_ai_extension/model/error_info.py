"""Errors for interfaces that translate their sentences."""

from __future__ import annotations

from typing import Any

from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.sentences import SentenceInfo, sentence_info


def error_info(error: ToolError) -> dict[str, Any]:
    """Return an error as JSON, with the codes of its message and of its hint where they have one."""
    found = {**error.as_dict(), **sentences_of(error.message, error.hint)}
    if found["hint_sentence"] is None and error.hint == error.default_hint:
        found["hint_sentence"] = SentenceInfo(hint_code(type(error)), {}).as_dict()
    return found


def sentences_of(message: str, hint: str) -> dict[str, Any]:
    """Return the codes of a message and of its hint as fields of an error, None where they have none."""
    sentence, hint_sentence = sentence_info(message), sentence_info(hint)
    return {
        "sentence": sentence and sentence.as_dict(),
        "hint_sentence": hint_sentence and hint_sentence.as_dict(),
    }


def hint_code(error: type[ToolError]) -> str:
    """Return the code of the sentence that is the hint of a class of errors."""
    return f"hint_{error.code}"
