"""The chat over HTTP: messages as JSON and as events, and the list of chats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import jsonschema
import nbformat
import pytest
from traitlets.config import Config

from tests.cases import Cases
from tests.server.conftest import Ask, with_model
from tests.support.scripted_model import (
    MODEL,
    UNAUTHORIZED,
    Answer,
    Held,
    ScriptedModel,
    ToolUse,
)
from tk_ai_extension.agent import chat_store
from tk_ai_extension.server.handlers import streaming

CHATS = "api/tk-ai/chats"
COUNTED = "One, two, three, four, five, six, seven, eight."


@pytest.fixture
def jp_server_config(jp_server_config: Config, tmp_path: Path) -> Config:
    jp_server_config.TkAIExtensionApp.max_chats = 2
    return with_model(jp_server_config, tmp_path / "state")


class Client:
    """A person's client."""

    def __init__(self, ask: Ask, headers: dict[str, str]) -> None:
        self._ask = ask
        self._headers = headers

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        response = await self._ask(method, path, body, **self._headers)
        return response.code, json.loads(response.body)

    async def say(self, message: str, **fields: Any) -> tuple[int, Any]:
        return await self.request("POST", "api/tk-ai/mcp/chat", {"message": message, **fields})


@pytest.fixture
def client(ask: Ask, jp_auth_header: dict[str, str], model: ScriptedModel) -> Client:
    return Client(ask, jp_auth_header)


