"""Completions and edits of a cell over REST."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import nbformat
import pytest
from traitlets.config import Config

from tests.server.conftest import Ask, Call, with_model
from tests.server.test_chat_routes import described
from tests.support.scripted_model import (
    UNAUTHORIZED,
    Answer,
    Hang,
    MessagesRequest,
    ScriptedModel,
)

COMPLETION = "api/tk-ai/code/completion"
EDIT = "api/tk-ai/code/edit"


@pytest.fixture
def jp_server_config(jp_server_config: Config, tmp_path: Path) -> Config:
    return with_model(jp_server_config, tmp_path / "state")


class Page:
    """A page that asks for code."""

    def __init__(self, ask: Ask, headers: dict[str, str]) -> None:
        self._ask = ask
        self._headers = headers

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        response = await self._ask(method, path, body, **self._headers)
        return response.code, json.loads(response.body)

    async def complete(self, prefix: str, **fields: Any) -> tuple[int, Any]:
        return await self.request("POST", COMPLETION, {"prefix": prefix, **fields})

    async def edit(self, prompt: str, **fields: Any) -> tuple[int, Any]:
        return await self.request("POST", EDIT, {"prompt": prompt, **fields})


@pytest.fixture
def page(ask: Ask, jp_auth_header: dict[str, str]) -> Page:
    return Page(ask, jp_auth_header)


@pytest.fixture
def http(
    extension: Any, jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int
) -> httpx2.AsyncClient:
    """A client with its own connections."""
    address = f"http://127.0.0.1:{jp_http_port}{jp_base_url}"
    return httpx2.AsyncClient(base_url=address, headers=jp_auth_header, timeout=30)


def said(request: MessagesRequest) -> str:
    return str(request.messages[-1]["content"])


@pytest.mark.usefixtures("debugger")
@pytest.mark.proves("code:completion")
async def test_a_completion_knows_the_cells_above_and_the_kernels_variables(
    page: Page, model: ScriptedModel, call: Call, extension: Any, notebook: str
) -> None:
    both = "<tk-source>sum(prices)</tk-source><tk-insert>m(prices)</tk-insert>"
    model.add(*(Answer.of(both) for _ in range(5)))
    above = [{"type": "code", "source": "prices = load()"}]
    asked = {"notebook": notebook, "language": "python", "above": above, "suffix": "\nprint(total)"}
    status, answer = await page.complete("total = su", **asked)
    assert status == 200
    assert answer == {"text": "m(prices)"}
    schema = await described(page, f"/{COMPLETION}", "post")  # pyrefly: ignore[bad-argument-type]
    jsonschema.validate(answer, schema)
    text = said(model.requests[0])
    assert "prices = load()" in text
    assert "total = su<tk-cursor/>\nprint(total)" in text
    # Without a kernel there are no variables, and none is started.
    assert "tk-variables" not in text

    code = "prices = [3, 4]\npassword = 'hunter2'"
    await call("use_notebook", notebook=notebook)
    assert (await call("execute_ipython", notebook=notebook, code=code))[0] == 200
    # An edit waits for the kernel, a completion no longer than a person notices.
    del asked["suffix"]
    await page.edit("Add them", **asked)
    text = said(model.requests[1])
    assert "prices: list len 2\npassword: str len 7" in text
    assert "hunter2" not in text

    # While code runs, the kernel's debugger is asked.
    code = "import threading\nfree = threading.Event()\nfree.wait(60)"
    _, run = await call("execute_ipython", notebook=notebook, code=code, wait=1)
    await page.edit("Add them", **asked)
    assert "free: Event\npassword: str\nprices: list\n" in said(model.requests[2])
    await call("interrupt_kernel", notebook=notebook)
    await call("wait_execution", execution_id=run["execution_id"])
    await page.edit("Add them", **asked)
    assert "free: threading.Event" in said(model.requests[3])
    await page.complete("total = su", **asked)
    assert "free: threading.Event" in said(model.requests[4])


@pytest.mark.proves("code:completion")
async def test_an_edit_proposes_a_source_and_writes_nothing(
    page: Page, model: ScriptedModel, notebook: str, jp_root_dir: Path
) -> None:
    before = (jp_root_dir / notebook).read_bytes()
    model.add(Answer.of("<tk-source>\n1 / 2\n"), Answer.of("<tk-source>\n1 / 3\n"))
    asked = {"notebook": notebook, "source": "1 / 0", "error": "ZeroDivisionError"}
    status, answer = await page.edit("Do not divide by zero", **asked)
    assert (status, answer) == (200, {"source": "1 / 2"})
    schema = await described(page, f"/{EDIT}", "post")  # pyrefly: ignore[bad-argument-type]
    jsonschema.validate(answer, schema)
    earlier = [{"prompt": "Do not divide by zero", "source": "1 / 2"}]
    status, answer = await page.edit("By three", earlier=earlier, **asked)
    assert (status, answer["source"]) == (200, "1 / 3")
    roles = [message["role"] for message in model.requests[1].messages]
    assert roles == ["user", "assistant", "user"]
    assert (jp_root_dir / notebook).read_bytes() == before
    assert nbformat.read(jp_root_dir / notebook, as_version=4).cells[1].source == "1 / 0"


@pytest.mark.proves("code:completion")
async def test_a_request_ends_with_its_page(
    model: ScriptedModel, http: httpx2.AsyncClient, extension: Any
) -> None:
    hang = Hang()
    model.add(hang)
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        async with http:
            sent = tasks.create_task(http.post(COMPLETION, json={"prefix": "x"}))
            await model.requested(1)
            sent.cancel()
        # The page closed its connection: the model's request is closed, too.
        await hang.gone.wait()


@pytest.mark.proves("chat:one-end")
async def test_a_request_at_the_stop_of_the_server_ends(
    page: Page, model: ScriptedModel, extension: Any
) -> None:
    model.add(Hang())
    assistant = await extension.services.code_assistant()
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        edit = tasks.create_task(page.edit("a"))
        await model.requested(1)
        await assistant.close()
    assert edit.result()[0] == 502


@pytest.mark.proves("chat:one-end")
async def test_what_cannot_be_answered_is_a_typed_error(page: Page, model: ScriptedModel) -> None:
    model.add(
        UNAUTHORIZED,
        Answer.of("I would rather not."),
        Answer((), stop_reason="max_tokens"),
    )
    found = [await page.complete("x"), await page.edit("x"), await page.edit("x")]
    assert [(status, answer["error"]["code"]) for status, answer in found] == [
        (502, "model_unauthorized"),
        (502, "model_failed"),
        (502, "model_failed"),
    ]
    messages = [answer["error"]["message"] for _, answer in found]
    assert "did not answer with the source" in messages[1]
    assert "too long for one answer" in messages[2]
    status, answer = await page.complete("x", notebook="../out.ipynb")
    assert (status, answer["error"]["code"]) == (403, "path_refused")
    assert len(model.requests) == 3


@pytest.mark.proves("code:completion")
async def test_without_a_model_for_code_the_error_says_so(
    page: Page, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in model.environment:
        monkeypatch.delenv(name, raising=False)
    for name in ("", "CLAUDE_CODE_OAUTH_TOKEN"):
        if name:
            monkeypatch.setenv(name, "token")
        for status, answer in (await page.complete("x"), await page.edit("Sort", source="x")):
            assert (status, answer["error"]["code"]) == (409, "no_model")
    assert model.requests == []
