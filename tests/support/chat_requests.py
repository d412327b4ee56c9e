"""Requests to chats, as a client sends them."""

from __future__ import annotations

from typing import Any

from tk_ai_extension.agent.chat_requests import ChatRequest
from tk_ai_extension.tools.registry import parsed


def parse_request(body: dict[str, Any]) -> ChatRequest:
    """Parse the body of a message."""
    return parsed(ChatRequest, body, "Invalid message")
