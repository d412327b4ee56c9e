"""Text lines of a proposal (`model.proposals`) from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LEFT_OUT = "… and {:,} more characters"


def lines_of(proposal: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return each line with its kind: ``title``, ``note``, or the mark of a line of code.

    Lines of code begin with a mark, so that none looks like a title.
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
    """Return the kernel that runs the code; empty if none does."""
    kernel = proposal["kernel"]
    if kernel is None:
        return ""
    name = f" ({kernel['name']})" if kernel["name"] else ""
    return f"Kernel: {kernel['id']}{name}" if kernel["id"] else f"Kernel: a new one{name}"
