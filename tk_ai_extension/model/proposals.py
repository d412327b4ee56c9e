"""Proposals: the effects of a call, as data that a person sees before they approve it.

Each interface renders a `Proposal` itself (card, terminal, elicitation). No text is parsed.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any, Literal

from tk_ai_extension.model.cells import CellType
from tk_ai_extension.model.diffs import unified
from tk_ai_extension.model.json_values import Json

Mark = Literal[" ", "+", "-", "@"]
"""A line that is unchanged, added or removed; ``@`` separates two hunks of a diff."""

StepKind = Literal[
    "insert",
    "change",
    "delete",
    "move",
    "outputs",
    "run",
    "code",
    "create",
    "undo",
    "kernel",
    "open",
    "arguments",
]
"""The effect of a step. ``insert`` to ``run`` concern a cell.

``code`` runs code that is not in a cell; ``create`` creates a notebook; ``undo`` names a change that
is undone; ``kernel`` restarts, interrupts or shuts down a kernel; ``open`` opens or closes a
notebook; ``arguments`` lists the arguments of a tool without a plan.
"""

INTERNAL = {"internal": True}
"""Metadata of fields that `as_dict` leaves out."""

MAX_TITLE = 500
"""Maximum characters of a title."""
IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Printable characters that show nothing: `Default_Ignorable_Code_Point` of Unicode, and the empty
Braille pattern."""
JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Joiners and variation selectors: they shape the character before them."""
MAX_SHOWN = 100_000
"""Maximum characters of a proposal: more cannot be read before an answer."""


@dataclass(frozen=True, slots=True)
class ProposalLine:
    """A line of a diff or of code, verbatim."""

    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class ProposalCell:
    """The cell that a step concerns.

    Attributes:
        id: Its key (`model.cells.Cell.key`).
        index: Its position, from 0.
        type: code, markdown or raw.
        address: Its versioned address.
        hash: The hash of its source.
    """

    id: str
    index: int
    type: CellType
    address: str
    hash: str = field(default="", metadata=INTERNAL)

    def as_dict(self) -> Json:
        """Return it as JSON."""
        return {
            "id": self.id,
            "index": self.index,
            "type": self.type,
            "address": self.address,
        }


@dataclass(frozen=True, slots=True)
class ProposalKernel:
    """The kernel of a call: the id of a running kernel, or the kernelspec of a new one."""

    id: str | None = None
    name: str | None = None

    def as_dict(self) -> Json:
        """Return it as JSON."""
        return {"id": self.id, "name": self.name}


@dataclass(frozen=True, slots=True)
class ProposalStep:
    """One step of a proposal.

    Attributes:
        kind: The effect.
        title: One sentence for a person, who counts cells from 1.
        cell: The cell; None for a new one.
        cell_type: The type of an inserted cell; None for another step.
        to: The index that a cell is inserted at or moved to, from 0.
        runs: Whether the lines marked with a space or ``+`` are run.
        lines: The diff or the code. If the step runs code, all of the code.
        identity: Values that an approval is bound to in addition to kind, cell, runs and lines. By
            default the title; set it if the title has a cell's position, which others can shift.
        loads: The addresses on other hosts that a browser loads only after the step.
    """

    kind: StepKind
    title: str
    cell: ProposalCell | None = None
    to: int | None = None
    runs: bool = False
    lines: tuple[ProposalLine, ...] = ()
    identity: tuple[str | int | bool | None, ...] | None = field(default=None, metadata=INTERNAL)
    cell_type: CellType | None = None
    loads: frozenset[str] = field(default=frozenset(), metadata=INTERNAL)

    @property
    def code(self) -> str:
        """The code that is run."""
        return "\n".join(line.text for line in self.lines if line.mark in " +")

    def as_dict(self) -> Json:
        """Return the step as JSON, with hidden characters written out."""
        return {
            "kind": self.kind,
            "title": one_line(self.title),
            "cell": self.cell and self.cell.as_dict(),
            "cell_type": self.cell_type,
            "to": self.to,
            "runs": self.runs,
            "lines": [{"mark": line.mark, "text": visible(line.text)} for line in self.lines],
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """All effects of a call.

    >>> step = ProposalStep("code", "Run code", runs=True, lines=marked(" ", "x = 1"))
    >>> print(Proposal("Run code", (step,)).as_text())
    Run code
     x = 1

    Attributes:
        title: One sentence for a person.
        steps: The steps, in order.
        notebook: The path of the notebook that the call concerns; None for none or several.
        kernel: The kernel that runs the code; None if nothing runs.
    """

    title: str
    steps: tuple[ProposalStep, ...] = ()
    notebook: str | None = None
    kernel: ProposalKernel | None = None

    @property
    def runs(self) -> bool:
        """Whether a step runs code."""
        return any(step.runs for step in self.steps)

    @property
    def loads(self) -> bool:
        """Whether a step makes a browser load something from another host."""
        return any(step.loads for step in self.steps)

    @property
    def size(self) -> int:
        """The number of characters of its titles and lines."""
        lines = (line for step in self.steps for line in step.lines)
        return sum(len(step.title) + 1 for step in self.steps) + sum(
            len(line.text) + 1 for line in lines
        )

    def as_dict(self) -> Json:
        """Return the proposal as JSON, with hidden characters written out."""
        return {
            "notebook": self.notebook,
            "kernel": self.kernel and self.kernel.as_dict(),
            "title": one_line(self.title),
            "steps": [step.as_dict() for step in self.steps],
        }

    def as_text(self) -> str:
        """Return the proposal as plain text: titles, and marked lines of code and diffs.

        A title has no mark, so no line of code can be read as a title. Hidden characters are
        written out (`visible`).
        """
        parts: list[str] = []
        for step in self.steps:
            parts.append(one_line(step.title))
            parts += [f"{line.mark}{visible(line.text)}" for line in step.lines]
        return "\n".join(parts) or one_line(self.title)

    def digest(self) -> str:
        """Return the hash that an approval is bound to: of notebook, kernel, cells, sources and steps."""
        steps = [
            [
                step.kind,
                step.runs,
                [step.title] if step.identity is None else list(step.identity),
                step.cell and [step.cell.id, step.cell.type, step.cell.hash],
                [[line.mark, line.text] for line in step.lines],
            ]
            for step in self.steps
        ]
        kernel = self.kernel and [self.kernel.id, self.kernel.name]
        exact = json.dumps([self.notebook, kernel, steps])
        return hashlib.blake2b(exact.encode(), digest_size=16).hexdigest()


def one_line(text: str) -> str:
    """Return a text as one line with hidden characters and line breaks written out."""
    shown = visible(text[: MAX_TITLE + 1]).replace("\t", "⟨U+0009⟩")
    return shown if len(shown) <= MAX_TITLE else f"{shown[:MAX_TITLE]}…"


def visible(text: str) -> str:
    """Return a line with the characters written out that cannot be seen, except tabs.

    These are control and format characters, unusual spaces, and those that Unicode lets a program
    ignore. A joiner or variation selector stays after an emoji, or after a letter of a script that needs it.

    >>> visible("x\u3164 = 1\u202e")
    'x⟨U+3164⟩ = 1⟨U+202E⟩'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"⟨U+{ord(char):04X}⟩"
        if _is_hidden(char) and not _joins(char, text[place - 1 : place])
        else char
        for place, char in enumerate(text)
    )


