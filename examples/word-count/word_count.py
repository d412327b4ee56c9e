"""A toolset with two tools: count the words of a notebook, and add the count to it."""

from __future__ import annotations

from tk_ai_extension.model.cell_operations import Insert
from tk_ai_extension.model.cells import CellData, Snapshot
from tk_ai_extension.tools.edit_plans import EditPlan, apply_edit, plan_edit
from tk_ai_extension.tools.parameter_types import Notebook
from tk_ai_extension.tools.registry import Result, ToolContext, tool


class WordCount(Result):
    """The words in the Markdown cells of a notebook."""

    notebook: str
    words: int

    def as_text(self) -> str:
        """Return what a model reads."""
        return f"{self.notebook}: {self.words} words"


@tool("READ", command="words notebook")
async def count_words(context: ToolContext, notebook: Notebook = None) -> WordCount:
    """Count the words in the Markdown cells of a notebook."""
    document = await context.workspace.open(context.caller, notebook, tool="count_words")
    return WordCount(notebook=document.path, words=words_in(await document.read()))


@tool("WRITE", carry_out=apply_edit)
async def add_word_count(context: ToolContext, notebook: Notebook = None) -> EditPlan:
    """Add a Markdown cell with the number of words at the end of a notebook."""
    document = await context.workspace.open(context.caller, notebook, tool="add_word_count")
    snapshot = await document.read()
    cell = CellData("markdown", f"{words_in(snapshot)} words")
    return plan_edit(context, document, snapshot, Insert(cell))


def words_in(snapshot: Snapshot) -> int:
    """Return the number of words in the Markdown cells."""
    return sum(len(cell.source.split()) for cell in snapshot.cells if cell.type == "markdown")
