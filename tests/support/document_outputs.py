"""Conformance of documents: the outputs of a cell that runs."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress

import pytest

from tests.support.document_bench import (
    DocumentBench,
    code,
    display,
    notebook,
    stream,
)
from tk_ai_extension.model.cell_operations import Delete, Insert, Move, Replace
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.executions import Execution
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import AppendOutput, ReplaceOutput, StreamEdit
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.notebooks.running_outputs import SAVE_INTERVAL
from tk_ai_extension.workspace.display_updates import DisplayRegistry


class OutputsConformance:
    """Behaviour of an output writer."""

    @pytest.mark.proves("out:types", "exec:display-update")
    async def test_outputs_are_there_as_they_come_and_stay(self, bench: DocumentBench) -> None:
        old = code("run()", "aaaa1111", execution_count=1, outputs=[stream("old")])
        document = await bench.open(notebook(old, code("b")))
        error: Json = {
            "output_type": "error",
            "ename": "E",
            "evalue": "v",
            "traceback": ["t\x1b[0m"],
        }
        async with document.writing("aaaa1111") as writer:
            writer.start()
            assert await document.outputs("aaaa1111") == ()
            assert (await document.read()).cells[0].execution_count is None
            await writer.write([AppendOutput(stream("10%")), StreamEdit(0, 3, " done")])
            assert await document.outputs("aaaa1111") == (stream("10% done"),)
            await writer.write([StreamEdit(0, 0, "20%"), AppendOutput(display(text_plain="first"))])
            await writer.write(
                [ReplaceOutput(1, display(text_plain="second")), AppendOutput(error)]
            )
            expected = (stream("20%"), display(text_plain="second"), error)
            assert await document.outputs("aaaa1111") == expected
            assert (await document.read()).cells[0].outputs.failed
            await writer.finish(8)
        assert await document.outputs("aaaa1111") == expected
        cell = (await bench.on_disk(document))["cells"][0]
        assert cell["execution_count"] == 8
        assert [output["output_type"] for output in cell["outputs"]] == [
            "stream",
            "display_data",
            "error",
        ]

    @pytest.mark.proves("exec:saved")
    async def test_the_file_has_them_within_two_seconds_while_the_cell_still_prints(
        self, bench: DocumentBench
    ) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111")))
        seen: list[float] = []
        async with document.writing("aaaa1111") as writer:
            writer.start()
            begun = time.monotonic()
            await writer.write([AppendOutput(stream("0\n"))])
            length, number = 2, 0
            while not seen and time.monotonic() - begun < 3 * SAVE_INTERVAL:
                number += 1
                await writer.write([StreamEdit(0, length, f"{number}\n")])
                length += len(f"{number}\n")
                # The pace of a kernel that prints all the time.
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), 0.05)
                # Jupyter's own save, used by tabs, is not atomic: a reader may see half a file.
                with suppress(json.JSONDecodeError):
                    stored = json.loads((bench.root / document.path).read_bytes())
                    if stored["cells"][0]["outputs"]:
                        seen.append(time.monotonic() - begun)
            await writer.finish(1)
        assert seen[0] <= SAVE_INTERVAL

    @pytest.mark.proves("exec:saved")
    async def test_cells_that_end_without_a_save_are_saved_together(
        self, bench: DocumentBench
    ) -> None:
        cells = [code(f"{n}", f"aaaa{n:04}", outputs=[stream("old")]) for n in range(4)]
        document = await bench.open(notebook(*cells))
        for number in range(4):
            async with document.writing(f"aaaa{number:04}") as writer:
                writer.start()
                await writer.write([AppendOutput(stream(f"out {number}"))])
                await writer.finish(number, save=False)
        # Readers see them, and an edit in between neither loses nor duplicates any.
        snapshot = await (await bench.store.open(document.path)).read()
        assert [cell.execution_count for cell in snapshot.cells] == [0, 1, 2, 3]
        await document.apply([Replace("aaaa0001", "new"), Move("aaaa0003", 0), Delete("aaaa0002")])
        assert await document.outputs("aaaa0001") == ()
        assert await document.outputs("aaaa0003") == (stream("out 3"),)
        await document.flush()
        stored = (await bench.on_disk(document))["cells"]
        assert [(cell["id"], cell["execution_count"]) for cell in stored] == [
            ("aaaa0003", 3),
            ("aaaa0000", 0),
            ("aaaa0001", None),
        ]
        assert stored[2]["outputs"] == []
        assert "".join(stored[1]["outputs"][0]["text"]) == "out 0"

    async def test_they_follow_a_cell_that_others_move_and_edit(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b"), code("c")))
        async with document.writing("aaaa1111") as writer:
            writer.start()
            await writer.write([AppendOutput(stream("one "))])
            await document.apply([Move("aaaa1111", 2), Insert(CellData("code", "new"), index=0)])
            await writer.write([StreamEdit(0, 4, "two ")])
            index = (await document.read()).places["aaaa1111"]
            await bench.person.type(document.path, index, " typed")
            await bench.person.move(document.path, index, 0)
            await writer.write([StreamEdit(0, 8, "three")])
            await writer.finish(2)
        first = (await document.read()).cells[0]
        assert (first.key, first.source, first.execution_count) == ("aaaa1111", "a typed", 2)
        assert await document.outputs("aaaa1111") == (stream("one two three"),)

    @pytest.mark.proves("exec:own-source", "exec:saved")
    @pytest.mark.parametrize("ids", [("cell-0", "cell-1"), ("cell-1", "cell-0"), ("aa-0", "aa-1")])
    async def test_they_stay_in_the_cell_that_ran_when_a_person_copies_and_changes_it(
        self, bench: DocumentBench, ids: tuple[str, str]
    ) -> None:
        document = await bench.open(notebook(code("first", ids[0]), code("train()", ids[1])))
        async with document.writing(ids[1]) as writer:
            writer.start()
            await writer.write([AppendOutput(stream("one "))])
            assert await document.outputs(ids[1]) == (stream("one "),)
            await bench.person.insert(document.path, 2, "train()")
            await bench.person.type(document.path, 1, " # changed")
            await writer.write([StreamEdit(0, 4, "two")])
            await writer.finish(2)
        assert await document.outputs(ids[1]) == (stream("one two"),)
        cells = (await bench.on_disk(document))["cells"]
        assert [len(cell["outputs"]) for cell in cells] == [0, 1, 0]

    @pytest.mark.parametrize("is_back", [False, True])
    async def test_they_go_nowhere_once_the_cell_is_deleted_until_it_is_back(
        self, bench: DocumentBench, is_back: bool
    ) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b")))
        async with document.writing("aaaa1111") as writer:
            writer.start()
            await writer.write([AppendOutput(stream("one"))])
            [gone] = (await document.apply([Delete("aaaa1111")])).changes
            await writer.write([StreamEdit(0, 3, "two"), AppendOutput(stream("x", "stderr"))])
            if is_back:
                assert gone.before is not None
                await document.apply([Insert(gone.before, index=1)])
            await writer.finish(2)
        cells = (await bench.on_disk(document))["cells"]
        outputs = [["".join(each["text"]) for each in cell["outputs"]] for cell in cells]
        assert outputs == ([[], ["onetwo", "x"]] if is_back else [[]])

    @pytest.mark.proves("exec:display-elsewhere")
    async def test_a_display_is_updated_after_its_cell_has_ended(
        self, bench: DocumentBench
    ) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))

        async def opened(_path: str) -> NotebookDocument:
            return document

        outputs = stream("x"), display(text_plain="first")
        for key in ("aaaa1111", "bbbb2222"):
            async with document.writing(key) as writer:
                writer.start()
                await writer.write([AppendOutput(output) for output in outputs])
                await writer.finish(3, save=False)
        displays = DisplayRegistry()
        execution = Execution("ok", outputs, 3, displays={"d": (1,)})
        displays.ran("k", Notebook(document.path), (await document.read()).cells[0], execution)
        await displays.update("k", {"d": display(text_plain="second")}, opened)
        assert await document.outputs("aaaa1111") == (stream("x"), display(text_plain="second"))
        assert await document.outputs("bbbb2222") == (stream("x"), display(text_plain="first"))
        cells = (await bench.on_disk(document))["cells"]
        assert [cell["execution_count"] for cell in cells] == [3, 3]
        assert cells[0]["outputs"][1] != cells[1]["outputs"][1]

    async def test_a_run_that_is_cut_off_keeps_what_came(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111")))
        entered = asyncio.Event()

        async def cut() -> None:
            async with document.writing("aaaa1111") as writer:
                writer.start()
                await writer.write([AppendOutput(stream("came"))])
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(cut())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cell = (await bench.on_disk(document))["cells"][0]
        assert "".join(cell["outputs"][0]["text"]) == "came"

    @pytest.mark.proves("fault:flood")
    async def test_a_flood_of_lines_and_displays_is_kept_whole(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111")))
        async with document.writing("aaaa1111") as writer:
            writer.start()
            await writer.write([AppendOutput(stream(""))])
            length = 0
            for number in range(20_000):
                line = f"line {number} ü\n"
                await writer.write([StreamEdit(0, length, line)])
                length += len(line)
            await writer.write([AppendOutput(display(text_plain=f"{n}")) for n in range(2_000)])
            await writer.finish(1)
        outputs = await document.outputs("aaaa1111")
        assert outputs[0]["text"].splitlines() == [f"line {n} ü" for n in range(20_000)]
        assert [o["data"]["text/plain"] for o in outputs[1:]] == [f"{n}" for n in range(2_000)]
        stored = (await bench.on_disk(document))["cells"][0]["outputs"]
        assert len("".join(stored[0]["text"])) == length  # pyrefly: ignore[unknown-argument-type]


async def run(document: NotebookDocument, cell: str, text: str, count: int) -> None:
    """Run a cell that prints a text in parts."""
    async with document.writing(cell) as writer:
        writer.start()
        await writer.write([AppendOutput(stream(""))])
        half = len(text) // 2
        await writer.write([StreamEdit(0, 0, text[:half])])
        await writer.write([StreamEdit(0, half, text[half:])])
        await writer.finish(count)
