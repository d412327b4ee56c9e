"""Every route refuses requests without access, even if they are otherwise valid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from getpass import getuser
from http.cookies import SimpleCookie
from itertools import product
from types import SimpleNamespace
from typing import Any, ClassVar

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError, HTTPResponse
from traitlets.config import Config

from tests.server.conftest import Ask
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.server.handlers.base_handler import (
    ROUTE_ERRORS,
    is_origin_allowed,
)
from tk_ai_extension.server.handlers.page_websocket import SOCKETS
from tk_ai_extension.server.handlers.routes import ROUTES

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def _path(pattern: str) -> str:
    """An address of a route."""
    named = pattern.replace("(?:/.*)?", "/nothing")
    return re.sub(r"\(.*?\)", "list_kernels", named).replace("\\", "")


PATHS = [_path(pattern) for pattern, _ in ROUTES]
ALL_PATHS = [
    *PATHS,
    *(_path(pattern) for pattern, _ in SOCKETS),
]
ORIGINS = ("http://evil.example", "https://evil.example:8888", "null", "http://[", "http://a]")
HOSTS = ("evil.example", "evil.example:8888", "10.0.0.1")


def _implemented() -> list[tuple[str, str]]:
    """The routes' own methods, each with an address."""
    return [
        (method.upper(), path)
        for (_, handler), path in zip(ROUTES, PATHS, strict=True)
        for method in ("get", "post", "patch", "delete")
        if method in vars(handler)
    ]


def _error(response: HTTPResponse) -> dict[str, Any]:
    error = json.loads(response.body)["error"]
    error = error.get("data", {}).get("error", error)  # as JSON-RPC wraps it
    assert set(error) >= {"code", "message", "hint", "retryable"}
    return error


REFUSALS = {"internal_error", *(code for code, _ in ROUTE_ERRORS.values())}


def _has_codes(error: dict[str, Any]) -> bool:
    """Whether the code of an error is documented, and it says what happened and what to do."""
    known = {*REFUSALS, *(each.code for each in _errors(ToolError))}
    return error["code"] in known and bool(error["message"] and error["hint"])


