"""What is undocumented fails: tools, settings, routes, errors and promises reach the documentation."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml

from scripts.docs.configuration import traits
from scripts.docs.decisions import decisions
from scripts.docs.errors import ENDS, error_classes
from scripts.docs.pages import DOCS
from scripts.docs.performance import performance_page
from scripts.docs.rest import methods_of, operations, path_of
from scripts.docs.tools import characters
from tests.documentation import anchors, page, pages, written
from tests.proofs import ROOT, proofs
from tests.requirements import REQUIREMENTS
from tests.servers import StartServer, start_server
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.executions import EndStatus
from tk_ai_extension.server.app import TkAIExtensionApp
from tk_ai_extension.server.handlers.handler import ROUTE_ERRORS, NotFoundHandler
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.server.openapi import describe
from tk_ai_extension.tools import glossary
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
        if not (schema.get("description") or glossary.meaning(tool.name, name))
    ]
    assert unexplained == []


def test_the_glossary_explains_nothing_that_is_not_there() -> None:
    taken = {(tool.name, name) for tool in all_tools() for name in tool.parameters}
    assert set(glossary.BY_TOOL) - taken == set()
    assert set(glossary.EVERYWHERE) - {name for _, name in taken} == set()
    answered = set(re.findall(r"^\| `(\w+)` \|", page("reference/tools.md"), re.MULTILINE))
    assert set(glossary.FIELDS) - answered == set()


def test_every_setting_is_explained() -> None:
    settings = traits(TkAIExtensionApp)
    assert settings
    assert [name for name, trait in settings.items() if not trait.help] == []
    shown = anchors("docs/reference/configuration.md")
    assert [name for name in settings if name not in shown] == []


def test_no_default_of_this_machine_is_documented() -> None:
    assert str(Path.home()) not in page("reference/configuration.md")


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
    assert missing == [r"api/tk-ai/mcp"], "MCP has a protocol of its own, all else is in OpenAPI"


def test_every_field_of_a_body_is_documented() -> None:
    reference = page("reference/rest.md")
    described = describe(Registry.load(), "/")
    for method, path, operation in operations(described):
        if "requestBody" not in operation or "/tools/" in path:
            continue
        section = reference.partition(f"\n## {method} {path}\n")[2].partition("\n## ")[0]
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        assert body["properties"]
        assert [name for name in body["properties"] if f"`{name}`" not in section] == [], path
        assert [
            name for name in body.get("required", ()) if f"**`{name}`**" not in section
        ] == [], path
    shown = reference.partition("\n## POST /api/tk-ai/mcp/chat\n")[2].partition("Answers with")[0]
    assert "| `active_cell` | string or null | The active cell. |" in shown


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


def test_every_end_of_an_execution_is_documented() -> None:
    assert list(ENDS) == list(get_args(EndStatus))


def test_every_promise_is_shown_with_its_tests() -> None:
    shown = page("reference/guarantees.md") + page("reference/requirements.md")
    assert [
        each.id for each in REQUIREMENTS if f'id="{each.id.replace(":", "-")}"' not in shown
    ] == []
    named = [proof for found in proofs().values() for proof in found]
    assert [str(proof) for proof in named if proof.test and proof.test not in shown] == []


def test_every_decision_has_a_number_of_its_own_and_a_place_in_the_list() -> None:
    found = decisions(DOCS / "adr")
    assert len({each.number for each in found}) == len(found)
    assert [each.file for each in found if f"({each.file})" not in page("adr/index.md")] == []


def test_every_package_is_in_the_picture_of_the_packages() -> None:
    picture = (DOCS / "assets" / "packages.svg").read_text(encoding="utf-8")
    packages = [path.parent.name for path in (ROOT / "tk_ai_extension").glob("*/__init__.py")]
    assert [name for name in packages if f">{name}</text>" not in picture] == []


def test_every_folder_of_the_browser_side_is_described() -> None:
    described = set(re.findall(r"^\| `(\w+)` \|", written()["docs/architecture.md"], re.MULTILINE))
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()} - {"testing"}
    assert folders - described == set()


def test_every_setting_and_key_of_jupyterlab_is_documented() -> None:
    for path in (ROOT / "schema").glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        shown = anchors("docs/reference/settings.md")
        assert {f"{path.stem}-{name}" for name in schema["properties"]} - shown == set()
        assert all(each.get("description") for each in schema["properties"].values())
        for key in schema.get("jupyter.lab.shortcuts", ()):
            assert f"`{key['command']}`" in page("reference/settings.md")


def test_the_readme_names_every_tool() -> None:
    readme = written()["README.md"]
    named = set(
        re.findall(r"`([a-z_]+)`", readme.partition("## The tools")[2].partition("\n## ")[0])
    )
    assert {tool.name for tool in Registry.load()} - named == set()
    assert {name for name in named if "_" in name} - {
        tool.name for tool in Registry.load()
    } == set()


def test_every_page_is_in_the_navigation() -> None:
    configured = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = set(re.findall(r"[\w/-]+\.md", str(configured)))
    known = {path.removeprefix("docs/") for path in pages() if path.startswith("docs/")}
    assert named - known == set()
    assert {path for path in known if not path.startswith("adr/")} - named == set()


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


def test_the_changelog_has_a_place_for_what_comes() -> None:
    assert "\n## [Unreleased]\n" in written()["CHANGELOG.md"]


def test_a_page_without_measurements_claims_nothing(tmp_path: Path) -> None:
    assert "Nothing has been measured yet" in performance_page(tmp_path)


def test_a_measurement_is_shown_with_its_floor_and_its_goal(
    tmp_path: Path,
) -> None:
    row = {"work": "1+1", "value": 7.234, "unit": "ms", "floor": 6.7, "ratio": 1.08}
    results = {
        "date": "2026-01-02",
        "machine": dict.fromkeys(("processor", "cores", "memory_gb", "system", "python"), "?"),
        "versions": {"mcp": "2.3.0"},
        "seconds": 3,
        "families": {
            "latency": [
                row | {"goal": "at most 1.2 times", "met": True},
                row | {"work": "2+2", "goal": "at most 1.0 times", "met": False},
                row | {"work": "room", "skipped": "no collaboration", "met": None},
            ]
        },
    }
    (tmp_path / "results.json").write_text(json.dumps(results), encoding="utf-8")
    shown = performance_page(tmp_path)
    assert "| 1+1 | 7.23 ms | 6.70 ms | 1.08 | at most 1.2 times | yes |" in shown
    assert "| 2+2 | 7.23 ms | 6.70 ms | 1.08 | at most 1.0 times | **no** |" in shown
    assert "| room | not measured: no collaboration |" in shown
    assert "Of 2 goals 1 were met" in shown


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


@pytest.mark.parametrize("name", ["README.md", "docs/comparison.md"])
def test_the_size_that_is_claimed_of_the_tools_is_true(name: str) -> None:
    registry = Registry.load()
    written_counts = re.search(
        r"\b(\d+)(?: tools take|,) about (\d+),000 characters", written()[name]
    )
    assert written_counts is not None
    assert int(written_counts[1]) == len(registry)
    assert abs(int(written_counts[2]) * 1_000 - characters(registry)) < 1_000


def test_every_decision_that_the_code_names_is_there() -> None:
    numbers = {f"{each.number:04}" for each in decisions(DOCS / "adr")}
    named = {
        number
        for path in (ROOT / "tk_ai_extension").rglob("*.py")
        for number in re.findall(r"docs/adr/(\d{4})", path.read_text(encoding="utf-8"))
    }
    assert named - numbers == set()