@pytest.fixture
async def http(
    client: Client, jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that reads streams as they come."""
    address = f"http://127.0.0.1:{jp_http_port}{jp_base_url}api/tk-ai/"
    async with httpx2.AsyncClient(base_url=address, headers=jp_auth_header, timeout=30) as http:
        yield http


async def events_of(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def described(client: Client, path: str, method: str) -> Any:
    _, whole = await client.request("GET", "api/tk-ai/openapi.json")
    answer = whole["paths"][path][method]["responses"]["200"]["content"]["application/json"]
    return {**answer["schema"], "components": whole["components"]}


async def described_event(client: Client, path: str, method: str) -> Any:
    """The schema of the data of the events that a route streams."""
    _, whole = await client.request("GET", "api/tk-ai/openapi.json")
    content = whole["paths"][path][method]["responses"]["200"]["content"]
    data = content["text/event-stream"]["schema"]["properties"]["data"]
    return {**data["contentSchema"], "components": whole["components"]}


@pytest.mark.proves("ext:chat", "rest:chat")
async def test_a_message_is_answered_with_what_came_of_it(
    client: Client, model: ScriptedModel, notebook: str, jp_root_dir: Path
) -> None:
    model.add(
        Answer.of(
            "Let me see.", ToolUse("insert_and_execute_cell", {"source": "6 * 7", "index": 0})
        ),
        Answer.of("It is 42."),
    )
    status, answer = await client.say("What is six by seven?", notebook=notebook, mode="auto")
    assert status == 200
    jsonschema.validate(answer, await described(client, "/api/tk-ai/mcp/chat", "post"))
    assert (answer["end"], answer["text"]) == ("done", "It is 42.")
    assert [(call["tool"], call["ok"]) for call in answer["calls"]] == [
        ("insert_and_execute_cell", True)
    ]
    assert [change["diff"] for change in answer["changes"]] == ["@@ -0,0 +1 @@\n+6 * 7"]
    saved = nbformat.read(jp_root_dir / notebook, as_version=4)
    assert saved.cells[0].outputs[0].data["text/plain"] == "42"

    model.add(Answer.of("Six by seven."))
    status, answer = await client.say("What did I ask?", chat=answer["chat"])
    assert (status, answer["text"]) == (200, "Six by seven.")
    assert "What is six by seven?" in str(model.requests[-1].body["messages"])


@pytest.mark.proves("ext:chat", "rest:chat")
async def test_a_message_becomes_calls_cells_outputs_and_an_answer_in_order(
    client: Client, model: ScriptedModel, http: httpx2.AsyncClient, notebook: str, jp_root_dir: Path
) -> None:
    """The whole way: a notebook is connected, a cell fails, is overwritten and runs."""
    model.add(
        Answer.of("I'll connect.", ToolUse("use_notebook", {"notebook": notebook})),
        Answer.of(ToolUse("insert_and_execute_cell", {"source": "sum(price)", "index": 0})),
        Answer.of("A name.", ToolUse("overwrite_cell", {"cell": 0, "source": "sum([3, 4, 5])"})),
        Answer.of(ToolUse("execute_cell", {"cell": 0})),
        Answer.of("The total is 12."),
    )
    body = {"message": "What is the total?", "notebook": notebook, "mode": "auto"}
    accept = {"Accept": "text/event-stream"}
    async with http.stream("POST", "mcp/chat", json=body, headers=accept) as response:
        seen = [event async for event in events_of(response)]
    assert [event["number"] for event in seen] == list(range(1, len(seen) + 1))
    schema = await described_event(client, "/api/tk-ai/mcp/chat", "post")
    for event in seen:
        jsonschema.validate(event, schema)
    path = "/api/tk-ai/chats/{id}"
    _, page = await client.request("GET", path.format(id=seen[0]["chat"]).lstrip("/"))
    jsonschema.validate(page, await described(client, path, "get"))
    kinds = [
        f"{event['kind']} {event.get('tool', '')}".strip()
        for event in seen
        if event["kind"] not in ("text", "tool_progress", "usage")
    ]
    assert kinds == [
        *("message", "began", "tool_call use_notebook", "tool_result use_notebook"),
        *("tool_call insert_and_execute_cell", "cell_change"),
        "tool_result insert_and_execute_cell",
        *("tool_call overwrite_cell", "cell_change", "tool_result overwrite_cell"),
        *("tool_call execute_cell", "tool_result execute_cell", "done"),
    ]
    results = [event for event in seen if event["kind"] == "tool_result"]
    assert [event["ok"] for event in results] == [True, False, True, True]
    assert "NameError" in results[1]["text"]
    assert "12" in results[3]["text"]
    text = "".join(event["text"] for event in seen if event["kind"] == "text")
    assert text == "I'll connect.A name.The total is 12."
    assert (seen[-1]["end"], seen[-1]["text"]) == ("done", "The total is 12.")
    cell, *_ = nbformat.read(jp_root_dir / notebook, as_version=4).cells
    assert cell.source == "sum([3, 4, 5])"
    assert cell.outputs[0].data["text/plain"] == "12"


@pytest.mark.proves("rest:chat")
async def test_a_message_that_is_sent_again_under_its_id_begins_one_turn(
    client: Client, model: ScriptedModel, http: httpx2.AsyncClient, jp_root_dir: Path
) -> None:
    held = Held(Answer.of(COUNTED), after=4)
    model.add(held, Answer.of("Another."))
    body = {"message": "Count.", "id": "a", "notebook": "later.ipynb"}
    # One that was refused is not sent.
    assert (await http.post("mcp/chat", json=body)).status_code == 404
    nbformat.write(nbformat.v4.new_notebook(), jp_root_dir / "later.ipynb")
    sending = [asyncio.create_task(http.post("mcp/chat", json=body)) for _ in range(7)]
    # This one does not wait for the end.
    begun = await http.post("mcp/chat?wait=0", json=body)
    accept = {"Accept": "text/event-stream"}
    async with http.stream("POST", "mcp/chat", json=body, headers=accept) as response:
        seen = []
        async for event in events_of(response):
            seen.append(event)
            held.go_on.set()
    answers = [response.json() for response in await asyncio.gather(*sending)]
    answers.append((await http.post("mcp/chat", json=body)).json())
    assert {answer["turn"] for answer in answers} == {seen[0]["turn"]}
    turn = {"chat": seen[0]["chat"], "turn": seen[0]["turn"]}
    assert (begun.status_code, begun.json()) == (202, turn)
    assert {answer["text"] for answer in answers} == {COUNTED}
    assert [seen[0]["kind"], seen[-1]["kind"]] == ["message", "done"]
    assert len((await http.get("chats")).json()["chats"]) == 1
    other = (await http.post("mcp/chat", json={**body, "id": "b"})).json()
    assert (other["text"], other["chat"] != answers[0]["chat"]) == ("Another.", True)


@pytest.mark.proves("rest:chat")
async def test_events_come_as_they_happen_and_go_on_after_the_connection_was_lost(
    client: Client, model: ScriptedModel, http: httpx2.AsyncClient
) -> None:
    held = Held(Answer.of(COUNTED), after=4)
    model.add(held)
    accept = {"Accept": "text/event-stream"}
    seen: list[dict[str, Any]] = []
    async with http.stream("POST", "mcp/chat", json={"message": "Count."}, headers=accept) as cut:
        assert cut.headers["content-type"] == "text/event-stream"
        async for event in events_of(cut):
            seen.append(event)
            if event["kind"] == "text":
                break
    chat, last = seen[0]["chat"], seen[-1]["id"]
    held.go_on.set()
    after = {"Last-Event-ID": str(last)}
    async with asyncio.timeout(20), http.stream("GET", f"chats/{chat}/events", headers=after) as on:
        async for event in events_of(on):
            seen.append(event)
            if event["kind"] == "done":
                break
    assert [event["id"] for event in seen] == list(range(1, len(seen) + 1))
    pieces = [event for event in seen if event["kind"] == "text"]
    assert "".join(piece["text"] for piece in pieces) == COUNTED
    assert seen[-1]["end"] == "done"


@pytest.mark.proves("rest:chat")
async def test_a_permission_is_answered_and_a_stop_ends_the_turn(
    client: Client, model: ScriptedModel, http: httpx2.AsyncClient, notebook: str
) -> None:
    insert = ToolUse("insert_cell", {"source": "x = 1"})
    options = [{"label": each, "description": ""} for each in ("a", "b")]
    question = {"question": "Where?", "header": "", "options": options, "multiSelect": False}
    ask = ToolUse("AskUserQuestion", {"questions": [question]})
    model.add(Answer.of(ask), Answer.of(insert), Answer.of(insert))
    body = {"message": "Add a cell.", "notebook": notebook}
    accept = {"Accept": "text/event-stream"}
    asked: list[str] = []
    numbers: list[int] = []
    schema = await described_event(client, "/api/tk-ai/chats/{id}/events", "get")
    async with http.stream("POST", "mcp/chat", json=body, headers=accept) as response:
        async for event in events_of(response):
            jsonschema.validate(event, schema)
            if event["kind"] == "message":
                chat = event["chat"]
            if event["kind"] == "question":
                path, call = f"{CHATS}/{chat}/answer", event["call"]  # pyrefly: ignore[unbound-name]
                for wrong in ([["a", "b"]], [["a"], ["b"]], [[""]], [["a" * 2_001]], "a", None):
                    refused = await client.request("POST", path, {"call": call, "answers": wrong})
                    assert (refused[0], refused[1]["error"]["code"]) == (400, "invalid_arguments")
                body = {"call": call, "answers": [["a"]]}
                assert await client.request("POST", path, body) == (200, {"answered": True})
                assert (await client.request("POST", path, body))[0] == 404
            if event["kind"] == "permission":
                asked.append(event["id"])
                if len(asked) == 1:
                    path = f"api/tk-ai/permissions/{event['id']}"
                    assert (await client.request("POST", path, {"answer": "once"}))[0] == 200
                    status, again = await client.request("POST", path, {"answer": "deny"})
                    assert (status, again["error"]["code"]) == (404, "not_found")
                else:
                    stop = f"{CHATS}/{chat}/stop"  # pyrefly: ignore[unbound-name]
                    status, wrong = await client.request("POST", stop, {"turn": 1})
                    assert (status, wrong["error"]["code"]) == (400, "invalid_arguments")
                    another = await client.request("POST", stop, {"turn": "another"})
                    assert another == (200, {"stopped": False})
                    stopped = await client.request("POST", stop, {"turn": event["turn"]})
                    assert stopped == (200, {"stopped": True})
            numbers.append(event["number"])
            last = event
    assert (len(asked), last["kind"], last["end"]) == (2, "done", "stopped")  # pyrefly: ignore[unbound-name]
    assert numbers == list(range(1, len(numbers) + 1))
    _, read = await client.request("GET", f"{CHATS}/{chat}")  # pyrefly: ignore[unbound-name]
    jsonschema.validate(read, await described(client, "/api/tk-ai/chats/{id}", "get"))
    status, late = await client.request(
        "POST", f"api/tk-ai/permissions/{asked[1]}", {"answer": "once"}
    )
    assert (status, late["error"]["code"]) == (404, "not_found")


@pytest.mark.proves("rest:chat", "perm:plan-approval", "edit:plan-mode")
async def test_a_plan_is_approved_and_carried_out(
    client: Client, model: ScriptedModel, http: httpx2.AsyncClient, notebook: str, jp_root_dir: Path
) -> None:
    model.add(Answer.of("I would add a cell."))
    status, planned = await client.say("Plan it.", notebook=notebook, mode="plan")
    assert (status, planned["plan"], planned["text"]) == (200, True, "I would add a cell.")
    chat = planned["chat"]
    for wrong, code, error in (
        ({"approves": planned["turn"]}, 400, "invalid_arguments"),
        ({"approves": planned["turn"], "chat": chat, "mode": "plan"}, 400, "invalid_arguments"),
        ({"approves": "another", "chat": chat}, 404, "not_found"),
    ):
        status, refused = await client.say("", **wrong)
        assert (status, refused["error"]["code"]) == (code, error)

    model.add(Answer.of("And a heading."))
    status, revised = await client.say(
        "With a heading.", chat=chat, notebook_of=planned["turn"], mode="plan"
    )
    assert (status, revised["plan"], revised["text"]) == (200, True, "And a heading.")

    insert = ToolUse("insert_cell", {"source": "# Prices", "cell_type": "markdown", "index": 0})
    model.add(Answer.of(insert), Answer.of("Done."))
    body = {"message": "", "chat": chat, "approves": revised["turn"], "mode": "edit"}
    accept = {"Accept": "text/event-stream"}
    seen: list[dict[str, Any]] = []
    async with http.stream("POST", "mcp/chat", json=body, headers=accept) as response:
        seen = [event async for event in events_of(response)]
    assert [event["kind"] for event in seen][:3] == ["message", "began", "tool_call"]
    assert (seen[-1]["end"], seen[-1]["text"]) == ("done", "Done.")
    assert nbformat.read(jp_root_dir / notebook, as_version=4).cells[0].source == "# Prices"


@pytest.mark.proves("threat:exhaustion")
async def test_so_many_streams_of_a_user_are_open(
    client: Client,
    model: ScriptedModel,
    http: httpx2.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "MAX_STREAMS", 1)
    model.add(Answer.of("Yes."))
    chat = (await client.say("Are you there?"))[1]["chat"]
    async with http.stream("GET", f"chats/{chat}/events") as response:
        following = events_of(response)
        await anext(following)
        refused = await http.get(f"chats/{chat}/events")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "limit_reached")


@pytest.mark.proves("rest:chat")
async def test_chats_are_listed_read_renamed_exported_undone_and_deleted(
    client: Client, model: ScriptedModel, ask: Ask, jp_auth_header: dict[str, str], notebook: str
) -> None:
    model.add(Answer.of(ToolUse("insert_cell", {"source": "x = 1"})), Answer.of("Added."))
    _, answer = await client.say("Add a cell.", notebook=notebook, mode="auto")
    path = f"{CHATS}/{answer['chat']}"

    status, found = await client.request("GET", CHATS)
    jsonschema.validate(found, await described(client, "/api/tk-ai/chats", "get"))
    assert (status, [chat["title"] for chat in found["chats"]]) == (200, ["Add a cell."])
    searches = {"cell": 1, "ADDED cell": 1, "Added missing": 0, "%": 0, "_": 0}
    for words, count in searches.items():
        _, found = await client.request("GET", f"{CHATS}?search={quote(words)}")
        assert (words, len(found["chats"])) == (words, count)
    status, renamed = await client.request("PATCH", path, {"title": "One more"})
    assert (status, renamed["title"]) == (200, "One more")
    _, read = await client.request("GET", path)
    jsonschema.validate(read, await described(client, "/api/tk-ai/chats/{id}", "get"))
    assert read["chat"]["title"] == "One more"
    assert read["events"][-1]["kind"] == "done"
    assert read["next"] is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_store, "PAGE_BYTES", 1)
        pages = [(await client.request("GET", path))[1]]
        while (after := pages[-1]["next"]) is not None:
            pages.append((await client.request("GET", f"{path}?after={after}"))[1])
    assert [each for page in pages for each in page["events"]] == read["events"]
    assert {len(page["events"]) for page in pages} == {1}
    assert (await client.request("GET", f"{path}?after=x"))[0] == 400

    markdown = await ask("GET", f"{path}/export", **jp_auth_header)
    assert markdown.body.decode().startswith(
        "# One more\n\n## You (plan.ipynb)\n\nAdd a cell.\n\n"
        "## Claude\n\n**insert_cell**\n\n```\nx = 1\n```\n\n"
    )
    exported = await ask("GET", f"{path}/export?format=notebook", **jp_auth_header)
    nbformat.validate(nbformat.reads(exported.body.decode(), as_version=4))
    assert exported.headers["Content-Disposition"].startswith("attachment")

    for wrong in ("999999", "-1", "one", "9" * 30):
        refused = await ask("GET", f"{path}/events", Last_Event_ID=wrong, **jp_auth_header)
        assert (refused.code, "invalid_arguments" in str(refused.body)) == (400, True)

    changes = f"{path}/changes/{answer['turn']}"
    status, net = await client.request("GET", changes)
    address = "/api/tk-ai/chats/{id}/changes/{turn}"
    jsonschema.validate(net, await described(client, address, "get"))
    (change,) = net["changes"]
    assert (status, change["action"], change["notebook"]) == (200, "insert", notebook)
    (made,) = answer["changes"]
    assert (change["cell"], change["entries"]) == (made["cell"], [made["entry"]])

    undo = {"turn": answer["turn"]}
    status, undone = await client.request("POST", f"{path}/undo", undo)
    jsonschema.validate(undone, await described(client, "/api/tk-ai/chats/{id}/undo", "post"))
    assert status == 200
    assert [each["notebook"] for each in undone["notebooks"]] == [notebook]
    status, again = await client.request("POST", f"{path}/undo", undo)
    assert (status, again["error"]["code"]) == (409, "nothing_to_undo")
    assert (await client.request("GET", changes))[1]["changes"] == []

    assert await client.request("DELETE", path) == (200, {"deleted": answer["chat"]})
    status, gone = await client.request("GET", path)
    assert (status, gone["error"]["code"]) == (404, "chat_not_found")


@pytest.mark.proves("rest:chat")
async def test_the_models_are_listed_without_a_secret(client: Client) -> None:
    status, found = await client.request("GET", "api/tk-ai/models")
    jsonschema.validate(found, await described(client, "/api/tk-ai/models", "get"))
    assert (status, found["model"], found["ready"]) == (200, MODEL, True)
    assert "sk-ant" not in json.dumps(found)


WRONG_MESSAGES: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({"message": ""}, 400, "invalid_arguments"),
    ({"message": " \n"}, 400, "invalid_arguments"),
    ({"message": "x" * 1_000_000}, 400, "invalid_arguments"),
    ({"message": ["x"]}, 400, "invalid_arguments"),
    ({"mode": "root"}, 400, "invalid_arguments"),
    ({"model": "gpt-0"}, 409, "no_model"),
    ({"chat": "nobody's"}, 404, "chat_not_found"),
    ({"chat": "a\ud800"}, 404, "chat_not_found"),
    ({"notebook": "../outside.ipynb"}, 403, "path_refused"),
    ({"notebook": "missing.ipynb"}, 404, "notebook_not_found"),
    ({"notebook": "folder"}, 400, "invalid_arguments"),
    ({"attachments": [{"kind": "cell", "cell": "1"}] * 50}, 400, "invalid_arguments"),
    ({"attachments": [{"kind": "program"}]}, 400, "invalid_arguments"),
    ({"more": 1}, 400, "invalid_arguments"),
)


async def test_an_invalid_message_is_refused_and_the_model_is_not_asked(
    client: Client, model: ScriptedModel
) -> None:
    with Cases() as cases:
        for fields, status, code in WRONG_MESSAGES:
            with cases.case(fields):
                refused, answer = await client.request(
                    "POST", "api/tk-ai/mcp/chat", {"message": "Hello.", **fields}
                )
                assert (refused, answer["error"]["code"]) == (status, code)
    assert model.requests == []
    assert (await client.request("GET", CHATS))[1] == {"chats": []}


@pytest.mark.proves("chat:one-end")
async def test_a_refused_key_is_reported_with_what_to_do(
    client: Client, model: ScriptedModel
) -> None:
    model.add(*[UNAUTHORIZED] * 5)
    status, answer = await client.say("Hello.")
    assert (status, answer["error"]["code"]) == (502, "model_unauthorized")
    assert "key" in answer["error"]["hint"]
