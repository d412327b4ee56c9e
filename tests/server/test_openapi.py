"""The description of the routes, and whether they do what it says."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from tests.documentation import written
from tests.server.conftest import Ask, Call
from tk_ai_extension.server.handlers.handler import NotFoundHandler
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.tools.registry import Registry

PREFIX = "/api/tk-ai"
NOT_REST = {"mcp"}
"""Routes that speak a protocol of their own."""


@pytest.fixture
async def described(ask: Ask, jp_auth_header: dict[str, str]) -> Any:
    response = await ask("GET", "api/tk-ai/openapi.json", **jp_auth_header)
    assert response.code == 200
    return json.loads(response.body)


def _validator(described: Any, schema: Any) -> jsonschema.Draft202012Validator:
    """Holds a value against a schema of the description, whose references point into it."""
    return jsonschema.Draft202012Validator({**schema, "components": described["components"]})


def _schema(
    described: Any, path: str, method: str, status: str, kind: str = "application/json"
) -> Any:
    response = described["paths"][path][method]["responses"][status]
    if "$ref" in response:
        response = described["components"]["responses"][response["$ref"].rpartition("/")[2]]
    return response["content"][kind]["schema"]


def _references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*(_references(value) for value in node.values()))
    return set().union(*(_references(item) for item in node)) if isinstance(node, list) else set()


@pytest.mark.proves("rest:openapi", "rest:base-url")
async def test_it_describes_every_route_under_the_base_url(
    described: Any, jp_base_url: str
) -> None:
    assert described["openapi"].startswith("3.1")
    assert described["servers"] == [{"url": jp_base_url.rstrip("/")}]
    for pattern, handler in ROUTES:
        if pattern.rpartition("/")[2] in NOT_REST or handler is NotFoundHandler:
            continue
        found = [path for path in described["paths"] if _matches(pattern, path)]
        assert found, pattern
        methods = {
            method for method in ("get", "post", "patch", "delete") if method in vars(handler)
        }
        assert all(set(described["paths"][path]) == methods for path in found)
    for path in described["paths"]:
        handler = next(handler for pattern, handler in ROUTES if _matches(pattern, path))
        assert handler is not NotFoundHandler, path


def _example(path: str) -> str:
    """A path with parameters that name nothing."""
    return re.sub(r"\{\w+\}", "nothing", path.lstrip("/"))


def _matches(pattern: str, path: str) -> bool:
    return re.fullmatch(f"/{pattern}", re.sub(r"\{\w+\}", "x", path)) is not None


@pytest.mark.proves("rest:openapi")
async def test_its_schemas_are_schemas_and_its_references_lead_somewhere(described: Any) -> None:
    for reference in _references(described):
        node = described
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.proves("rest:openapi")
async def test_the_routes_answer_as_it_says(
    described: Any, ask: Ask, call: Call, jp_auth_header: dict[str, str], notebook: str
) -> None:
    for name in ("health", "tools", "openapi.json"):
        path = f"{PREFIX}/{name}"
        response = await ask("GET", path.lstrip("/"), **jp_auth_header)
        schema = _schema(described, path, "get", "200")
        _validator(described, schema).validate(json.loads(response.body))

    # Each tool once as it should be called, where that needs no more than the notebook.
    arguments: dict[str, dict[str, Any]] = {
        "list_notebooks": {},
        "create_notebook": {"notebook": "made.ipynb"},
        "use_notebook": {"notebook": notebook},
        "list_managed_notebooks": {},
        "list_cells": {},
        "read_cell": {"cell": 0},
        "read_notebook": {},
        "search_cells": {"pattern": "print"},
        "insert_cell": {"source": "a = 1"},
        "edit_cell": {"cell": -1, "old": "a = 1", "new": "a = 2"},
        "move_cell": {"cell": -1, "to": 0},
        "execute_cell": {"cell": "prints00"},
        "execute_cells": {"which": "all"},
        "execute_ipython": {"code": "b = 1"},
        "list_kernels": {},
        "list_running_kernels": {},
        "get_kernel_status": {},
        "list_variables": {},
        "list_files": {},
        "notebook_history": {},
        "undo": {},
        "interrupt_kernel": {},
        "unuse_notebook": {},
    }
    for tool, given in arguments.items():
        path = f"{PREFIX}/tools/{tool}"
        request = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        _validator(described, request["schema"]).validate(given)
        status, answer = await call(tool, **given)
        assert status == 200, (tool, answer)
        _validator(described, _schema(described, path, "post", "200")).validate(answer)


@pytest.mark.proves("rest:openapi", "rest:errors")
async def test_whatever_is_wrong_is_the_error_that_it_describes(
    described: Any, ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    for path, operations in described["paths"].items():
        for method in operations:
            where = _example(path)
            body = b'{"no such argument": 1}' if method in ("post", "patch") else None
            refused = [await ask(method.upper(), where, body)]
            if "{" in path or method == "post":
                refused.append(await ask(method.upper(), where, body, **jp_auth_header))
            for response in refused:
                assert 400 <= response.code < 500, (path, response.code)
                schema = _schema(described, path, method, "default")
                _validator(described, schema).validate(json.loads(response.body))


async def test_the_description_is_of_use_to_a_generator(described: Any) -> None:
    names = [
        operation["operationId"]
        for operations in described["paths"].values()
        for operation in operations.values()
    ]
    assert len(names) == len(set(names))
    assert all(name.isidentifier() for name in names)


@pytest.mark.proves("rest:openapi")
async def test_each_parameter_has_a_name_of_its_own_and_is_in_the_path(described: Any) -> None:
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            known = [(each["name"], each["in"]) for each in operation["parameters"]]
            assert len(known) == len(set(known)), (method, path)
            in_path = [name for name, place in known if place == "path"]
            assert in_path == re.findall(r"\{(\w+)\}", path), (method, path)


@pytest.mark.proves("rest:openapi")
async def test_the_paths_in_the_documentation_are_those_of_the_description(described: Any) -> None:
    named = {
        (method.lower(), path)
        for name, text in written().items()
        if not name.startswith(("docs/adr/", "CHANGELOG"))
        for method, path in re.findall(r"`(GET|POST|PATCH|DELETE) (/api/tk-ai/[\w/{}.-]+)", text)
    }
    known = {
        (method, path) for path, operations in described["paths"].items() for method in operations
    }
    assert ("get", f"{PREFIX}/chats/{{id}}/changes/{{turn}}") in named
    assert named - known == set()


@pytest.mark.proves("rest:openapi")
async def test_a_summary_is_one_sentence_and_a_description_is_the_whole_text(
    described: Any,
) -> None:
    tools = {tool.name: " ".join(tool.description.split()) for tool in Registry.load()}
    for operations in described["paths"].values():
        for operation in operations.values():
            summary, description = operation["summary"], operation["description"]
            assert description.startswith(f"{summary}."), operation["operationId"]
            assert ". " not in summary
            assert description == tools.get(operation["operationId"], description)
            assert "\n" not in description
            assert description[-1] in ".`", operation["operationId"]


@pytest.mark.proves("rest:methods")
async def test_methods_that_a_route_has_not_are_refused_and_named(
    described: Any, ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    for path, operations in described["paths"].items():
        has = {method.upper() for method in operations} | {"OPTIONS"}
        where = _example(path)
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} - has:
            response = await ask(method, where, **jp_auth_header)
            assert response.code == 405, (method, path, response.code)
            assert set(response.headers["Allow"].split(", ")) == has, (method, path)
            assert response.headers["Connection"] == "close"


@pytest.mark.proves("rest:methods", "rest:openapi")
async def test_a_body_may_be_missing_where_the_description_says_so(
    described: Any, ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    optional = [
        path
        for path, operations in described["paths"].items()
        if "post" in operations and not operations["post"]["requestBody"]["required"]
    ]
    assert f"{PREFIX}/tools/list_kernels" in optional
    for path in (f"{PREFIX}/tools/{name}" for name in ("list_kernels", "list_managed_notebooks")):
        response = await ask("POST", path.lstrip("/"), b"", **jp_auth_header)
        assert response.code == 200, response.body
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        where = f"{PREFIX}/tools/list_kernels".lstrip("/")
        response = await ask("POST", where, b"", Content_Type=kind, **jp_auth_header)
        assert response.code == 415
