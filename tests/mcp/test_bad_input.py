"""Wrong calls over MCP: results that say what is wrong and what to do, and nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bad_input import BAD_CALLS, contents, prepare
from tests.mcp.conftest import Connect


@pytest.mark.proves("mcp:errors", "threat:path", "doc:errors")
async def test_every_wrong_call_has_its_code_and_hint_and_changes_nothing(
    connect: Connect, jp_root_dir: Path
) -> None:
    prepare(jp_root_dir)
    before = contents(jp_root_dir)
    async with connect() as client:
        for tool, arguments, _, code in BAD_CALLS:
            result: Any = await client.call_tool(tool, arguments)
            assert result.is_error, tool
            text = result.content[0].text
            assert text.startswith(f"Error [{code}]: "), (tool, arguments, text[:200])
            assert len(text.split("\n", 1)[1]) > 10, "a hint says what to do"
    assert contents(jp_root_dir) == before
