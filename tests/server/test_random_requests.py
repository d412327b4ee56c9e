"""Random requests against the routes' own description, over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import Any

import httpx2
import nbformat
import pytest

from tests.servers import ServerProcess, StartServer

EXAMPLES = 10
"""So many random requests to each operation, beside those at the edges of its schema."""

LIMIT = 300.0
"""Seconds; it takes about twenty-five on a machine that has nothing else to do."""

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
"""Not that whatever the schema allows is taken: a notebook's name ends in .ipynb, a call names cells
in one way of two; a typed error says so."""


ENDLESS = "follow_chat"
"""Its answer to the id of a chat has no end. Schemathesis knows such ids from the answers of other
operations, and would read until the test's time is over: this one is asked alone."""

GENERATED = 8_000
"""Characters that a string may need to have: hypothesis makes none that is much longer."""


@pytest.mark.proves("rest:random", "rest:errors", "rest:openapi")
@pytest.mark.timeout(LIMIT + 60)
async def test_random_requests_are_answered_as_described(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = await start_server()
    cells = [nbformat.v4.new_code_cell("1")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / "0.ipynb")
    address = f"{server.url}api/tk-ai/openapi.json"
    async with httpx2.AsyncClient(headers=server.headers) as client:
        described = (await client.get(address)).json()
    shorter = tmp_path / "openapi.json"
    shorter.write_text(json.dumps(without_long_bounds(described)))
    async with asyncio.timeout(LIMIT):
        # The edges of all bounds; then random values, which are longer than a bound at random, too.
        await play(server, address, "coverage", tmp_path, f"--exclude-operation-id={ENDLESS}")
        await play(server, str(shorter), "fuzzing", tmp_path, f"--exclude-operation-id={ENDLESS}")
        await play(server, address, "coverage", tmp_path, f"--include-operation-id={ENDLESS}")
    assert "Traceback" not in server.log.text


def without_long_bounds(schema: Any) -> Any:
    """The same without upper bounds that the generator cannot make strings beyond."""
    if isinstance(schema, list):
        return [without_long_bounds(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_long_bounds(value)
        for key, value in schema.items()
        if not (key == "maxLength" and isinstance(value, int) and value > GENERATED)
    }


async def play(
    server: ServerProcess, document: str, phase: str, folder: Path, operations: str
) -> None:
    """Has schemathesis ask the server, with a seed that a failure names."""
    seed = SystemRandom().randrange(1 << 32)
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("schemathesis"),
        "run",
        document,
        operations,
        f"--url={server.url}",
        f"--header=Authorization: token {server.token}",
        f"--phases={phase}",
        f"--checks={','.join(CHECKS)}",
        f"--max-examples={EXAMPLES}",
        f"--seed={seed}",
        "--request-timeout=60",
        "--suppress-health-check=all",
        "--no-color",
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, f"{phase}, seed {seed}\n{said.decode()}"
