"""Listing and calling tools with the official client."""

from __future__ import annotations

import jsonschema
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.conftest import Connect
from tests.mcp.probes.tools import PIXEL, Probe

pytestmark = pytest.mark.proves("ext:mcp-http", "mcp:http")


async def _tools(connect: Connect) -> dict[str, types.Tool]:
    async with connect() as client:
        return {tool.name: tool for tool in (await client.list_tools()).tools}


@pytest.mark.proves("mcp:structured")
async def test_annotations_follow_from_the_effect(connect: Connect) -> None:
    tools = await _tools(connect)
    hints = {
        name: (
            hints.read_only_hint,
            hints.destructive_hint,
            hints.idempotent_hint,
            hints.open_world_hint,
        )
        for name, tool in tools.items()
        if (hints := tool.annotations)
    }
    assert hints["probe_say"] == (True, False, True, False)
    assert hints["probe_fail"] == (False, True, False, False)
    assert hints["probe_wait"] == (False, False, True, True)
    assert set(hints) == set(tools)


@pytest.mark.proves("mcp:structured")
async def test_an_answer_is_text_and_pictures_with_structured_content(connect: Connect) -> None:
    tools = await _tools(connect)
    async with connect() as client:
        result = await client.call_tool("probe_say", {"greeting": "good day"})
    assert not result.is_error
    text, picture = result.content
    assert isinstance(text, types.TextContent)
    assert text.text == "Note: mind the gap\nIt said: good day"
    assert isinstance(picture, types.ImageContent)
    assert (picture.data, picture.mime_type) == (PIXEL, "image/png")
    assert result.structured_content == {
        "greeting": "good day",
        "failed": False,
        "notices": ["mind the gap"],
    }
    jsonschema.validate(result.structured_content, tools["probe_say"].output_schema or {})


@pytest.mark.proves("rest:call", "mcp:structured")
async def test_a_failure_of_a_tool_is_a_result_that_says_what_to_do(connect: Connect) -> None:
    tools = await _tools(connect)
    async with connect() as client:
        result = await client.call_tool("probe_fail", {})
    assert result.is_error
    (text,) = result.content
    assert isinstance(text, types.TextContent)
    assert text.text.startswith("Error [kernel_busy]: The probe is busy.\nWait for")
    error = result.structured_content["error"]
    assert error["code"] == "kernel_busy"
    assert error["retryable"] is True
    assert error["hint"]
    assert error["details"] == {"facts": [1, 2]}
    # Some clients hold the structure of an error against the schema too.
    jsonschema.validate(result.structured_content, tools["probe_fail"].output_schema or {})


@pytest.mark.proves("rest:call")
async def test_an_answer_that_reports_a_failure_is_an_error_with_its_structure(
    connect: Connect,
) -> None:
    async with connect() as client:
        result = await client.call_tool("probe_say", {"greeting": "no", "failed": True})
    assert result.is_error
    assert result.structured_content["greeting"] == "no"


@pytest.mark.proves("rest:call")
async def test_an_unknown_tool_is_an_error_of_the_protocol(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(MCPError) as failure:
            await client.call_tool("probe_sing", {})
    assert failure.value.code == types.INVALID_PARAMS
    assert failure.value.data["error"]["code"] == "unknown_tool"


@pytest.mark.proves("rest:call")
async def test_a_defect_is_reported_as_one_and_the_log_has_the_traceback(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect() as client:
        result = await client.call_tool("probe_break", {})
        assert (await client.call_tool("probe_say", {})).is_error is False
    assert result.is_error
    assert result.structured_content["error"]["code"] == "internal_error"
    assert "ZeroDivisionError: a defect" in caplog.text


@pytest.mark.proves("exec:progress")
async def test_progress_comes_in_order_to_the_client_that_asked_for_it(
    connect: Connect, probe: Probe
) -> None:
    reports: list[tuple[float, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, message))

    probe.release.set()
    async with connect() as client:
        await client.call_tool("probe_wait", {"reports": 3}, progress_callback=listen)
        assert reports == [(1, "report 0"), (2, "report 1"), (3, "report 2")]
        result = await client.call_tool("probe_wait", {"reports": 3})
        assert not result.is_error
    assert len(reports) == 3
