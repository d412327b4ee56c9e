"""Conformance of documents: the cell-marked text, read and written back."""

from __future__ import annotations

import pytest

from tests.support.document_bench import (
    DocumentBench,
    code,
    notebook,
    prose,
    sources,
    stream,
)
from tk_ai_extension.model.cell_marked_text import parse, render
from tk_ai_extension.model.cell_operations import AppliedOperations
from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import Conflict
from tk_ai_extension.model.three_way_merge import merge
from tk_ai_extension.notebooks.document import NotebookDocument


async def write_back(document: NotebookDocument, base: Snapshot, text: str) -> AppliedOperations:
    """Write back a text that was read at ``base``, as write_notebook does."""
    operations = merge(base, await document.read(), parse(text))
    return await document.apply(operations)


class TextConformance:
    """Effects of writing the text of a notebook back."""

    @pytest.mark.proves("text:merge")
    async def test_both_sides_changes_are_there(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a"), code("b"), code("c")))
        base = await document.read()
        text = render(base).replace("\na\n", "\nmine\n") + "# %% [markdown]\nnew\n"
        await bench.person.type(document.path, 1, " theirs")
        await bench.person.insert(document.path, 0, "first")
        await write_back(document, base, text)
        expected = ["first", "mine", "b theirs", "c", "new"]
        assert sources((await document.read()).cells) == expected
        assert await bench.person.sources(document.path) == expected

    @pytest.mark.proves("text:merge", "doc:conflict")
    async def test_a_cell_that_both_changed_stops_the_whole_write(
        self, bench: DocumentBench
    ) -> None:
        document = await bench.open(notebook(code("a"), code("b")))
        base = await document.read()
        text = render(base).replace("\na\n", "\nmine\n").replace("\nb\n", "\nmine too\n")
        await bench.person.type(document.path, 1, " theirs")
        with pytest.raises(Conflict) as raised:
            await write_back(document, base, text)
        (cell,) = raised.value.details["cells"]
        assert (cell["source"], cell["yours"]) == ("b theirs", "mine too")
        assert sources((await document.read()).cells) == ["a", "b theirs"]

    @pytest.mark.proves("text:metadata", "text:code-fields")
    async def test_a_named_cell_keeps_its_metadata_and_a_new_one_has_none(
        self, bench: DocumentBench
    ) -> None:
        ran = code(
            "a",
            "aaaa1111",
            execution_count=2,
            outputs=[stream("x")],
            metadata={"tags": ["t"]},
        )
        document = await bench.open(notebook(ran, prose("b", "bbbb2222", metadata={"k": 1})))
        base = await document.read()
        text = render(base).replace("[code] @aaaa\na", "[markdown] @aaaa\nnow prose")
        text = text.replace("[markdown] @bbbb", "[code] @bbbb") + "# %% [code]\nnew\n"
        await write_back(document, base, text)
        first, second, third = (await bench.on_disk(document))["cells"]
        assert (first["id"], first["cell_type"], first["metadata"]) == (
            "aaaa1111",
            "markdown",
            {"tags": ["t"]},
        )
        assert not first.keys() & {"outputs", "execution_count"}
        assert (second["id"], second["cell_type"], second["metadata"]) == (
            "bbbb2222",
            "code",
            {"k": 1},
        )
        assert (second["outputs"], second["execution_count"]) == ([], None)
        assert third["metadata"] == {}

    @pytest.mark.proves("text:cell-n", "doc:minor-version")
    async def test_cells_without_ids_merge_too(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a"), code("b"), code("c"), minor=4))
        base = await document.read()
        assert "# %% [code] cell:1\nb\n" in render(base)
        await bench.person.insert(document.path, 0, "theirs")
        text = render(base).replace("\nb\n", "\nmine\n")
        await write_back(document, base, text)
        assert sources((await document.read()).cells) == ["theirs", "a", "mine", "c"]

    @pytest.mark.proves("text:merge")
    async def test_a_missing_marker_deletes_and_only_what_was_shown(
        self, bench: DocumentBench
    ) -> None:
        document = await bench.open(notebook(*(code(name) for name in "abcd")))
        base = await document.read()
        part = render(base, [1, 2])
        assert "cells:1-2" in part.splitlines()[0]
        kept = "".join(part.splitlines(keepends=True)[:3])
        await write_back(document, base, kept)
        assert sources((await document.read()).cells) == ["a", "b", "d"]

    @pytest.mark.proves("text:round-trip")
    async def test_a_source_that_looks_like_a_marker_survives(self, bench: DocumentBench) -> None:
        tricky = "# %% [code] @aaaa\n# %%% x\n# %%\n #%% [raw]\n# %"
        document = await bench.open(notebook(code(tricky), code("b")))
        base = await document.read()
        applied = await write_back(document, base, render(base))
        assert applied.changes == ()
        await write_back(document, base, render(base).replace("\nb\n", "\nnew\n"))
        assert sources((await document.read()).cells) == [tricky, "new"]
