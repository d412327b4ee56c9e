"""What a call would do, as data that a person is shown before they approve it.

Every interface renders a `Proposal` by itself (card, terminal, elicitation); no text is parsed back.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tk_ai_extension.model.cells import CellType, Json
from tk_ai_extension.model.sentences import SentenceInfo, sentence_info, sentence_of

Mark = Literal[" ", "+", "-", "@"]
"""A line that stays, is added or removed; ``@`` stands between two parts of a diff."""

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
"""What a step does: to a cell (``insert`` to ``run``), or something else.

``code`` runs code that is no cell's; ``create`` makes a notebook; ``undo`` names a change that is
taken back; ``kernel`` restarts, interrupts or shuts down a kernel; ``open`` opens or closes a
notebook; ``arguments`` lists the arguments of a tool that says no more.
"""

INTERNAL = {"internal": True}
"""Metadata of fields that `as_dict` leaves out."""

MAX_TITLE = 500
"""Characters of a title; what is longer is cut."""
STEP_COST = 100
"""Characters that a step counts as besides its lines, where a proposal is cut."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a diff or of code, verbatim."""

    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class CellReference:
    """A cell that a step concerns.

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
        """The reference as JSON."""
        return {
            "id": self.id,
            "index": self.index,
            "type": self.type,
            "address": self.address,
        }


@dataclass(frozen=True, slots=True)
class KernelReference:
    """A kernel that a call concerns: a running one by its id, or the kernelspec of a new one."""

    id: str | None = None
    name: str | None = None

    def as_dict(self) -> Json:
        """The reference as JSON."""
        return {"id": self.id, "name": self.name}


@dataclass(frozen=True, slots=True)
class ProposalStep:
    """One thing that a call would do.

    Attributes:
        kind: What it is.
        title: One sentence for a person; positions of cells count from 1.
        sentence: The title by its code; None where it has none.
        cell: The cell concerned; None for a new one.
        to: The position that a cell is inserted at or moved to, from 0.
        runs: Whether the lines marked with a space or ``+`` are run.
        lines: The diff, or the code. All of the code where it runs.
        identity: What an approval is bound to besides kind, cell, runs and lines. The title unless
            given: a title with the position of a cell would be outdated by an insertion above it.
    """

    kind: StepKind
    title: str
    cell: CellReference | None = None
    to: int | None = None
    runs: bool = False
    lines: tuple[Line, ...] = ()
    identity: tuple[str | int | bool | None, ...] | None = field(default=None, metadata=INTERNAL)
    sentence: SentenceInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Say by which code the title is translated."""
        object.__setattr__(self, "sentence", sentence_info(self.title))

    @property
    def code(self) -> str:
        """The code that is run."""
        return "\n".join(line.text for line in self.lines if line.mark in " +")

    @classmethod
    def from_dict(cls, value: Json) -> ProposalStep:
        """Return the step that `as_dict` gave; its cell has no hash."""
        return cls(
            value["kind"],
            sentence_of(value["title"], value.get("sentence")),
            value["cell"] and CellReference(**value["cell"]),
            value["to"],
            value["runs"],
            tuple(Line(line["mark"], line["text"]) for line in value["lines"]),
        )

    def as_dict(self) -> Json:
        """The step as JSON."""
        return {
            "kind": self.kind,
            "title": one_line(self.title),
            "sentence": self.sentence and self.sentence.as_dict(),
            "cell": self.cell and self.cell.as_dict(),
            "to": self.to,
            "runs": self.runs,
            "lines": [{"mark": line.mark, "text": line.text} for line in self.lines],
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """All that a call would do.

    Attributes:
        title: One sentence for a person.
        sentence: The title by its code; None where it has none.
        steps: In order.
        notebook: The path of the notebook that it concerns; None for none or several.
        kernel: The kernel that runs it; None where nothing runs.
        omitted: Characters left out of the steps, where they were cut to be shown.
        reference: What an approval is bound to besides: the request of another server.
    """

    title: str
    steps: tuple[ProposalStep, ...] = ()
    notebook: str | None = None
    kernel: KernelReference | None = None
    omitted: int = 0
    reference: str = field(default="", metadata=INTERNAL)
    sentence: SentenceInfo | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Say by which code the title is translated."""
        object.__setattr__(self, "sentence", sentence_info(self.title))

    @classmethod
    def from_dict(cls, value: Json) -> Proposal:
        """Return the proposal that `as_dict` gave, as far as it is shown."""
        steps = tuple(ProposalStep.from_dict(step) for step in value["steps"])
        kernel = value["kernel"] and KernelReference(**value["kernel"])
        title = sentence_of(value["title"], value.get("sentence"))
        return cls(title, steps, value["notebook"], kernel, value["omitted"])

    @property
    def runs(self) -> bool:
        """Whether a step runs code."""
        return any(step.runs for step in self.steps)

    def as_dict(self) -> Json:
        """The proposal as JSON."""
        return {
            "notebook": self.notebook,
            "kernel": self.kernel and self.kernel.as_dict(),
            "title": one_line(self.title),
            "sentence": self.sentence and self.sentence.as_dict(),
            "steps": [step.as_dict() for step in self.steps],
            "omitted": self.omitted,
        }

    def as_text(self) -> str:
        """The proposal as plain text: titles, and lines of code and diffs after their mark.

        A title begins with no mark, so that no line of code reads as one. Characters that would
        hide or turn round what follows are written out.
        """
        parts: list[str] = []
        for step in self.steps:
            parts.append(one_line(step.title))
            parts += [f"{line.mark}{visible(line.text)}" for line in step.lines]
        if self.omitted:
            parts.append(f"… and {self.omitted:,} more characters")
        return "\n".join(parts) or one_line(self.title)

    def digest(self) -> str:
        """The hash of what an approval is bound to: notebook, kernel, cells, sources and steps."""
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
        exact = json.dumps([self.notebook, kernel, steps, self.reference])
        return hashlib.blake2b(exact.encode(), digest_size=16).hexdigest()

    def bounded(self, limit: int) -> Proposal:
        """The proposal with at most about so many characters in its steps."""
        left, omitted = limit, 0
        steps: list[ProposalStep] = []
        for step in self.steps:
            if left <= 0:
                omitted += STEP_COST + sum(len(line.text) + 1 for line in step.lines)
                continue
            left -= STEP_COST
            lines: list[Line] = []
            for line in step.lines:
                if left > 0:
                    lines.append(Line(line.mark, line.text[:left]))
                omitted += max(0, len(line.text) - max(left, 0))
                left -= len(line.text) + 1
            steps.append(replace(step, lines=tuple(lines)))
        if not omitted:
            return self
        return replace(self, steps=tuple(steps), omitted=self.omitted + omitted)


def one_line(text: str) -> str:
    """A text in one line, with what would hide or break it written out."""
    shown = visible(text[: MAX_TITLE + 1]).replace("\t", "\\t")
    return shown if len(shown) <= MAX_TITLE else f"{shown[:MAX_TITLE]}…"


def visible(text: str) -> str:
    """A line with the characters written out that are not printed; a tab stays."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else repr(char)[1:-1] for char in text
    )


def marked(mark: Mark, text: str) -> tuple[Line, ...]:
    """All lines of a text with one mark."""
    return tuple(Line(mark, line) for line in text.split("\n"))


def diff_lines(before: str, after: str, *, whole: bool = False) -> tuple[Line, ...]:
    """The lines that go and come, with one line of context; with ``whole`` all lines."""
    old, new = before.split("\n"), after.split("\n")
    if whole and old == new:
        return marked(" ", after)
    context = max(len(old), len(new)) if whole else 1
    found = list(difflib.unified_diff(old, new, lineterm="", n=context))
    # The names of the files come first, and one header where all lines are shown.
    return tuple(_line(line) for line in found[3 if whole else 2 :])


def _line(line: str) -> Line:
    if line.startswith("@@"):
        return Line("@", line)
    mark: Any = line[:1]
    return Line(mark, line[1:])
