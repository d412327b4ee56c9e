"""Everything is documented: tools, settings, routes, errors and promises."""

from __future__ import annotations

import asyncio
import json
import re
import sys

import yaml

from scripts.docs.configuration import traits
from scripts.docs.decisions import decisions
from scripts.docs.errors import error_classes
from scripts.docs.pages import DOCS
from scripts.docs.rest import methods_of, path_of
from tests.documentation import anchors, page, written
from tests.proofs import ROOT
from tests.servers import StartServer, start_server
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.server.app import TkAIExtensionApp
from tk_ai_extension.server.handlers.base_handler import ROUTE_ERRORS, NotFoundHandler
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.server.openapi import describe
from tk_ai_extension.tools import parameter_docs
from tk_ai_extension.tools.registry import TOOLSETS, Registry

__all__ = ["start_server"]

FROM_ELSEWHERE = re.compile(r"""(src|href)=["']https?:|@import|url\(["']?https?:""")


def all_tools() -> Registry:
    return Registry.load(TOOLSETS)


def test_every_tool_has_a_section_and_every_argument_a_meaning() -> None:
    reference = page("reference/tools.md")
    registry = all_tools()
    assert [
        tool.name for tool in registry if tool.name not in anchors("docs/reference/tools.md")
    ] == []
    assert [
        tool.name for tool in registry if " ".join(tool.description.split()) not in reference
    ] == []
    unexplained = [
        f"{tool.name}: {name}"
        for tool in registry
        for name, schema in tool.input_schema["properties"].items()
        if not (schema.get("description") or parameter_docs.meaning(tool.name, name))
    ]
    assert unexplained == []


def test_every_setting_is_explained() -> None:
    settings = traits(TkAIExtensionApp)
    assert settings
    assert [name for name, trait in settings.items() if not trait.help] == []
    shown = anchors("docs/reference/configuration.md")
    assert [name for name in settings if name not in shown] == []


def test_every_route_is_documented_and_described() -> None:
    reference = page("reference/rest.md")
    answering = [pattern for pattern, handler in ROUTES if handler is not NotFoundHandler]
    assert [handler for _, handler in ROUTES if not methods_of(handler)] == [NotFoundHandler]
    assert [path_of(pattern) for pattern in answering if path_of(pattern) not in reference] == []
    described = describe(Registry.load(), "/")["paths"]
    missing = [
        pattern
        for pattern in answering
        if not any(re.fullmatch(pattern, path.lstrip("/")) for path in described)
    ]
    assert missing == [r"api/tk-ai/mcp"], "MCP has its own protocol, all else is in OpenAPI"


def test_every_error_is_documented_once() -> None:
    reference = page("reference/errors.md")
    codes = [kind.code for kind in error_classes()]
    assert len(codes) == len(set(codes))
    assert [code for code in codes if f"| `{code}` |" not in reference] == []
    assert [kind.__name__ for kind in error_classes() if not kind.__doc__] == []
    assert [
        kind.code for kind in error_classes() if kind.default_hint == ToolError.default_hint
    ] == []
    assert [code for code, _ in ROUTE_ERRORS.values() if f"| `{code}` |" not in reference] == []


def test_every_decision_has_a_unique_number_and_is_listed() -> None:
    found = decisions(DOCS / "adr")
    assert len({each.number for each in found}) == len(found)
    assert [each.file for each in found if f"({each.file})" not in page("adr/index.md")] == []


def test_every_setting_and_key_of_jupyterlab_is_documented() -> None:
    for path in (ROOT / "schema").glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        shown = anchors("docs/reference/settings.md")
        assert {f"{path.stem}-{name}" for name in schema["properties"]} - shown == set()
        assert all(each.get("description") for each in schema["properties"].values())
        for key in schema.get("jupyter.lab.shortcuts", ()):
            assert f"`{key['command']}`" in page("reference/settings.md")


def test_nothing_is_fetched_when_the_documentation_is_read() -> None:
    sources = [path for kind in ("md", "svg", "css", "html") for path in DOCS.rglob(f"*.{kind}")]
    found = [
        path.name for path in sources if FROM_ELSEWHERE.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []
    configured = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert configured["theme"]["font"] is False
    assert "mermaid" not in str(configured)
    assert not any("://" in each for each in configured.get("extra_javascript", []))


async def test_the_example_in_python_does_what_its_page_says(start_server: StartServer) -> None:
    assert '--8<-- "examples/client.py:' in written()["docs/connect.md"]
    server = await start_server()
    client = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            ROOT / "examples" / "client.py",
            f"{server.url}api/tk-ai/mcp",
            server.token,
        ),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        printed, _ = await client.communicate()
    assert client.returncode == 0
    assert "\n42\nok\n# %% notebook: hello.ipynb rev:" in printed.decode()
