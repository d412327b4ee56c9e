"""The tools for programs."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.bad_input import BAD_CALLS, contents, prepare
from tests.cases import Cases
from tests.server.conftest import Ask, Call
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
async def test_an_unknown_route_is_a_typed_error(ask: Ask, jp_auth_header: dict[str, str]) -> None:
    paths = ("api/tk-ai", "api/tk-ai/", "api/tk-ai/nothing", "api/tk-ai/tools/a/b")
    with Cases() as cases:
        for path, method in product(paths, ("GET", "POST", "DELETE")):
            with cases.case(method, path):
                response = await ask(method, path, **jp_auth_header)
                assert response.code == 404
                assert json.loads(response.body)["error"]["code"] == "not_found"


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
