"""Requests for permission are shown and answered over REST, by the user whom they wait for."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from traitlets.config import Config

from tests.cases import Cases
from tests.server.conftest import Ask, Call

PATH = "api/tk-ai/permissions"


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    jp_server_config.TkAIExtensionApp.mode_cap = "ask"
    return jp_server_config


async def waiting(ask: Ask, headers: dict[str, str]) -> Any:
    response = await ask("GET", PATH, **headers)
    assert response.code == 200
    described = json.loads((await ask("GET", "api/tk-ai/openapi.json", **headers)).body)
    answer = described["paths"][f"/{PATH}"]["get"]["responses"]["200"]
    found = json.loads(response.body)
    jsonschema.validate(found, answer["content"]["application/json"]["schema"])
    return found["permissions"]


@pytest.mark.proves("mcp:permission-required", "perm:approvals")
async def test_a_request_shows_the_code_and_its_answer_lets_just_that_run(
    ask: Ask, call: Call, notebook: str, jp_auth_header: dict[str, str]
) -> None:
    arguments = {"notebook": notebook, "cell": "prints00"}
    status, refused = await call("execute_cell", **arguments)
    assert (status, refused["error"]["code"]) == (403, "permission_required")
    (request,) = await waiting(ask, jp_auth_header)
    assert request["id"] == refused["error"]["details"]["permission_id"]
    assert "6 * 7" in request["preview"]
    assert request["notebook"] == notebook
    answered = await ask("POST", f"{PATH}/{request['id']}", {"answer": "once"}, **jp_auth_header)
    assert json.loads(answered.body) == {"id": request["id"], "answer": "once"}
    assert await waiting(ask, jp_auth_header) == []
    assert (await call("execute_cell", **arguments))[0] == 200
    assert (await call("execute_cell", **arguments))[0] == 403


@pytest.mark.proves("mcp:permission-required", "perm:approvals")
async def test_a_person_may_deny_and_the_call_gets_an_error(
    ask: Ask, call: Call, notebook: str, jp_auth_header: dict[str, str]
) -> None:
    await call("insert_cell", notebook=notebook, source="x")
    (request,) = await waiting(ask, jp_auth_header)
    deny = {"answer": "deny", "message": "not here"}
    await ask("POST", f"{PATH}/{request['id']}", deny, **jp_auth_header)
    late = await ask("POST", f"{PATH}/{request['id']}", {"answer": "once"}, **jp_auth_header)
    assert (late.code, json.loads(late.body)["error"]["code"]) == (404, "not_found")
    status, refused = await call("insert_cell", notebook=notebook, source="x")
    assert (status, refused["error"]["code"]) == (403, "permission_denied")
    assert refused["error"]["details"]["user_message"] == "not here"


WRONG_ANSWERS: tuple[tuple[str | None, dict[str, Any], int], ...] = (
    ("nothing", {"answer": "once"}, 404),
    (None, {"answer": "yes"}, 400),
    (None, {"answer": ["once"]}, 400),
    (None, {"answer": "once", "more": 1}, 400),
    (None, {"answer": "once", "message": "why"}, 400),
    (None, {"answer": "deny", "message": "x" * 2001}, 400),
    (None, {"answer": "deny", "message": 1}, 400),
    (None, {}, 400),
)


@pytest.mark.proves("mcp:permission-required", "rest:call")
async def test_an_invalid_answer_is_refused_and_the_request_stays_pending(
    ask: Ask, call: Call, notebook: str, jp_auth_header: dict[str, str]
) -> None:
    await call("insert_cell", notebook=notebook, source="x")
    (request,) = await waiting(ask, jp_auth_header)
    with Cases() as cases:
        for name, body, status in WRONG_ANSWERS:
            with cases.case(name, body):
                path = f"{PATH}/{name or request['id']}"
                assert (await ask("POST", path, body, **jp_auth_header)).code == status
                assert await waiting(ask, jp_auth_header) == [request]
