"""What is undocumented fails: tools, settings, routes, errors and promises reach the documentation."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import yaml
from markdown.extensions.toc import slugify

from scripts.docs.configuration import traits
from scripts.docs.decisions import decisions
from scripts.docs.errors import ENDS
from scripts.docs.guarantees import BEHAVIOUR, PROMISES, family
from scripts.docs.pages import DOCS, PAGES
from scripts.docs.performance import performance_page
from scripts.docs.rest import methods_of, path_of
from scripts.docs.tools import characters
from tests.proofs import ROOT, proofs
from tests.requirements import REQUIREMENTS
from tests.servers import StartServer, start_server
from tk_ai_extension.cli.commands.topics import error_classes
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.executions import EndStatus
from tk_ai_extension.server.app import TkAIExtensionApp
from tk_ai_extension.server.handlers.handler import ROUTE_ERRORS, NotFoundHandler
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.server.openapi import describe
from tk_ai_extension.tools import glossary
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.tools.toolsets import TOOLSETS

__all__ = ["start_server"]

OUTSIDE = ("README.md", "CHANGELOG.md")
"""Pages that stand in the project's folder."""

FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<title>.+?)(?: \{ #(?P<id>[\w-]+) \})?$", re.MULTILINE)
ANCHOR = re.compile(r'\bid="(?P<id>[^"]+)"')
MAKE = re.compile(r"\bmake ([a-z]+)\b")
FROM_ELSEWHERE = re.compile(r"""(src|href)=["']https?:|@import|url\(["']?https?:""")


@cache
def page(path: str) -> str:
    """A generated page."""
    return PAGES[path]()


@cache
def pages() -> Mapping[str, str]:
    """Every page by its path from the project's folder, those that are made at build among them."""
    written = {path: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    return {
        **{path.relative_to(ROOT).as_posix(): text for path, text in written.items()},
        **{f"docs/{path}": page(path) for path in PAGES},
        **{name: (ROOT / name).read_text(encoding="utf-8") for name in OUTSIDE},
    }


@cache
def anchors(path: str) -> frozenset[str]:
    """What a link can point at within a page."""
    text = FENCE.sub("", pages()[path])
    titled = [
        match["id"] or slugify(plain(match["title"]), "-") for match in HEADING.finditer(text)
    ]
    return frozenset(titled) | {match["id"] for match in ANCHOR.finditer(text)}


def plain(title: str) -> str:
    """A heading without its markup."""
    return re.sub(r"[`*]", "", title)


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


def test_every_promise_is_shown_with_its_tests_or_its_reason() -> None:
    shown = page("reference/guarantees.md") + page("reference/requirements.md")
    assert {family(each) for each in REQUIREMENTS} == {*PROMISES, *BEHAVIOUR}
    assert [
        each.id for each in REQUIREMENTS if f'id="{each.id.replace(":", "-")}"' not in shown
    ] == []
    assert [each.id for each in REQUIREMENTS if (each.reason_open or "") not in shown] == []
    named = [proof for found in proofs().values() for proof in found]
    assert [str(proof) for proof in named if proof.test and proof.test not in shown] == []


def test_every_decision_has_a_number_of_its_own_and_a_place_in_the_list() -> None:
    found = decisions(DOCS / "adr")
    assert len({each.number for each in found}) == len(found)
    assert [each.file for each in found if f"({each.file})" not in page("adr/index.md")] == []


def test_every_room_is_in_the_picture_of_the_house() -> None:
    picture = (DOCS / "assets" / "house.svg").read_text(encoding="utf-8")
    rooms = [path.parent.name for path in (ROOT / "tk_ai_extension").glob("*/__init__.py")]
    assert [room for room in rooms if f">{room}</text>" not in picture] == []


def test_the_readme_names_every_tool() -> None:
    readme = pages()["README.md"]
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


def test_every_internal_link_leads_somewhere() -> None:
    broken = [
        f"{path}: {target}"
        for path, text in pages().items()
        for target in (match["target"] for match in LINK.finditer(FENCE.sub("", text)))
        if not (re.match(r"[a-z]+:", target) or leads_somewhere(path, target))
    ]
    assert broken == []


def leads_somewhere(path: str, target: str) -> bool:
    """Whether a link on a page points at a page (and an anchor on it) or at a file."""
    file, _, anchor = target.partition("#")
    found = (ROOT / path).parent / file if file else ROOT / path
    name = Path(*found.resolve().relative_to(ROOT).parts).as_posix()
    if anchor:
        return name in pages() and anchor in anchors(name)
    return name in pages() or found.is_file()


def test_every_command_of_make_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {(path, name) for path, text in pages().items() for name in commands(text)}
    assert {(path, name) for path, name in named if name not in targets} == set()
    readme = pages()["README.md"].partition("\n## ")[0]
    assert {"lab", "test", "demo"} <= set(MAKE.findall(readme)), "they are on the first screen"


def commands(text: str) -> set[str]:
    """The targets of make that a page names as code."""
    code = re.findall(r"`[^`\n]+`|^ *```.*?^ *```", text, re.MULTILINE | re.DOTALL)
    return {name for part in code for name in MAKE.findall(part)}


@pytest.mark.parametrize("name", ["README.md", "docs/contributing.md", "docs/agents.md"])
def test_every_file_of_the_project_that_is_named_exists(name: str) -> None:
    named = set(
        re.findall(r"`((?:scripts|examples|tests|docs|benchmarks)/[\w./-]+)`", pages()[name])
    )
    assert {path for path in named if not (ROOT / path).exists()} == set()


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
    assert "\n## [Unreleased]\n" in pages()["CHANGELOG.md"]


def test_what_was_not_measured_is_not_claimed(tmp_path: Path) -> None:
    assert "Nothing has been measured yet" in performance_page(tmp_path, tmp_path)


def test_what_was_measured_is_shown_with_its_floor_and_whether_the_goal_was_met(
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
    (tmp_path / "growth-callers.png").touch()
    shown = performance_page(tmp_path, tmp_path)
    assert "| 1+1 | 7.23 ms | 6.70 ms | 1.08 | at most 1.2 times | yes |" in shown
    assert "| 2+2 | 7.23 ms | 6.70 ms | 1.08 | at most 1.0 times | **no** |" in shown
    assert "| room | not measured: no collaboration |" in shown
    assert "Of 2 goals 1 were met" in shown
    assert "![growth callers](growth-callers.png)" in shown


async def test_the_example_in_python_does_what_its_page_says(start_server: StartServer) -> None:
    assert '--8<-- "examples/client.py:' in (DOCS / "agents.md").read_text(encoding="utf-8")
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
    said = re.search(r"\b(\d+)(?: tools take|,) about (\d+),000 characters", pages()[name])
    assert said is not None
    assert int(said[1]) == len(registry)
    assert abs(int(said[2]) * 1_000 - characters(registry)) < 1_000


def test_every_decision_that_the_code_names_is_there() -> None:
    numbers = {f"{each.number:04}" for each in decisions(DOCS / "adr")}
    named = {
        number
        for path in (ROOT / "tk_ai_extension").rglob("*.py")
        for number in re.findall(r"docs/adr/(\d{4})", path.read_text(encoding="utf-8"))
    }
    assert named - numbers == set()
