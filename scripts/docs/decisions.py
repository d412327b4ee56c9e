"""The list of decisions, from the pages in ``docs/adr``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from scripts.docs.markdown import page, table

_TITLE = re.compile(r"\A# (?:\d+[.:]?\s+)?(?P<title>.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Decision:
    """One page: its file, number and title."""

    file: str
    number: int
    title: str


def decisions(folder: Path) -> list[Decision]:
    """The decisions in the order of their numbers.

    Raises:
        ValueError: a page has no number in its name or no title.
    """
    found: list[Decision] = []
    for path in sorted(folder.glob("[0-9]*.md")):
        title = _TITLE.match(path.read_text(encoding="utf-8"))
        if title is None:
            message = f"{path.name} does not begin with a title"
            raise ValueError(message)
        found.append(Decision(path.name, int(path.name.partition("-")[0]), title["title"].strip()))
    return found


def decisions_page(folder: Path) -> str:
    """The index of all decisions."""
    return page(
        "Decisions",
        "*For developers who ask why something is as it is.*",
        "Architecture decision records. Each has the context, the decision and its consequences.",
        table(
            ["", "decision"],
            ([str(each.number), f"[{each.title}]({each.file})"] for each in decisions(folder)),
        ),
    )
