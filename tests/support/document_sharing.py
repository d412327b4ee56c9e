"""Conformance of documents: concurrent agents and a person, without lost updates."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.document_bench import DocumentBench, code, notebook, sources
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import Conflict
from tk_ai_extension.model.operations import Delete, Insert, Replace

MANY = 12


class SharingConformance:
    """Guarantees for concurrent editing."""

    @pytest.mark.proves("fault:concurrent-edit")
    async def test_edits_of_different_cells_all_land(self, bench: DocumentBench) -> None:
        keys = [f"{'abcdefghijkl'[n]}abc{n:04}" for n in range(MANY)]
        path = bench.put(notebook(*(code("old", key) for key in keys)))

        async def edit(key: str) -> None:
            document = await bench.store.open(path)
            seen = (await document.read()).by_key[key].hash
            await document.apply([Replace(key, f"new {key}", expect=seen)])

        await asyncio.gather(*map(edit, keys))
        expected = [f"new {key}" for key in keys]
        assert sources((await (await bench.store.open(path)).read()).cells) == expected
        assert await bench.person.sources(path) == expected

    @pytest.mark.proves("fault:concurrent-edit", "doc:conflict")
    async def test_of_edits_of_one_cell_one_lands_and_the_others_get_a_conflict(
        self, bench: DocumentBench
    ) -> None:
        document = await bench.open(notebook(code("old", "aaaa1111")))
        seen = (await document.read()).cells[0].hash

        async def edit(number: int) -> str | None:
            try:
                await document.apply([Replace("aaaa1111", f"new {number}", expect=seen)])
            except Conflict as conflict:
                return str(conflict.details["cells"][0]["source"])
            return None

        conflicts = await asyncio.gather(*(edit(number) for number in range(MANY)))
        assert conflicts.count(None) == 1
        (source,) = sources((await document.read()).cells)
        assert {answer for answer in conflicts if answer is not None} == {source}

    @pytest.mark.proves("fault:concurrent-edit")
    async def test_parallel_inserts_land_where_they_belong(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))

        async def insert(after: str, number: int) -> None:
            content = CellContent("code", f"{after} {number}")
            await document.apply([Insert(content, after=after)])

        places = [(key, number) for number in range(MANY // 2) for key in ("aaaa1111", "bbbb2222")]
        await asyncio.gather(*(insert(*place) for place in places))
        found = sources((await document.read()).cells)
        assert sorted(found) == sorted(["a", "b", *(f"{key} {number}" for key, number in places)])
        middle = found.index("b")
        assert all(source.startswith("aaaa") for source in found[1:middle])
        assert all(source.startswith("bbbb") for source in found[middle + 1 :])
        assert len({cell.key for cell in (await document.read()).cells}) == MANY + 2

    @pytest.mark.proves("fault:concurrent-edit")
    async def test_a_person_types_while_agents_edit(self, bench: DocumentBench) -> None:
        keys = ["aaaa1111", "bbbb2222", "cccc3333"]
        path = bench.put(notebook(*(code("", key) for key in keys)))
        expected = ["", "", ""]

        async def agent(place: int) -> None:
            document = await bench.store.open(path)
            for number in range(5):
                await document.apply([Replace(keys[place], f"{place}.{number}")])
                expected[place] = f"{place}.{number}"

        async def person() -> None:
            for letter in "typed":
                await bench.person.type(path, 2, letter)
                expected[2] += letter
                await (await bench.store.open(path)).read()

        if bench.one_step:
            await asyncio.gather(agent(0), agent(1), person())
        else:
            await asyncio.gather(agent(0), agent(1))
            await person()
        document = await bench.store.open(path)
        assert sources((await document.read()).cells) == expected
        assert sources((await bench.on_disk(document))["cells"]) == expected

    async def test_a_cancelled_edit_is_done_whole_or_not_at_all(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
        task = asyncio.create_task(
            document.apply([Replace("aaaa1111", "new a"), Delete("bbbb2222")])
        )
        # Let it start.
        await asyncio.wait([task], timeout=0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        found = sources((await document.read()).cells)
        assert found in (["a", "b"], ["new a"])
        await document.apply([Replace("aaaa1111", "next")])
        assert sources((await bench.on_disk(document))["cells"]) == ["next", *found[1:]]