def _errors(kind: type[ToolError]) -> Iterator[type[ToolError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _errors(each)


def _sent(cookies: SimpleCookie) -> str:
    return "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())


def _is_let_in(response: HTTPResponse) -> bool:
    """Whether a request reached its handler, which may refuse its body."""
    return response.code < 500 and response.code not in {401, 403}


@pytest.mark.proves("threat:no-token", "threat:csrf")
async def test_no_route_answers_without_a_token(ask: Ask) -> None:
    for path, method in product(PATHS, METHODS):
        for headers in ({}, {"Authorization": "token wrong"}, {"Cookie": "username=nobody"}):
            response = await ask(method, path, **headers)
            assert response.code == 401, (method, path)
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
            if method != "HEAD":
                error = _error(response)
                assert error["code"] == "unauthenticated"
                assert "token" in error["message"]
            assert b'"tools"' not in response.body


@pytest.mark.proves("rest:call")
async def test_every_error_of_every_route_has_codes(
    ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    wrong: list[tuple[bytes, dict[str, str]]] = [
        (b"", {}),
        (b"", {"Authorization": "token wrong"}),
        (b"", {**jp_auth_header, "Origin": "http://evil.example"}),
        (b"", {**jp_auth_header, "Host": "evil.example"}),
        (b"", {**jp_auth_header, "Upgrade": "websocket"}),
        (b"text", {**jp_auth_header, "Content_Type": "text/plain"}),
        (b"{", jp_auth_header),
        (b"[]", jp_auth_header),
    ]
    for path, method, (body, headers) in product(
        ALL_PATHS, ("GET", "POST", "PUT", "DELETE"), wrong
    ):
        response = await ask(method, path, body, **headers)
        # What MCP's SDK refuses is an error of JSON-RPC, which has a number as its code.
        is_rpc = path == "api/tk-ai/mcp" and response.code not in (401, 403, 405, 415)
        if is_rpc and response.code >= 400:
            assert isinstance(json.loads(response.body)["error"]["code"], int)
        elif response.code >= 400:
            assert _has_codes(_error(response)), (method, path, body, headers, response.body)


@pytest.mark.proves("threat:csrf")
async def test_another_origin_is_refused_even_with_the_token(
    ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    for (method, path), origin in product(_implemented(), ORIGINS):
        response = await ask(method, path, Origin=origin, **jp_auth_header)
        assert response.code == 403, (method, path, origin)
        assert _error(response)["code"] == "forbidden"
        assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.proves("threat:csrf")
async def test_another_origin_gets_no_permission_in_advance(ask: Ask) -> None:
    for path in PATHS:
        response = await ask(
            "OPTIONS",
            path,
            Origin="http://evil.example",
            Access_Control_Request_Method="POST",
            Access_Control_Request_Headers="authorization,content-type",
        )
        assert response.code == 403
        assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.proves("threat:csrf", "rest:call")
async def test_a_malformed_origin_or_referrer_is_as_another_one(
    ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    login = await ask("GET", "api/me", **jp_auth_header)
    cookie = _sent(SimpleCookie("; ".join(login.headers.get_list("Set-Cookie"))))
    for path, name in product(ALL_PATHS, ("Origin", "Referer")):
        for sent in ({}, {"Cookie": cookie}, jp_auth_header):
            other, malformed = [
                (await ask("GET", path, **sent, **{name: origin})).code
                for origin in ("http://evil.example", "http://[")
            ]
            assert malformed == other < 500, (path, name, sent)


@given(
    st.one_of(
        st.text(st.characters(min_codepoint=ord("!"))),
        st.text(alphabet="[]:/@.%a1\u2100").map("http://{}".format),
        st.text(alphabet="[]:/@.%a1\u2100").map("http://here:1{}".format),
    )
)
def test_no_other_text_is_the_servers_own_origin(origin: str) -> None:
    handler: Any = SimpleNamespace(
        get_origin=lambda: origin,
        request=SimpleNamespace(host="here:1"),
        allow_origin="",
        allow_origin_pat="",
    )
    flags = re.IGNORECASE | re.DOTALL
    is_own = re.fullmatch(r"([a-z][a-z0-9+.-]*:)?//here:1([/?#].*)?", origin, flags)
    if is_origin_allowed(handler, frozenset()):
        assert is_own


async def test_the_servers_own_origin_is_allowed(
    ask: Ask, jp_auth_header: dict[str, str], jp_http_port: int
) -> None:
    for method, path in _implemented():
        origin = f"http://127.0.0.1:{jp_http_port}"
        response = await ask(method, path, Origin=origin, **jp_auth_header)
        assert _is_let_in(response), (method, path, response.code)


@pytest.mark.proves("threat:csrf")
async def test_another_host_is_refused_even_with_the_token(
    ask: Ask, jp_auth_header: dict[str, str]
) -> None:
    for (method, path), host in product(_implemented(), HOSTS):
        response = await ask(method, path, Host=host, **jp_auth_header)
        assert response.code == 403, (method, path, host)
        assert _error(response)["code"] == "forbidden"


@pytest.mark.proves("threat:csrf")
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
async def test_only_json_is_taken(ask: Ask, jp_auth_header: dict[str, str], kind: str) -> None:
    for method, path in _implemented():
        if method in ("POST", "PATCH"):
            response = await ask(method, path, Content_Type=kind, **jp_auth_header)
            assert response.code == 415, path
            assert _error(response)["code"] == "unsupported_media_type"


@pytest.mark.proves("threat:csrf")
async def test_a_cookie_alone_is_not_enough(ask: Ask, jp_auth_header: dict[str, str]) -> None:
    """A page of another site sends the cookie along, and cannot read what XSRF asks for."""
    for method, path in _implemented():
        login = await ask("GET", "api/me", **jp_auth_header)
        cookies = SimpleCookie("; ".join(login.headers.get_list("Set-Cookie")))
        refused = await ask(method, path, Cookie=_sent(cookies))
        assert refused.code == 403, (method, path)
        assert "Reload the page" in _error(refused)["hint"]

        page = await ask("GET", "login")
        cookies.load("; ".join(page.headers.get_list("Set-Cookie")))
        token = cookies["_xsrf"].value
        allowed = await ask(method, path, Cookie=_sent(cookies), X_XSRFToken=token)
        assert _is_let_in(allowed), (method, path, allowed.code)


@pytest.mark.proves("rest:call", "threat:exhaustion")
async def test_a_body_beyond_the_bound_is_refused(
    ask: Ask, extension: Any, jp_auth_header: dict[str, str]
) -> None:
    bound = extension.max_body
    assert bound > 10_000_000
    response = await ask(
        "POST", "api/tk-ai/tools/list_kernels", b" " * (bound + 1), **jp_auth_header
    )
    assert response.code == 413
    assert _error(response)["code"] == "too_large"


class ReadOnly(Authorizer):
    """Lets users read only."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:  # noqa: ARG002
        return (action, resource) == ("read", "tk-ai") or resource == "api"


class TestAuthorization:
    """An administrator's authorizer is asked about `tk-ai`."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.ServerApp.authorizer_class = ReadOnly
        return jp_server_config

    @pytest.mark.proves("threat:csrf")
    async def test_a_user_with_read_access_runs_nothing(
        self, ask: Ask, jp_auth_header: dict[str, str]
    ) -> None:
        for method, path in _implemented():
            response = await ask(method, path, **jp_auth_header)
            looks = path.endswith("tools/list_kernels")
            if looks or (method == "GET" and not path.endswith("mcp")):
                assert _is_let_in(response), (method, path, response.code)
            else:
                assert response.code == 403, (method, path)
                assert _error(response)["code"] == "forbidden"


class Actions(Authorizer):
    """Lets users do what is listed."""

    listed: ClassVar[frozenset[str]] = frozenset()

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:  # noqa: ARG002
        return resource != "tk-ai" or action in self.listed


class TestActions:
    """The action that a tool's effect requires."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.ServerApp.authorizer_class = Actions
        return jp_server_config

    @pytest.mark.proves("threat:csrf")
    async def test_a_tool_needs_the_action_of_its_effect(
        self, jp_fetch: Any, jp_root_dir: Any
    ) -> None:
        nbformat.write(nbformat.v4.new_notebook(), jp_root_dir / "n.ipynb")
        insert = [{"action": "insert", "source": "1"}]
        calls: list[tuple[str, dict[str, Any], str]] = [
            ("tools/list_notebooks", {}, "read"),
            ("tools/insert_cell", {"notebook": "n.ipynb", "source": "1"}, "write"),
            ("tools/edit_cells", {"notebook": "n.ipynb", "operations": insert}, "write"),
            (
                "tools/edit_cells",
                {"notebook": "n.ipynb", "operations": insert, "run": True},
                "execute",
            ),
            ("tools/execute_ipython", {"notebook": "n.ipynb", "code": "1"}, "execute"),
            ("changes/undo", {"notebook": "n.ipynb", "entries": [1]}, "write"),
            ("permissions/0123456789abcdef", {"answer": "once"}, "execute"),
        ]
        for path, body, needed in calls:
            for listed in ({"read"}, {"read", "write"}, {"read", "write", "execute"}):
                if needed == "execute" and listed >= {"execute"}:
                    continue
                Actions.listed = frozenset(listed)
                try:
                    request = jp_fetch(
                        "api/tk-ai",
                        *path.split("/"),
                        method="POST",
                        body=json.dumps(body),
                        headers={"Content-Type": "application/json"},
                    )
                    code = (await request).code
                except HTTPClientError as error:
                    code = error.code
                assert (code == 403) == (needed not in listed), (path, needed, listed)


class TestAllowedOrigins:
    """An administrator names the pages that may call the extension."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.TkAIExtensionApp.allowed_origins = ["https://Notes.example/"]
        return jp_server_config

    @pytest.mark.proves("threat:csrf")
    async def test_those_and_no_others_are_let_in(
        self, ask: Ask, jp_auth_header: dict[str, str]
    ) -> None:
        for origin, status in (
            ("https://notes.example", 200),
            ("http://notes.example", 403),
            ("https://notes.example.evil", 403),
            ("https://evil-notes.example", 403),
        ):
            response = await ask("GET", "api/tk-ai/health", Origin=origin, **jp_auth_header)
            assert response.code == status, origin
            allowed = response.headers.get("Access-Control-Allow-Origin")
            assert allowed == (origin if status == 200 else None)

    async def test_they_may_speak_mcp_from_a_browser(self, ask: Ask) -> None:
        preflight = await ask(
            "OPTIONS",
            "api/tk-ai/mcp",
            Origin="https://notes.example",
            Access_Control_Request_Method="POST",
            Access_Control_Request_Headers="authorization,mcp-session-id,mcp-protocol-version",
        )
        assert preflight.code in {200, 204}
        assert preflight.headers["Access-Control-Allow-Origin"] == "https://notes.example"
        allowed = preflight.headers["Access-Control-Allow-Headers"].split(", ")
        assert {"authorization", "content-type", "mcp-session-id"} <= set(allowed)
        assert preflight.headers["Access-Control-Expose-Headers"] == "mcp-session-id"


async def test_an_artifact_never_runs_in_a_page(
    ask: Ask, extension: Any, jp_auth_header: dict[str, str]
) -> None:
    artifact = await extension.workspace.artifacts.write(
        getuser(), "<script>1</script>", mime="text/html"
    )
    response = await ask("GET", f"api/tk-ai/artifacts/{artifact.id}", **jp_auth_header)
    assert response.body == b"<script>1</script>"
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
