"""Conformance of documents: concurrent agents and a person, without lost updates."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.document_bench import DocumentBench, code, notebook, sources
from tk_ai_extension.model.cell_operations import Replace
from tk_ai_extension.model.errors import Conflict

MANY = 12


class SharingConformance:
    """Guarantees for concurrent editing."""

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
