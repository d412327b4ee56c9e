"""The tools for programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import nbformat
import pytest

from tests.bad_input import BAD_CALLS, contents, prepare
from tests.cases import Cases
from tests.server.conftest import Ask, Call, Event
from tk_ai_extension._version import __version__

DEADLINE = 60


@pytest.mark.proves("rest:call")
async def test_health_says_that_it_is_up_and_what_it_works_with(
    ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    response = await ask("GET", "api/tk-ai/health", **jp_auth_header)
    health = json.loads(response.body)
    assert response.code == 200
    assert health["status"] == "ok"
    assert health["version"] == __version__
    assert health["toolsets"] == ["default"]
    assert health["backends"] == {"documents": "file", "executor": "stack"}
    assert health["chat"]["ready"]
    assert health["chat"]["hint"]


@pytest.mark.proves("rest:call")
async def test_tools_are_listed_with_their_schemas(
    ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    response = await ask("GET", "api/tk-ai/tools", **jp_auth_header)
    tools = {tool["name"]: tool for tool in json.loads(response.body)["tools"]}
    assert len(tools) > 30
    assert tools["execute_cell"]["effect"] == "EXECUTE"
    assert "cell" in tools["execute_cell"]["input_schema"]["required"]
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool["input_schema"])
        jsonschema.Draft202012Validator.check_schema(tool["output_schema"])
        assert tool["description"]


@pytest.mark.proves("rest:call", "ext:toolsets")
async def test_an_unknown_toolset_is_refused(ask: Ask, jp_auth_header: dict[str, str]) -> None:
    for path in ("api/tk-ai/tools?toolsets=nonsense", "api/tk-ai/tools?toolsets="):
        response = await ask("GET", path, **jp_auth_header)
        assert response.code == 400
        assert json.loads(response.body)["error"]["code"] == "invalid_arguments"


@pytest.mark.proves("rest:call")
async def test_a_call_takes_json_and_answers_the_structured_result(
    call: Call, notebook: str
) -> None:
    status, used = await call("use_notebook", notebook=notebook)
    assert status == 200
    assert used["notebook"] == notebook
    status, ran = await call("execute_cell", cell="prints00")
    assert status == 200
    assert ran["status"] == "ok"
    assert ran["runs"][0]["output"] == "line 0\nline 1\nline 2\n42"


@pytest.mark.proves("rest:call")
async def test_the_compact_text_is_answered_where_only_text_is_accepted(
    ask: Ask, jp_auth_header: dict[str, str], notebook: str
) -> None:
    response = await ask(
        "POST",
        "api/tk-ai/tools/list_cells",
        {"notebook": notebook},
        Accept="text/plain",
        **jp_auth_header,
    )
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "prin" in response.body.decode()


@pytest.mark.proves("rest:call")
async def test_calls_of_one_key_belong_together(call: Call, notebook: str) -> None:
    await call("use_notebook", caller="a", notebook=notebook)
    status, cells = await call("list_cells", caller="a")
    assert (status, len(cells["cells"])) == (200, 2)
    status, refused = await call("list_cells", caller="b")
    assert (status, refused["error"]["code"]) == (400, "invalid_arguments")


@pytest.mark.proves("rest:call", "threat:path", "doc:errors")
async def test_bad_input_has_the_status_and_code_of_its_kind_and_changes_nothing(
    call: Call, jp_root_dir: Path
) -> None:
    prepare(jp_root_dir)
    before = contents(jp_root_dir)
    for tool, arguments, status, code in [*BAD_CALLS, ("sing", {}, 404, "unknown_tool")]:
        answered, body = await call(tool, **arguments)
        assert (answered, body["error"]["code"]) == (status, code), (tool, arguments)
        assert body["error"]["hint"]
    assert contents(jp_root_dir) == before


@pytest.mark.proves("rest:call")
async def test_a_body_that_is_no_json_object_is_refused(
    ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    with Cases() as cases:
        for body in (b"{", b"[1]", b'"a"', b"\xff", b"[" * 100_000):
            with cases.case(body):
                response = await ask("POST", "api/tk-ai/tools/list_kernels", body, **jp_auth_header)
                assert response.code == 400
                assert json.loads(response.body)["error"]["code"] == "invalid_arguments"


@pytest.mark.proves("rest:call")
async def test_a_cell_that_fails_is_an_answer_and_no_error_of_the_request(
    call: Call, notebook: str
) -> None:
    status, ran = await call("execute_cell", notebook=notebook, cell="fails000")
    assert (status, ran["status"]) == (200, "error")
    assert ran["runs"][0]["error"] == "ZeroDivisionError: division by zero"


@pytest.mark.proves("rest:call")
async def test_every_route_is_below_the_base_url(
    ask: Ask, jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int
) -> None:
    assert jp_base_url != "/"
    assert (await ask("GET", "api/tk-ai/health", **jp_auth_header)).code == 200
    outside = "../" * jp_base_url.count("/") + "api/tk-ai/health"
    assert (await ask("GET", outside, **jp_auth_header)).code == 404


@pytest.mark.proves("rest:call")
async def test_an_unknown_route_is_a_typed_error(ask: Ask, jp_auth_header: dict[str, str]) -> None:
    paths = ("api/tk-ai", "api/tk-ai/", "api/tk-ai/nothing", "api/tk-ai/tools/a/b")
    with Cases() as cases:
        for path, method in product(paths, ("GET", "POST", "DELETE")):
            with cases.case(method, path):
                response = await ask(method, path, **jp_auth_header)
                assert response.code == 404
                assert json.loads(response.body)["error"]["code"] == "not_found"


# -- executions


class Stream:
    """Server-sent events, as a client that can be cut off reads them."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.last = "0"

    async def __aiter__(self) -> AsyncIterator[Event]:
        fields: dict[str, str] = {}
        while line := (await self._reader.readline()).decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
            if name == "data":
                self.last = fields["id"]
                yield fields["id"], fields["event"], json.loads(value)
                await self._reader.readline()


