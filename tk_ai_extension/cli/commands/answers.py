"""Answers of commands that no tool gives, as `--json` prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.tools.context import Result


class Answer(Result):
    """An answer that is made of the fields of a report; a field that it does not declare is refused."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Make the answer; text that no encoding can write is replaced."""
        return cls.model_validate(encodable(fields))


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CellRun(_Part):
    """What a cell did in `nb run NOTEBOOK`."""

    cell: str | None
    index: int | None
    status: str
    seconds: float | None = None
    error: str | None = None
    traceback: str | None = None


class NotebookRan(Answer):
    """What a whole notebook did in a kernel of its own."""

    notebook: str
    status: str
    seconds: float
    cells: list[CellRun]


class OutputDifference(_Part):
    """An output that differs from the stored one."""

    kind: str
    what: str
    message: str
    diff: str


class VerifiedCell(_Part):
    """What a cell did in a fresh kernel."""

    cell: str
    index: int
    status: str
    first_line: str | None = None
    seconds: float
    message: str | None = None
    traceback: str | None = None
    differences: list[OutputDifference] | None = None


class HiddenState(_Part):
    """A finding of hidden state."""

    kind: str
    cell: str
    index: int
    message: str
    names: list[str]


class VerifiedNotebook(_Part):
    """What a notebook did in a fresh kernel."""

    notebook: str
    status: str
    revision: str | None = None
    kernel: str | None = None
    seconds: float
    has_outputs: bool
    error: str | None = None
    cells: list[VerifiedCell]
    findings: list[HiddenState]


class Verified(Answer):
    """The result of `nb verify`."""

    verified: bool
    notebooks: list[VerifiedNotebook]


class Stopped(Answer):
    """The kernels that `nb shutdown` has stopped, and what could not be stopped."""

    stopped: list[str]
    failed: list[str]


class SharingStopped(Result):
    """The answer of `nb serve --off`."""

    was_shared: bool

    def as_text(self) -> str:
        """Return one line."""
        return "Stopped sharing." if self.was_shared else "Nothing was shared."


class CompletionScript(Result):
    """The script that completes commands in a shell."""

    shell: str
    script: str

    def as_text(self) -> str:
        """Return the script."""
        return self.script
