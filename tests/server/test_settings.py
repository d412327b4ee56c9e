"""The settings of the extension: each is documented, and does what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from tests.server.conftest import Ask, Call


class TestBounds:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config, tmp_path: Path) -> Config:
        settings = jp_server_config.TkAIExtensionApp
        settings.answer_budget = 300
        settings.max_source = 100
        settings.executor = "direct"
        settings.data_dir = str(tmp_path / "state")
        return jp_server_config

    async def test_bounds_and_places_are_as_configured(
        self, call: Call, notebook: str, tmp_path: Path, extension: Any
    ) -> None:
        code = "for i in range(200): print('row', i)"
        _, ran = await call("execute_ipython", notebook=notebook, code=code)
        (run,) = ran["runs"]
        assert len(run["output"]) < 600
        assert run["artifact"]
        status, refused = await call("insert_cell", notebook=notebook, source="x" * 101)
        assert (status, refused["error"]["code"]) == (400, "invalid_arguments")
        assert {path.suffix for path in (tmp_path / "state").rglob("*.sqlite")} == {".sqlite"}
        assert extension.services.backends["executor"] == "direct"


class TestAllowedToolsets:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.TkAIExtensionApp.allowed_toolsets = ["claude-code"]
        return jp_server_config

    @pytest.mark.proves("ext:toolsets")
    async def test_a_toolset_that_is_not_allowed_is_refused_whatever_it_is_chosen_with(
        self, ask: Ask, jp_auth_header: dict[str, str]
    ) -> None:
        for path, body in (("tools/python", {"cells": []}), ("mcp", {}), ("tools/list_files", {})):
            chosen = f"api/tk-ai/{path}?toolsets=claude-code,omp"
            refused = await ask("POST", chosen, body, Accept="application/json", **jp_auth_header)
            assert refused.code == 403, path
            assert b"does not allow the toolset `omp`" in refused.body
        for toolsets in ("", "?toolsets=default,claude-code"):
            answer = await ask(
                "POST", f"api/tk-ai/tools/list_files{toolsets}", {}, **jp_auth_header
            )
            assert answer.code == 200, answer.body