@pytest.fixture
def follow(jp_base_url: str, jp_http_port: int, jp_auth_header: dict[str, str]) -> Any:
    @asynccontextmanager
    async def connected(execution_id: str, last: str | None = None) -> AsyncGenerator[Stream]:
        reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
        headers = {"Host": f"127.0.0.1:{jp_http_port}", "Connection": "close", **jp_auth_header}
        if last is not None:
            headers["Last-Event-ID"] = last
        request = [f"GET {jp_base_url}api/tk-ai/executions/{execution_id} HTTP/1.0"]
        request += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*request, "", ""]).encode())
        status = await reader.readline()
        assert b" 200 " in status, status
        await reader.readuntil(b"\r\n\r\n")
        yield Stream(reader)
        writer.close()

    return connected


def _text(events: list[Event]) -> str:
    """The stream output of the events."""
    text = ""
    for _, kind, data in events:
        if kind == "output" and "text" in data:
            assert data["start"] == len(text)
            text += data["text"]
        elif kind == "output" and data.get("cut"):
            text = text[: data["start"]] if data["index"] == 0 else text
    return text


@pytest.mark.proves("rest:chat", "out:stream")
async def test_an_execution_streams_its_events_and_resumes_where_the_connection_was_lost(
    call: Call, follow: Any, notebook: str, jp_root_dir: Any
) -> None:
    code = (
        "import time, os\n"
        "for i in range(40):\n    print('line', i, flush=True); time.sleep(0.02)\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        "print('end')"
    )
    async with asyncio.timeout(DEADLINE):
        _, started = await call("execute_ipython", notebook=notebook, code=code, wait=0)
        execution_id = started["execution_id"]
        seen: list[Event] = []
        async with follow(execution_id) as stream:
            async for event in stream:
                seen.append(event)
                if "line 5\n" in _text(seen):
                    break
            last = stream.last
        (jp_root_dir / "go").touch()
        async with follow(execution_id, last) as stream:
            rest = [event async for event in stream]
    assert _text([*seen, *rest]) == "".join(f"line {i}\n" for i in range(40)) + "end\n"
    assert not {event[0] for event in seen} & {event[0] for event in rest}
    assert rest[-1][1:] == ("done", {"status": "ok"})


