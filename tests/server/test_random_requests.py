"""Random requests against the routes' own description, over HTTP."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from random import SystemRandom

import nbformat
import pytest

from tests.servers import StartServer

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


@pytest.mark.proves("rest:random", "rest:errors", "rest:openapi")
@pytest.mark.timeout(LIMIT + 60)
async def test_random_requests_are_answered_as_described(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = await start_server()
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]), server.root / "0.ipynb"
    )
    seed = SystemRandom().randrange(1 << 32)
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("schemathesis"),
        "run",
        f"{server.url}api/tk-ai/openapi.json",
        f"--header=Authorization: token {server.token}",
        "--phases=coverage,fuzzing",
        f"--checks={','.join(CHECKS)}",
        f"--max-examples={EXAMPLES}",
        f"--seed={seed}",
        "--request-timeout=60",
        "--suppress-health-check=all",
        "--no-color",
        cwd=tmp_path,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(LIMIT):
            said, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, f"seed {seed}\n{said.decode()}"
    assert "Traceback" not in server.log.text
