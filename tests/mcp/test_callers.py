"""The caller of a call: the session if there is one, else the client's name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import nbformat
import pytest

from tests.mcp.conftest import LEGACY, MODERN, Connect
from tests.mcp.probes.tools import Probe
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.workspace import Workspace

ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.proves("mcp:sessions")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_session_is_a_caller(connect: Connect, probe: Probe) -> None:
    async with connect() as first, connect("?caller=ignored") as second:
        for client in (first, first, second):
            await client.call_tool("probe_say", {})
    callers = [context.caller for context in probe.contexts]
    assert callers[0] == callers[1]
    assert callers[0].key
    assert callers[0].key != callers[2].key
    assert callers[2].key != "ignored"
    assert callers[0].user == callers[2].user
    assert callers[0].interface == "mcp"
    assert callers[0].name.startswith("mcp")


@pytest.mark.proves("mcp:sessions")
@pytest.mark.parametrize("era", [MODERN], indirect=True)
@pytest.mark.parametrize(
    ("query", "headers", "key"),
    [
        ("?caller=reviewer%201", {}, "reviewer 1"),
        ("", {"X-TK-Caller": "from-header"}, "from-header"),
        ("", {}, None),
    ],
)
async def test_without_sessions_a_caller_has_the_name_it_gives_itself(
    connect: Connect, probe: Probe, query: str, headers: dict[str, str], key: str | None
) -> None:
    async with connect(query, headers) as client:
        await client.call_tool("probe_say", {})
        result = await client.call_tool("list_cells", {})
    assert probe.contexts[0].caller.key == key
    assert probe.contexts[0].caller.name.startswith("mcp")
    assert result.structured_content["error"]["code"] == "invalid_arguments"


async def test_a_session_id_that_was_never_given_is_not_found(
    address: str, jp_auth_header: dict[str, str]
) -> None:
    async with httpx2.AsyncClient(headers={**jp_auth_header, **ACCEPT}) as http:
        response = await http.post(
            address,
            headers={"Mcp-Session-Id": "0" * 32},
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        )
    assert response.status_code == 404


@pytest.mark.proves("mcp:sessions")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_session_that_ends_leaves_nothing_of_its_caller(
    connect: Connect,
    probe: Probe,
    workspace: Workspace,
    jp_root_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: asyncio.Queue[Caller] = asyncio.Queue()
    forget = workspace.forget

    def forget_and_report(caller: Caller) -> None:
        forget(caller)
        ended.put_nowait(caller)

    monkeypatch.setattr(workspace, "forget", forget_and_report)
    cells = [nbformat.v4.new_code_cell("x = 1", id="aaaa1111")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), jp_root_dir / "plan.ipynb")
    async with asyncio.timeout(30):
        async with connect() as staying:
            await staying.call_tool("probe_say", {})
            stayed = probe.contexts[-1].caller
            async with connect() as leaving:
                await leaving.call_tool("probe_say", {})
                left = probe.contexts[-1].caller
                for client in (staying, leaving):
                    await client.call_tool("use_notebook", {"notebook": "plan.ipynb"})
                    await client.call_tool("read_cell", {"cell": "aaaa1111"})
                seen = workspace.by_path.at("plan.ipynb").seen
                assert seen.expectation(left, "aaaa1111")
            assert (await ended.get()).identity == left.identity
            assert workspace.notebooks.current(left) is None
            assert seen.expectation(left, "aaaa1111") is None
            assert workspace.notebooks.current(stayed) is not None
            assert seen.expectation(stayed, "aaaa1111")
            assert ended.empty()
        assert (await ended.get()).identity == stayed.identity
