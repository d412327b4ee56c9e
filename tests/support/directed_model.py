"""A model without a script: it does what the last message of the person says.

For agents with requests that cannot be counted, because they also ask for titles or summaries. In the
person's message,

- ``@call TOOL {…}`` calls a tool, each line one, then says the last result;
- ``@hold`` begins a text and never ends it;
- ``@count`` says how many pictures and messages of the person the request has;
- anything else is answered with "Here."
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.messages import Answer, MessagesRequest, ToolUse, blocks_of
from tests.support.messages_api import Reply
from tests.support.scripted_model import Held, ScriptedModel

HELD = "One, two, three, four, five, six, seven, eight."
"""The text that is not ended."""

_CALL = re.compile(r"@call (\S+) (\{.*\})")


@dataclass(frozen=True, slots=True)
class Directed:
    """What to answer.

    Attributes:
        text: The text.
        tool: The full name of the tool to call; None for none.
        arguments: Its arguments.
        holds: Whether the text never ends.
    """

    text: str = ""
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    holds: bool = False


def direct(
    message: str, results: Sequence[str], tools: Sequence[str], *, pictures: int, messages: int
) -> Directed:
    """Return what to answer to a request.

    Args:
        message: The person's last message.
        results: The results of the tools that were called since.
        tools: The names of the offered tools.
        pictures: The number of pictures in the request.
        messages: The number of the person's messages in it.
    """
    # A message that follows a stopped one may be in one with it.
    message = "@" + message.rpartition("@")[2] if "@hold" in message else message
    for name, arguments in _CALL.findall(message)[len(results) :]:
        if (tool := _offered(name, tools)) is not None:
            return Directed("A call, then.", tool, json.loads(arguments))
    if results:
        return Directed(f"It says: {results[-1]}")
    if "@hold" in message:
        return Directed(HELD, holds=True)
    if "@count" in message:
        return Directed(f"{pictures} pictures, {messages} messages")
    return Directed("Here.")


def _offered(name: str, tools: Sequence[str]) -> str | None:
    """Return the full name of an offered tool; agents put the name of its server before it."""
    found = [tool for tool in tools if re.search(rf"(?:^|[^a-z0-9]|_){re.escape(name)}$", tool)]
    return min(found, key=len, default=None)


class DirectedModel(ScriptedModel):
    """The Messages API of the directed model.

    Attributes:
        held: Set when a text that never ends has begun.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = asyncio.Event()

    def reply(self, request: MessagesRequest) -> Reply:
        """Return the reply to a request."""
        self.requests.append(request)
        said = [each for each in request.messages if each.get("role") == "user"]
        blocks = [each for message in said for each in blocks_of(message.get("content", ""))]
        prompts = request.prompts
        directed = direct(
            prompts[-1] if prompts else "",
            [result.text for result in request.results_since_prompt],
            request.tools,
            pictures=sum(each.get("type") == "image" for each in blocks),
            messages=len(prompts),
        )
        if directed.holds:
            return Held(Answer.of(directed.text), after=4, held=self.held)
        if directed.tool is None:
            return Answer.of(directed.text)
        return Answer.of(directed.text, ToolUse(directed.tool, directed.arguments or {}))
