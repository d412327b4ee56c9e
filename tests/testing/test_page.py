"""The example of the page on the scripted model does what the page says."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from tests.proofs import ROOT

PAGE = ROOT / "docs" / "scripted-model.md"


async def test_the_page_s_example_runs_as_it_stands(tmp_path: Path) -> None:
    found = re.search(r"```python\n(?P<code>.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    example = tmp_path / "example.py"
    example.write_text(found["code"], encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable, example, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert output.decode() == (
        "Six by seven is 42.\n2 requests, the last one: What is six by seven?\n"
    )
