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

LIMIT = 600.0
"""Seconds; it takes about fifteen on a machine that has nothing else to do, and in the soak a minute."""

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

OPERATIONS = 8
"""So many operations, picked at random, are asked in a normal run; the soak asks all of them."""

GENERATED = 8_000
"""Characters that a string may need to have: hypothesis makes none that is much longer."""


@pytest.mark.proves("rest:random", "rest:errors", "rest:openapi")
@pytest.mark.timeout(LIMIT + 60)
async def test_random_requests_are_answered_as_described(
    start_server: StartServer, tmp_path: Path
) -> None:
    await ask_at_random(start_server, tmp_path, examples=2, operations=OPERATIONS)


@pytest.mark.soak
@pytest.mark.proves("rest:random", "rest:errors", "rest:openapi")
@pytest.mark.timeout(LIMIT + 60)
async def test_many_random_requests_are_answered_as_described(
    start_server: StartServer, tmp_path: Path
) -> None:
    await ask_at_random(start_server, tmp_path, examples=40, operations=None)


async def ask_at_random(
    start_server: StartServer, folder: Path, examples: int, operations: int | None
) -> None:
    """Has schemathesis ask a server.

    Args:
        start_server: Starts it.
        folder: Where schemathesis runs.
        examples: So many random requests to each operation, beside those at the edges of its schema.
        operations: So many, picked at random, are asked; None for all.
    """
    # A test of a connection would ask the provider that it names.
    server = await start_server(config="c.TkAIExtensionApp.chat_connect = False\n")
    cells = [nbformat.v4.new_code_cell("1")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / "0.ipynb")
    address = f"{server.url}api/tk-ai/openapi.json"
    async with httpx2.AsyncClient(headers=server.headers, timeout=60) as client:
        described = (await client.get(address)).json()
    shorter = folder / "openapi.json"
    shorter.write_text(json.dumps(without_long_bounds(described)))
    named = [each["operationId"] for path in described["paths"].values() for each in path.values()]
    asked = [name for name in named if name != ENDLESS]
    if operations is not None:
        asked = SystemRandom().sample(asked, operations)
    chosen = [f"--include-operation-id={name}" for name in asked]
    async with asyncio.timeout(LIMIT):
        # The edges of all bounds; then random values, which are longer than a bound at random, too.
        await play(server, address, "coverage", folder, *chosen)
        random = f"--max-examples={examples}"
        await play(server, str(shorter), "fuzzing", folder, *chosen, random)
        if operations is None:
            await play(server, address, "coverage", folder, f"--include-operation-id={ENDLESS}")
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
    server: ServerProcess, document: str, phase: str, folder: Path, *arguments: str
) -> None:
    """Has schemathesis ask the server, with a seed that a failure names."""
    seed = SystemRandom().randrange(1 << 32)
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("schemathesis"),
        "run",
        document,
        *arguments,
        f"--url={server.url}",
        f"--header=Authorization: token {server.token}",
        f"--phases={phase}",
        f"--checks={','.join(CHECKS)}",
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
        output, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert process.returncode == 0, f"{phase}, seed {seed}, {arguments}\n{output.decode()}"
