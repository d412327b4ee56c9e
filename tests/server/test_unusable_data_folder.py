"""A server with an unusable data folder answers what it can, and reports the fault."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.servers import StartServer
from tests.workspace.test_journal import files

NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [
        {"id": "a1", "cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": [],
         "execution_count": None}
    ],
}  # fmt: skip


@pytest.mark.proves("fault:disk-full")
async def test_without_a_data_folder_reading_goes_on_and_every_refusal_names_it(
    start_server: StartServer, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    data = blocked / "data"
    server = await start_server(f"--TkAIExtensionApp.data_dir={data}")
    (server.root / "one.ipynb").write_text(json.dumps(NOTEBOOK))
    before = (server.root / "one.ipynb").read_bytes()
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:

        async def call(name: str, **arguments: object) -> httpx.Response:
            return await http.post(f"api/tk-ai/tools/{name}", json=arguments)

        health = (await http.get("api/tk-ai/health")).json()
        assert health["status"] == "degraded"
        (problem,) = health["problems"]
        assert problem["code"] == "state_unavailable"
        assert str(data) in problem["message"]
        assert "TkAIExtensionApp.data_dir" in problem["hint"]

        for read in (
            await call("list_notebooks"),
            await call("list_cells", notebook="one.ipynb"),
            await call("read_notebook", notebook="one.ipynb"),
        ):
            assert read.status_code == 200, read.text

        refused = await call("insert_cell", notebook="one.ipynb", source="y = 2")
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (503, "state_unavailable"), refused.text
        assert str(data) in error["message"]
        assert (server.root / "one.ipynb").read_bytes() == before

        blocked.unlink()
        assert (await http.get("api/tk-ai/health")).json()["status"] == "ok"
        assert (await call("insert_cell", notebook="one.ipynb", source="y = 2")).is_success
        assert {each.stat().st_mode & 0o077 for each in [data, *files(data)]} == {0}