def _is_hidden(char: str) -> bool:
    is_shown = char.isprintable() or char == "\t"
    return not is_shown or IGNORABLE.match(char) is not None


def _joins(char: str, before: str) -> bool:
    """Whether a character shapes the one before it."""
    if char not in JOINERS or not before:
        return False
    category = unicodedata.category(before)
    is_latin = unicodedata.name(before, "").startswith(("LATIN ", "GREEK ", "CYRILLIC "))
    return category in ("So", "Sk", "Mn", "Mc") or (category == "Lo" and not is_latin)


def marked(mark: Mark, text: str) -> tuple[ProposalLine, ...]:
    """Return the lines of a text, all with the same mark."""
    return tuple(ProposalLine(mark, line) for line in text.split("\n"))


def diff_lines(before: str, after: str, *, whole: bool = False) -> tuple[ProposalLine, ...]:
    """Return a line diff with one line of context; all lines if ``whole`` is true."""
    old, new = before.split("\n"), after.split("\n")
    if whole and old == new:
        return marked(" ", after)
    context = max(len(old), len(new)) if whole else 1
    found = list(unified(old, new, context))
    # Skip the single hunk header if all lines are shown.
    return tuple(_line(line) for line in found[1 if whole else 0 :])


def _line(line: str) -> ProposalLine:
    if line.startswith("@@"):
        return ProposalLine("@", line)
    mark: Any = line[:1]
    return ProposalLine(mark, line[1:])
