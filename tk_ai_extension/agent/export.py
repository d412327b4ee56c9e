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
    """Return the chat as Markdown: messages, tool calls and their results."""
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
    written: list[str] = []
    void = _void(events)
    for event in events:
        if event.id in void:
            continue
        if event.kind == "text":
            written.append(event.data["text"])
            continue
        if written and event.kind != "thinking":
            yield "".join(written)
            written = []
        part = _part(event, agent_of)
        if part:
            yield part
    if written:
        yield "".join(written)


def _void(events: Sequence[Event]) -> set[int]:
    """Return what is void: discarded pieces of text, and replaced turns."""
    replaced = _replaced(events)
    found = {event.id for event in events if event.turn in replaced}
    for position, event in enumerate(events):
        if event.kind == "discarded":
            found |= {
                piece.id
                for piece in events[:position]
                if piece.turn == event.turn
                and piece.kind in ("text", "thinking")
                and piece.data["block"] >= event.data["block"]
            }
    return found


def _replaced(events: Sequence[Event]) -> set[str]:
    """Return the turns that later messages or a restore replaced."""
    counting: list[str] = []
    found: set[str] = set()
    for event in events:
        if event.kind in ("message", "restored"):
            replaces = event.data["replaces"] if event.kind == "message" else event.turn
            if replaces in counting:
                found.update(counting[counting.index(replaces) :])
                del counting[counting.index(replaces) :]
        if event.kind == "message":
            counting.append(event.turn)
    return found


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
        case "plan_settled" if data["answer"] == "approved":
            return "*The plan was approved.*"
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
