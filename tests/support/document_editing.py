"""Conformance of documents: reading and editing."""

from __future__ import annotations

import pytest

from tests.support.document_bench import (
    DocumentBench,
    code,
    display,
    notebook,
    prose,
    sources,
    stream,
)
from tk_ai_extension.model.cell_operations import (
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    expecting,
)
from tk_ai_extension.model.cells import CellData, source_hash
from tk_ai_extension.model.errors import (
    CellNotFound,
    Conflict,
    FileMissing,
    InvalidArguments,
    InvalidNotebook,
    NotebookExists,
    NotebookNotFound,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.notebook_json import empty_notebook

OLD: Json = {
    "metadata": {"name": "old"},
    "nbformat": 3,
    "nbformat_minor": 0,
    "worksheets": [
        {
            "cells": [
                {"cell_type": "heading", "level": 1, "metadata": {}, "source": ["Title"]},
                {
                    "cell_type": "code",
                    "collapsed": False,
                    "input": ["print(1)"],
                    "language": "python",
                    "metadata": {},
                    "outputs": [
                        {"output_type": "stream", "stream": "stdout", "text": ["1\n"]},
                    ],
                    "prompt_number": 1,
                },
            ],
            "metadata": {},
        }
    ],
}


class ReadingConformance:
    """Reading of a document."""

    @pytest.mark.proves("doc:join")
    async def test_a_source_is_its_joined_lines_however_it_is_stored(
        self, bench: DocumentBench
    ) -> None:
        lines, text = code("a\nb\n\nc"), code() | {"source": "d\ne\n"}
        snapshot = await (await bench.open(notebook(lines, text, prose("")))).read()
        assert sources(snapshot.cells) == ["a\nb\n\nc", "d\ne\n", ""]

    async def test_cells_show_all_but_their_outputs(self, bench: DocumentBench) -> None:
        ran = code(
            "plot()",
            "abc12345",
            execution_count=7,
            metadata={"tags": ["keep"]},
            outputs=[stream("text\n"), display(text_plain="<Figure>", image_png="aGk=")],
        )
        document = await bench.open(notebook(ran, prose("# Title")))
        snapshot = await document.read()
        first, second = snapshot.cells
        assert (first.key, first.id, first.type) == ("abc12345", "abc12345", "code")
        assert (first.execution_count, first.metadata) == (7, {"tags": ["keep"]})
        assert first.outputs.count == 2
        assert set(first.outputs.mimes) == {"stdout", "text/plain", "image/png"}
        assert (second.type, second.execution_count, second.outputs.count) == ("markdown", None, 0)
        assert snapshot.path == document.path
        assert snapshot.nbformat == (4, 5)
        assert snapshot.language == "python"
        assert snapshot.live is (bench.backend == "tab")
        assert document.backend == bench.backend

    @pytest.mark.proves("text:read")
    async def test_raw_is_the_notebook_as_json(self, bench: DocumentBench) -> None:
        stored = notebook(code("a = 1", outputs=[stream("x")]), prose("b"))
        raw = await (await bench.open(stored)).raw()
        assert sources(raw["cells"]) == ["a = 1", "b"]
        assert raw["cells"][0]["outputs"][0]["output_type"] == "stream"
        assert (raw["nbformat"], raw["nbformat_minor"]) == (4, 5)

    @pytest.mark.proves("doc:errors")
    async def test_what_is_not_there_is_not_found(self, bench: DocumentBench) -> None:
        with pytest.raises(NotebookNotFound, match=r"missing\.ipynb"):
            await bench.store.open("missing.ipynb")
        assert not await bench.store.exists("missing.ipynb")

    @pytest.mark.proves("doc:lenient")
    async def test_an_old_format_is_read_and_not_written(self, bench: DocumentBench) -> None:
        document = await bench.open(OLD)
        before = (bench.root / document.path).read_bytes()
        snapshot = await document.read()
        assert sources(snapshot.cells) == ["# Title", "print(1)"]
        assert [cell.key for cell in snapshot.cells] == ["cell-0", "cell-1"]
        assert (await document.outputs("cell-1"))[0]["text"] == "1\n"
        assert snapshot.nbformat[0] == 3
        assert snapshot.warnings
        with pytest.raises(InvalidNotebook):
            await document.apply([Replace("cell-1", "x")])
        with pytest.raises(InvalidNotebook):
            async with document.writing("cell-1"):
                pass
        assert (bench.root / document.path).read_bytes() == before

    @pytest.mark.proves("doc:minor-version")
    async def test_cells_without_ids_are_addressed_by_number_and_stay_without(
        self, bench: DocumentBench
    ) -> None:
        document = await bench.open(notebook(code("a"), prose("b"), minor=4))
        snapshot = await document.read()
        assert [(cell.key, cell.id) for cell in snapshot.cells] == [
            ("cell-0", None),
            ("cell-1", None),
        ]
        operations = [Insert(CellData("code", "new"), index=0), Replace("cell-0", "changed")]
        with pytest.raises(InvalidArguments, match="no id"):
            await document.apply(operations)
        applied = await document.apply(expecting(snapshot, operations))
        assert sources(applied.snapshot.cells) == ["new", "changed", "b"]
        assert [change.cell for change in applied.changes] == ["cell-0", "cell-1"]
        stored = await bench.on_disk(document)
        assert stored["nbformat_minor"] == 4
        assert not any("id" in cell for cell in stored["cells"])


class EditingConformance:
    """Effects of operations."""

    @pytest.mark.proves("doc:new-cell-id", "doc:new-code-cell", "edit:tools")
    async def test_inserts_go_to_the_given_index_with_fresh_ids(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
        applied = await document.apply(
            [
                Insert(CellData("code", "first"), index=0),
                Insert(CellData("markdown", "after a"), after="aaaa1111"),
                Insert(CellData("raw", "before b"), before="bbbb2222"),
                Insert(CellData("code", "last")),
            ]
        )
        expected = ["first", "a", "after a", "before b", "b", "last"]
        assert sources(applied.snapshot.cells) == expected
        assert [change.index for change in applied.changes] == [0, 2, 3, 5]
        for change in applied.changes:
            assert applied.snapshot.cell(change.cell).source == change.after.source  # pyrefly: ignore[missing-attribute]
        stored = (await bench.on_disk(document))["cells"]
        assert sources(stored) == expected
        ids = [cell["id"] for cell in stored]
        assert len(set(ids)) == 6
        assert (stored[0]["execution_count"], stored[0]["outputs"]) == (None, [])
        assert not stored[2].keys() & {"execution_count", "outputs"}
        assert not stored[3].keys() & {"execution_count", "outputs"}

    @pytest.mark.proves("edit:replace-clears", "doc:source-split")
    async def test_a_new_source_clears_outputs_and_count(self, bench: DocumentBench) -> None:
        ran = code("a", "aaaa1111", execution_count=3, outputs=[stream("x")])
        noted = prose("b", "bbbb2222", metadata={"tags": ["t"]})
        document = await bench.open(notebook(ran, noted))
        applied = await document.apply(
            [Replace("aaaa1111", "new\nsource\n"), Replace("bbbb2222", "")]
        )
        first, second = applied.snapshot.cells
        assert (first.source, first.execution_count, first.outputs.count) == (
            "new\nsource\n",
            None,
            0,
        )
        assert (second.source, second.metadata) == ("", {"tags": ["t"]})
        stored = (await bench.on_disk(document))["cells"]
        assert stored[0]["source"] == ["new\n", "source\n"]
        assert stored[1]["source"] == []

    @pytest.mark.proves("text:code-fields")
    async def test_a_cell_that_changes_its_type_gains_and_loses_its_fields(
        self, bench: DocumentBench
    ) -> None:
        picture = {"a.png": {"image/png": "aGk="}}
        ran = code("a", "aaaa1111", execution_count=3, outputs=[stream("x")], metadata={"k": 1})
        document = await bench.open(notebook(ran, prose("b", "bbbb2222", attachments=picture)))
        await document.apply(
            [Replace("aaaa1111", "a", "markdown"), Replace("bbbb2222", "b", "code")]
        )
        first, second = (await bench.on_disk(document))["cells"]
        assert (first["cell_type"], first["metadata"], first["id"]) == (
            "markdown",
            {"k": 1},
            "aaaa1111",
        )
        assert not first.keys() & {"outputs", "execution_count"}
        assert (second["cell_type"], second["outputs"], second["execution_count"]) == (
            "code",
            [],
            None,
        )
        assert "attachments" not in second

    @pytest.mark.proves("edit:tools")
    async def test_a_moved_cell_has_the_index_asked_for(self, bench: DocumentBench) -> None:
        ids = ["aaaa1111", "bbbb2222", "cccc3333", "dddd4444"]
        ran = code("a", ids[0], execution_count=1, outputs=[stream("x")])
        document = await bench.open(notebook(ran, *(code(i, i) for i in ids[1:])))
        for cell, to in [(ids[0], 2), (ids[3], 0), (ids[1], -1), (ids[0], -4), (ids[2], 2)]:
            applied = await document.apply([Move(cell, to)])
            assert applied.snapshot.places[cell] == to % 4
            assert applied.changes[0].index == to % 4
        applied = await document.apply([Insert(CellData("code", "new"), index=-2)])
        assert applied.snapshot.cells[3].source == "new"
        assert applied.changes[0].index == 3
        assert await document.outputs(ids[0]) == (stream("x"),)
        assert (await document.read()).cell(ids[0]).execution_count == 1

    async def test_a_deleted_cell_comes_back_whole(self, bench: DocumentBench) -> None:
        printed = stream("") | {"text": ["x\n"]}
        ran = code("a", "aaaa1111", execution_count=3, outputs=[printed], metadata={"k": 1})
        noted = prose("n", "bbbb2222", attachments={"a.png": {"image/png": "aGk="}})
        document = await bench.open(notebook(ran, noted, code("c")))
        before = (await bench.on_disk(document))["cells"]
        gone = (await document.apply([Delete("aaaa1111"), Delete("bbbb2222")])).changes
        contents = [change.before for change in gone if change.before is not None]
        await document.apply([Insert(c, index=i) for i, c in enumerate(contents)])
        assert (await bench.on_disk(document))["cells"] == before

    @pytest.mark.proves("doc:unknown-fields")
    async def test_unknown_fields_of_cells_survive_an_edit(self, bench: DocumentBench) -> None:
        odd = code("a", "aaaa1111", metadata={"mine": {"deep": [1, 2.5, None]}})
        document = await bench.open(notebook(odd, prose("b", "bbbb2222")))
        await document.apply([Replace("aaaa1111", "new"), Move("aaaa1111", 1)])
        cell = (await bench.on_disk(document))["cells"][1]
        assert cell["metadata"] == {"mine": {"deep": [1, 2.5, None]}}

    @pytest.mark.proves("edit:batch", "doc:atomic-write")
    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            (Replace("nowhere", "x"), CellNotFound),
            (Delete("aaaa1111"), CellNotFound),
            (Move("bbbb2222", 7), InvalidArguments),
            (Insert(CellData("code", "x"), index=9), InvalidArguments),
            (Insert(CellData("code", "x"), index=0, after="bbbb2222"), InvalidArguments),
            (Replace("bbbb2222", "x", expect=source_hash("else")), Conflict),
        ],
        ids=["unknown", "deleted", "move", "insert", "two places", "conflict"],
    )
    async def test_one_wrong_operation_and_none_is_done(
        self, bench: DocumentBench, wrong: Operation, error: type[Exception]
    ) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
        before = await bench.on_disk(document)
        revision = (await document.read()).revision
        with pytest.raises(error):
            await document.apply([Delete("aaaa1111"), Replace("bbbb2222", "new"), wrong])
        assert (await document.read()).revision == revision
        assert await bench.on_disk(document) == before

    @pytest.mark.proves("doc:conflict")
    async def test_a_cell_that_a_person_changed_is_not_overwritten(
        self, bench: DocumentBench
    ) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
        seen = await document.read()
        await bench.person.type(document.path, 0, " typed")
        for operation in (
            Replace("aaaa1111", "mine", expect=seen.cell("aaaa1111").hash),
            Delete("aaaa1111", expect=seen.cell("aaaa1111").hash),
        ):
            with pytest.raises(Conflict) as raised:
                await document.apply([operation])
            (cell,) = raised.value.details["cells"]
            assert cell["source"] == "a typed"
            assert cell["address"] == f"aaaa.{source_hash('a typed')[:8]}"
        await document.apply([Replace("bbbb2222", "mine", expect=seen.cell("bbbb2222").hash)])
        assert await bench.person.sources(document.path) == ["a typed", "mine"]

    @pytest.mark.proves("doc:new-file", "doc:empty-notebook")
    async def test_a_new_notebook_is_written_as_nbformat_writes_it(
        self, bench: DocumentBench
    ) -> None:
        path = bench.put(b"").replace(".ipynb", "-new.ipynb")
        document = await bench.store.create(path, empty_notebook([("code", "a\nü")]))
        data = (bench.root / path).read_text(encoding="utf-8")
        assert data.startswith('{\n "cells": [\n  {\n   "cell_type": "code",\n')
        assert data.endswith("}\n")
        assert '    "ü"\n' in data
        assert sources((await document.read()).cells) == ["a\nü"]
        with pytest.raises(NotebookExists):
            await bench.store.create(path, empty_notebook())
        assert (bench.root / path).read_text(encoding="utf-8") == data
        with pytest.raises(FileMissing):
            await bench.store.create("no/folder.ipynb", empty_notebook())
        assert not list(bench.root.glob(".~*"))
