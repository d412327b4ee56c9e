"""Export of a chat as Markdown or as a notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import nbformat

from tk_ai_extension.agent.backend import AgentBackend
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.store import Chat

MAX_RESULT = 2_000
"""Maximum length of a tool's result in an export, in characters."""


Agents = Callable[[str], AgentBackend]
"""Returns the agent that answers for a model; see `ChatServices.agent_of`."""


def as_markdown(chat: Chat, events: Sequence[Event], agent_of: Agents) -> str:
    """Return the chat as Markdown: messages, tool calls and their results, but no replaced turns."""
    parts = [f"# {' '.join(chat.title.split())}", *_parts(events, agent_of)]
    return "\n\n".join(parts) + "\n"


def as_notebook(chat: Chat, events: Sequence[Event], agent_of: Agents) -> str:
    """Return the chat as the JSON of a notebook, with a Markdown cell for each part.

    Code that tools ran is quoted in Markdown: code cells could run it again by accident.
    """
    parts = [f"# {' '.join(chat.title.split())}", *_parts(events, agent_of)]
    cells = [nbformat.v4.new_markdown_cell(part) for part in parts]
    notebook: Any = nbformat.v4.new_notebook(cells=cells)
    return str(nbformat.writes(notebook))


def _parts(events: Sequence[Event], agent_of: Agents) -> Iterator[str]:
    # The text since the last part, by block: the model may begin a block again.
    written: dict[int, str] = {}
    for event in events:
        if event.kind == "text":
            block = event.data["block"]
            written[block] = written.get(block, "") + event.data["text"]
        elif event.kind == "discarded":
            written = {n: text for n, text in written.items() if n < event.data["block"]}
        elif part := _part(event, agent_of):
            if written:
                yield "".join(written.values())
            yield part
            written = {}
    if written:
        yield "".join(written.values())


def _part(event: Event, agent_of: Agents) -> str:
    data = event.data
    match event.kind:
        case "message":
            where = f" ({data['notebook']})" if data["notebook"] else ""
            agent = agent_of(data["model"]).name
            return f"## You{where}\n\n{data['text']}\n\n## {agent}"
        case "tool_call":
            arguments = json.dumps(data["arguments"], indent=1, ensure_ascii=False)
            return f"**{data['tool']}**\n\n{_fenced(arguments, 'json')}"
        case "tool_result":
            said = data["text"]
            more = (
                f"\n… {len(said) - MAX_RESULT:,} more characters" if len(said) > MAX_RESULT else ""
            )
            return _fenced(said[:MAX_RESULT] + more)
        case "notice":
            return f"*{data['text']}*"
        case "error":
            return f"*Error: {data['error']['message']}*"
        case "done" if data["end"] == "stopped":
            return "*Stopped.*"
        case _:
            return ""


def _fenced(text: str, language: str = "") -> str:
    """Return a fenced block whose fence is longer than any in its text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
