"""Models of the routes of what chats are set up with; part of `server.models`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from tk_ai_extension.agent.prompts import PromptInfo


class ServerSwitch(BaseModel):
    """An MCP server that is switched on or off."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    enabled: bool


class PromptList(TypedDict):
    """The prompts that a message can call."""

    prompts: list[PromptInfo]
