"""Agents' changes are published to a person who looks at the notebook, and undone on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import nbformat
import pytest

from tests.server.conftest import Ask, Call
from tests.server.test_event_channel import OpenPage, open_page

__all__ = ["open_page"]

PATH = "api/tk-ai/changes"


class Person:
    """A person who looks at the notebook."""

    def __init__(self, ask: Ask, headers: dict[str, str], address: str) -> None:
        self._ask = ask
        self._headers = headers
        self._address = address

    async def listed(self, notebook: str) -> tuple[int, dict[str, Any]]:
        response = await self._ask("GET", f"{PATH}?notebook={notebook}", **self._headers)
        return response.code, json.loads(response.body)

    async def changes(self, notebook: str) -> list[dict[str, Any]]:
        status, found = await self.listed(notebook)
        assert status == 200
        described = json.loads(
            (await self._ask("GET", "api/tk-ai/openapi.json", **self._headers)).body
        )
        answer = described["paths"][f"/{PATH}"]["get"]["responses"]["200"]["content"]
        jsonschema.validate(found, answer["application/json"]["schema"])
        return list(found["changes"])

    async def undo(self, **body: Any) -> tuple[int, Any]:
        return await self._post("undo", body)

    async def keep(self, **body: Any) -> tuple[int, Any]:
        return await self._post("keep", body)

    async def _post(self, route: str, body: dict[str, Any]) -> tuple[int, Any]:
        response = await self._ask("POST", f"{PATH}/{route}", body, **self._headers)
        return response.code, json.loads(response.body)


@pytest.fixture
def person(ask: Ask, jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int) -> Person:
    return Person(ask, jp_auth_header, f"http://127.0.0.1:{jp_http_port}{jp_base_url}")


def sources(root: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(root / "plan.ipynb", 4).cells]


async def change(call: Call, notebook: str, source: str, caller: str = "me") -> None:
    await call("read_cell", caller, notebook=notebook, cell="fails000")
    done = {"notebook": notebook, "cell": "fails000", "source": source}
    assert (await call("overwrite_cell", caller, **done))[0] == 200


@pytest.mark.proves("ext:rtc")
async def test_a_change_is_reported_with_who_and_when_and_the_diff(
    person: Person, call: Call, notebook: str
) -> None:
    assert await person.changes(notebook) == []
    await change(call, notebook, "1 / 2")
    await call("insert_cell", notebook=notebook, source="new", index=0)
    changed, inserted = await person.changes(notebook)
    assert changed["time"] <= inserted["time"]
    assert inserted["action"] == "insert"
    wanted = {"cell": "fails000", "action": "replace", "before": "1 / 0", "yours": True}
    assert wanted.items() <= changed.items()
    assert changed["diff"] == "@@ -1 +1 @@\n-1 / 0\n+1 / 2"
    (alone,) = await person.changes(f"{notebook}&cell=fails000")
    assert alone == changed


@pytest.mark.proves("ext:rtc")
async def test_a_follower_is_notified_of_changes_and_runs_as_they_happen(
    person: Person, call: Call, notebook: str, open_page: OpenPage
) -> None:
    page = await open_page("page")
    number = await page.subscribe(changes=notebook)
    events = (each["event"] async for each in page.messages(number) if "event" in each)
    await change(call, notebook, "1 / 2")
    event = await anext(events)
    assert (event["kind"], event["cells"]) == ("changed", ["fails000"])
    assert [event["entry"]] == (await person.changes(notebook))[0]["entries"]
    await call("execute_cell", notebook=notebook, cell="fails000")
    running, ran = await anext(events), await anext(events)
    assert [running["kind"], ran["kind"]] == ["running", "ran"]
    assert (ran["cells"], ran["status"]) == (["fails000"], "ok")
    change_of_one = {event["entry"]: ["fails000"]}
    assert (await person.keep(notebook=notebook, entries=change_of_one))[0] == 200
    assert (await anext(events))["kind"] == "kept"
    assert await person.changes(notebook) == []
    assert (await person.undo(notebook=notebook, entries=change_of_one))[0] == 200
    assert (await anext(events))["kind"] == "taken_back"


async def test_one_cell_of_what_an_agent_did_is_taken_back_and_the_rest_stays(
    person: Person, call: Call, notebook: str, jp_root_dir: Path
) -> None:
    before = sources(jp_root_dir)
    await change(call, notebook, "1 / 2", caller="agent")
    await call("insert_cell", "another", notebook=notebook, source="new", index=0)
    changed, inserted = await person.changes(notebook)
    status, answer = await person.undo(notebook=notebook, entries=changed["entries"])
    assert (status, answer["undone"][0]["cells"]) == (200, ["fails000"])
    assert sources(jp_root_dir) == ["new", *before]
    assert await person.changes(notebook) == [inserted]


@pytest.mark.proves("rest:restore")
async def test_each_change_is_undone_in_the_cells_that_the_request_names(
    person: Person, call: Call, notebook: str, jp_root_dir: Path
) -> None:
    text = (await call("read_notebook", notebook=notebook))[1]["text"]
    both = text.replace("1 / 0", "1 / 2").replace("6 * 7", "42")
    assert (await call("write_notebook", notebook=notebook, text=both))[0] == 200
    await change(call, notebook, "1 / 3")
    kept = sources(jp_root_dir)[1:]
    first, second = next(
        each["entries"] for each in await person.changes(notebook) if each["cell"] == "fails000"
    )
    # A person has kept the first change of this cell, and undoes all that they have not kept.
    wanted = {first: ["prints00"], second: ["fails000"]}
    assert (await person.undo(notebook=notebook, entries=wanted))[0] == 200
    now = sources(jp_root_dir)
    assert ("6 * 7" in "".join(now), "1 / 2" in now, len(now[1:])) == (True, True, len(kept))
    (stands,) = await person.changes(notebook)
    assert (stands["entries"], stands["cell"]) == ([first], "fails000")
    status, error = await person.undo(notebook=notebook, entries={first: ["prints00"]})
    assert (status, error["error"]["code"]) == (409, "nothing_to_undo")


async def test_a_cell_that_was_edited_since_is_not_undone_and_the_answer_says_so(
    person: Person, call: Call, notebook: str, jp_root_dir: Path
) -> None:
    await change(call, notebook, "1 / 2")
    (changed,) = await person.changes(notebook)
    document = nbformat.read(jp_root_dir / notebook, 4)
    document.cells[1].source = "a person's"
    nbformat.write(document, jp_root_dir / notebook)
    status, answer = await person.undo(notebook=notebook, entries=changed["entries"])
    assert (status, answer["undone"][0]["cells"]) == (200, [])
    assert "edited since" in answer["undone"][0]["left"][0]
    assert sources(jp_root_dir)[1] == "a person's"


@pytest.mark.parametrize(
    "refused",
    [
        ({}, 400, "invalid_arguments"),
        ({"notebook": "plan.ipynb", "entries": []}, 400, "invalid_arguments"),
        ({"notebook": "plan.ipynb", "entries": [True]}, 400, "invalid_arguments"),
        ({"notebook": "plan.ipynb", "entries": {"a": ["1"]}}, 400, "invalid_arguments"),
        ({"notebook": "plan.ipynb", "entries": {"1": "a"}}, 400, "invalid_arguments"),
        ({"notebook": "plan.ipynb", "entries": [1], "more": 1}, 400, "invalid_arguments"),
        ({"notebook": "../plan.ipynb", "entries": [1]}, 403, "path_refused"),
        ({"notebook": "plan.ipynb", "entries": [999]}, 409, "nothing_to_undo"),
    ],
)
async def test_an_impossible_undo_is_refused_and_changes_nothing(
    person: Person, notebook: str, jp_root_dir: Path, refused: tuple[dict[str, Any], int, str]
) -> None:
    body, status, code = refused
    assert notebook == "plan.ipynb"
    before = sources(jp_root_dir)
    answered, error = await person.undo(**body)
    assert (answered, error["error"]["code"]) == (status, code)
    assert sources(jp_root_dir) == before


async def test_a_change_can_be_undone_however_many_came_after_it(
    person: Person, call: Call, notebook: str
) -> None:
    for number in range(5):
        await call("insert_cell", notebook=notebook, source=f"{number}", index=0)
    oldest, *others = await person.changes(notebook)
    assert (await person.undo(notebook=notebook, entries=oldest["entries"]))[0] == 200
    assert await person.changes(notebook) == others
    for query, code in (("", 400), ("../up.ipynb", 403)):
        assert (await person.listed(query))[0] == code
