"""A proposal (`model.proposals`) as lines of a terminal, from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LEFT_OUT = "… and {:,} more characters"


def lines_of(proposal: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each line and what it is: ``title``, ``note``, or the mark of a line of code.

    A title begins with no mark, so that no line of code reads as one.
    """
    if where := place_of(proposal):
        yield where, "note"
    if not proposal["steps"]:
        yield proposal["title"], "title"
    for step in proposal["steps"]:
        yield step["title"], "title"
        for line in step["lines"]:
            yield f"{line['mark']}{line['text']}", line["mark"]
    if proposal["omitted"]:
        yield LEFT_OUT.format(proposal["omitted"]), "note"


def place_of(proposal: Mapping[str, Any]) -> str:
    """The kernel that runs it; empty where nothing runs."""
    kernel = proposal["kernel"]
    if kernel is None:
        return ""
    name = f" ({kernel['name']})" if kernel["name"] else ""
    return f"Kernel: {kernel['id']}{name}" if kernel["id"] else f"Kernel: a new one{name}"
