"""Proposals: what a call will do, as data that a person sees before they approve it.

Each interface renders a `Proposal` itself (card, terminal, elicitation). No text is parsed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
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
STEP_COST = 100
"""Characters that a step counts in addition to its lines when a proposal is shortened."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a diff or of code, verbatim."""

    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class CellReference:
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
        """Return the reference as JSON."""
        return {
            "id": self.id,
            "index": self.index,
            "type": self.type,
            "address": self.address,
        }


@dataclass(frozen=True, slots=True)
class KernelReference:
    """The kernel of a call: the id of a running kernel, or the kernelspec of a new one."""

    id: str | None = None
    name: str | None = None

    def as_dict(self) -> Json:
        """Return the reference as JSON."""
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
        loads: The addresses on other hosts that a browser loads once the step is done, and did not before.
    """

    kind: StepKind
    title: str
    cell: CellReference | None = None
    to: int | None = None
    runs: bool = False
    lines: tuple[Line, ...] = ()
    identity: tuple[str | int | bool | None, ...] | None = field(default=None, metadata=INTERNAL)
    cell_type: CellType | None = None
    loads: frozenset[str] = field(default=frozenset(), metadata=INTERNAL)

    @property
    def code(self) -> str:
        """The code that is run."""
        return "\n".join(line.text for line in self.lines if line.mark in " +")

    @classmethod
    def from_dict(cls, value: Json) -> ProposalStep:
        """Return the step from the JSON of `as_dict`, without the hash of its cell."""
        return cls(
            value["kind"],
            value["title"],
            value["cell"] and CellReference(**value["cell"]),
            value["to"],
            value["runs"],
            tuple(Line(line["mark"], line["text"]) for line in value["lines"]),
            cell_type=value["cell_type"],
        )

    def as_dict(self) -> Json:
        """Return the step as JSON."""
        return {
            "kind": self.kind,
            "title": one_line(self.title),
            "cell": self.cell and self.cell.as_dict(),
            "cell_type": self.cell_type,
            "to": self.to,
            "runs": self.runs,
            "lines": [{"mark": line.mark, "text": line.text} for line in self.lines],
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """Everything that a call will do.

    >>> step = ProposalStep("code", "Run code", runs=True, lines=marked(" ", "x = 1"))
    >>> print(Proposal("Run code", (step,)).as_text())
    Run code
     x = 1

    Attributes:
        title: One sentence for a person.
        steps: The steps, in order.
        notebook: The path of the notebook that the call concerns; None for none or several.
        kernel: The kernel that runs the code; None if nothing runs.
        omitted: The number of characters that were left out to shorten the steps.
    """

    title: str
    steps: tuple[ProposalStep, ...] = ()
    notebook: str | None = None
    kernel: KernelReference | None = None
    omitted: int = 0

    @classmethod
    def from_dict(cls, value: Json) -> Proposal:
        """Return the proposal from the JSON of `as_dict`, without internal fields."""
        steps = tuple(ProposalStep.from_dict(step) for step in value["steps"])
        kernel = value["kernel"] and KernelReference(**value["kernel"])
        title = value["title"]
        return cls(title, steps, value["notebook"], kernel, value["omitted"])

    @property
    def runs(self) -> bool:
        """Whether a step runs code."""
        return any(step.runs for step in self.steps)

    @property
    def loads(self) -> bool:
        """Whether a step makes a browser load something from another host."""
        return any(step.loads for step in self.steps)

    def as_dict(self) -> Json:
        """Return the proposal as JSON."""
        return {
            "notebook": self.notebook,
            "kernel": self.kernel and self.kernel.as_dict(),
            "title": one_line(self.title),
            "steps": [step.as_dict() for step in self.steps],
            "omitted": self.omitted,
        }

    def as_text(self) -> str:
        """Return the proposal as plain text: titles, and marked lines of code and diffs.

        A title has no mark, so no line of code can be read as a title. Invisible characters and
        those that change the text direction are escaped.
        """
        parts: list[str] = []
        for step in self.steps:
            parts.append(one_line(step.title))
            parts += [f"{line.mark}{visible(line.text)}" for line in step.lines]
        if self.omitted:
            parts.append(f"… and {self.omitted:,} more characters")
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

    def bounded(self, limit: int) -> Proposal:
        """Return the proposal with its steps shortened to about ``limit`` characters."""
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
    """Return a text as one line with invisible characters and line breaks escaped."""
    shown = visible(text[: MAX_TITLE + 1]).replace("\t", "\\t")
    return shown if len(shown) <= MAX_TITLE else f"{shown[:MAX_TITLE]}…"


def visible(text: str) -> str:
    """Return a line with unprintable characters escaped, except tabs."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\t" else repr(char)[1:-1] for char in text
    )


def marked(mark: Mark, text: str) -> tuple[Line, ...]:
    """Return the lines of a text, all with the same mark."""
    return tuple(Line(mark, line) for line in text.split("\n"))


def diff_lines(before: str, after: str, *, whole: bool = False) -> tuple[Line, ...]:
    """Return a line diff with one line of context; all lines if ``whole`` is true."""
    old, new = before.split("\n"), after.split("\n")
    if whole and old == new:
        return marked(" ", after)
    context = max(len(old), len(new)) if whole else 1
    found = list(unified(old, new, context))
    # Skip the single hunk header if all lines are shown.
    return tuple(_line(line) for line in found[1 if whole else 0 :])


def _line(line: str) -> Line:
    if line.startswith("@@"):
        return Line("@", line)
    mark: Any = line[:1]
    return Line(mark, line[1:])