@pytest.mark.proves("rest:chat", "exec:display-update")
async def test_overwritten_output_is_truncated_and_sent_again(
    call: Call, follow: Any, notebook: str
) -> None:
    code = (
        "from IPython.display import clear_output, display\n"
        "print('gone'); clear_output()\n"
        "handle = display('first', display_id=True); print('after')\n"
        "handle.update('second')"
    )
    async with asyncio.timeout(DEADLINE):
        _, ran = await call("execute_ipython", notebook=notebook, code=code)
        outputs: list[Any] = []
        async with follow(ran["execution_id"]) as stream:
            async for _, kind, data in stream:
                if kind == "output" and data.get("cut"):
                    del outputs[data["index"] + (data["start"] > 0) :]
                elif kind == "output":
                    del outputs[data["index"] :]
                    outputs.append(data.get("text") or data["output"]["data"]["text/plain"])
    assert outputs == ["'second'", "after\n"]


async def test_an_execution_that_is_over_is_sent_whole(
    call: Call, follow: Any, notebook: str
) -> None:
    _, ran = await call("execute_cell", notebook=notebook, cell="prints00")
    async with asyncio.timeout(DEADLINE), follow(ran["execution_id"]) as stream:
        events = [event async for event in stream]
    assert _text(events) == "line 0\nline 1\nline 2\n"
    assert events[-1][1] == "done"


# -- artifacts


@pytest.mark.proves("threat:other-user", "out:artifact")
async def test_a_long_output_is_an_artifact_that_comes_whole(
    call: Call, ask: Ask, jp_auth_header: dict[str, str], notebook: str
) -> None:
    code = "for i in range(5000): print('row', i)"
    _, ran = await call("execute_ipython", notebook=notebook, code=code)
    artifact = ran["runs"][0]["artifact"]
    response = await ask("GET", f"api/tk-ai/artifacts/{artifact}", **jp_auth_header)
    assert response.code == 200
    assert response.headers["Content-Type"].startswith("text/plain")
    assert response.body.decode().splitlines() == [f"row {i}" for i in range(5000)]
    missing = await ask("GET", "api/tk-ai/artifacts/AAAAAAAAAAAA", **jp_auth_header)
    assert (missing.code, json.loads(missing.body)["error"]["code"]) == (404, "not_found")


async def test_a_notebook_that_was_run_is_valid_on_disk(
    call: Call, notebook: str, jp_root_dir: Any
) -> None:
    await call("execute_cell", notebook=notebook, cell="prints00")
    saved = nbformat.read(jp_root_dir / notebook, as_version=4)
    nbformat.validate(saved)
    assert saved.cells[0].execution_count == 1


@pytest.mark.proves("kernel:shared-live")
async def test_a_notebook_that_a_person_renames_keeps_what_is_known_of_it(
    call: Call, notebook: str, jp_fetch: Any
) -> None:
    await call("use_notebook", notebook=notebook)
    await call("insert_cell", source="mine = 1")
    body = json.dumps({"path": "renamed.ipynb"})
    await jp_fetch("api", "contents", notebook, method="PATCH", body=body)
    _, managed = await call("list_managed_notebooks")
    assert [entry["notebook"] for entry in managed["notebooks"]] == ["renamed.ipynb"]
    status, undone = await call("undo")
    assert (status, undone["notebook"]) == (200, "renamed.ipynb")
