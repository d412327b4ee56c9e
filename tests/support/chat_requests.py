"""Requests to chats, as a client sends them."""

from __future__ import annotations

from typing import Any

from tk_ai_extension.agent.requests import ChatRequest, PlanAnswer
from tk_ai_extension.tools.registry import parsed


def parse_request(body: dict[str, Any]) -> ChatRequest:
    """Parse the body of a message."""
    return parsed(ChatRequest, body, "Invalid message")


def parse_plan_answer(body: dict[str, Any]) -> PlanAnswer:
    """Parse the body of an answer to a plan."""
    return parsed(PlanAnswer, body, "Invalid answer to a plan")
