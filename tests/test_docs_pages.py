"""What the written pages name exists: links, pictures, commands, options, routes, settings and files."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain

from jupyter_client.manager import KernelManager
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.serverapp import ServerApp
from traitlets.config import Configurable

from scripts.docs.decisions import decisions
from scripts.docs.pages import DOCS, PAGES
from scripts.docs.rest import methods_of
from tests.documentation import (
    INCLUDED,
    anchors,
    code,
    images,
    inline,
    is_external,
    links,
    pages,
    resolved,
    written,
)
from tests.proofs import ROOT
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.parsing import WrongCall
from tk_ai_extension.kernels.persistent import PersistentMappingKernelManager
from tk_ai_extension.server.app import TkAIExtensionApp
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.tools.registry import Registry

ROUTE = re.compile(r"\b(GET|POST|PATCH|PUT|DELETE) (/?api/tk-ai/[\w{}/-]+)")
ADDRESS = re.compile(r"/api/tk-ai/[\w{}/-]+")
VARIABLE = re.compile(r"\b(?:TK_AI|NB|PI_TOOL|PI_SESSION|PI_ARTIFACTS)_[A-Z]+(?:_[A-Z]+)*\b")
PLUGIN = re.compile(r"\btk-ai-extension:([a-z-]+)")
COMMAND = re.compile(r"\btk-ai:([a-z-]+)")
FILE = re.compile(r"(?P<path>[\w.-]+(?:/[\w.-]+)*/?)(?::(?P<name>\w+))?")
FOLDERS = ("", "tk_ai_extension/", "src/")
"""Where the pages begin the paths that they name."""
SUFFIXES = (".py", ".ts", ".tsx", ".css", ".js", ".md", ".toml")
UNDATED = {path: text for path, text in written().items() if path != "CHANGELOG.md"}
"""The pages that describe the project as it is now."""


def test_every_internal_link_leads_somewhere() -> None:
    broken = [
        f"{path}: {target}"
        for path, text in pages().items()
        for target in links(text)
        if not (is_external(target) or leads_somewhere(path, target))
    ]
    assert broken == []


def leads_somewhere(path: str, target: str) -> bool:
    """Whether a link on a page points at a page (and an anchor on it) or at a file."""
    name = resolved(path, target)
    anchor = target.partition("#")[2]
    if anchor:
        return name in pages() and anchor in anchors(name)
    return name in pages() or (ROOT / name).is_file()


def test_every_picture_exists_and_says_what_it_shows() -> None:
    wrong = [
        f"{path}: {target} ({alt!r})"
        for path, text in pages().items()
        for target, alt in images(text)
        if not (ROOT / resolved(path, target)).is_file() or len(alt.split()) < 2
    ]
    assert wrong == []
    figures = [ROOT / each for text in UNDATED.values() for each in INCLUDED.findall(text)]
    assert [path for path in figures if not path.is_file()] == []
    drawn = [path for path in figures if path.suffix == ".svg"]
    assert drawn
    assert [
        path.name for path in drawn if 'aria-label="' not in path.read_text(encoding="utf-8")
    ] == []


def test_every_picture_is_used_in_both_themes() -> None:
    shown = {resolved(path, target) for path, text in pages().items() for target in links(text)}
    shown |= {each for text in UNDATED.values() for each in INCLUDED.findall(text)}
    kept = [
        path.relative_to(ROOT).as_posix()
        for folder in ("images", "assets")
        for path in (DOCS / folder).iterdir()
        if path.suffix in {".png", ".svg"}
    ]
    assert [path for path in kept if path not in shown] == []
    taken = {path.stem for path in (DOCS / "images").glob("*.png")}
    assert {name for name in taken if f"{name.removesuffix('-dark')}-dark" not in taken} == set()


def test_every_page_names_its_reader_in_its_first_line() -> None:
    first = {
        path: text.split("\n\n")[1]
        for path, text in pages().items()
        if path.startswith("docs/") and not re.search(r"adr/\d|changelog", path)
    }
    assert [path for path, line in first.items() if not line.startswith("*For ")] == []


def test_every_decision_has_context_decision_and_consequences() -> None:
    for each in decisions(DOCS / "adr"):
        text = (DOCS / "adr" / each.file).read_text(encoding="utf-8")
        assert text.startswith(f"# {each.number}. "), each.file
        titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert titles == ["Context", "Decision", "Consequences"], each.file
        assert len(text.split()) < 700, f"{each.file} is too long to be read"


def test_commands_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {
        (path, name)
        for path, text in pages().items()
        for part in (*inline(text), *code(text, "sh"))
        for name in re.findall(r"\bmake ([a-z]+)\b", part)
    }
    assert {(path, name) for path, name in named if name not in targets} == set()
    readme = written()["README.md"].partition("\n## ")[0]
    first_screen = set(re.findall(r"\bmake ([a-z]+)\b", readme))
    assert {"lab", "test", "demo"} <= first_screen


@cache
def commands() -> Commands:
    return Commands(Registry.load())


def shell_calls(script: str) -> Iterator[list[str]]:
    """Yield each command of a shell script, without redirections."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.replace("$(", "; "), posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        call: list[str] = []
        words = iter(lexer)
        for word in words:
            if re.fullmatch(r"[<>]+", word):
                next(words)
            elif re.fullmatch(r"[();|&]+", word):
                yield call
                call = []
            else:
                call.append(word)
        yield call


def nb_calls(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of `nb` in a page's scripts, also of one that an agent makes."""
    for script in code(text, "sh"):
        for call in shell_calls(script):
            if call[:1] == ["nb"]:
                yield call[1:]
            elif call[:3] == ["claude", "mcp", "add"] and "--" in call:
                yield call[call.index("--") + 2 :]


def test_commands_of_nb_are_accepted_by_their_parsers() -> None:
    """Every line that a reader may copy is parsed as it stands, with its options."""
    calls = {path: list(nb_calls(text)) for path, text in UNDATED.items()}
    assert len(calls["docs/command-line.md"]) > 20
    refused: list[str] = []
    for name, *arguments in chain.from_iterable(calls.values()):
        try:
            commands().parser(name).parse_args(arguments)
        except WrongCall as error:
            refused.append(str(error))
    assert refused == []


def test_commands_and_options_of_nb_that_a_sentence_names_exist() -> None:
    unknown: list[str] = []
    for path, text in UNDATED.items():
        for part in inline(text):
            if not part.startswith("nb ") or part.startswith(("nb COMMAND", "nb --help")):
                continue
            name, *words = part.split()[1:]
            if name == "help":
                assert commands().help(words)
                continue
            known = commands().parser(name).format_help()
            options = [re.split(r"[= ]", word)[0] for word in words if word.startswith("--")]
            unknown += [f"{path}: {part}" for option in options if option not in known]
    assert unknown == []


def test_routes_that_a_page_names_are_answered() -> None:
    wrong: list[str] = []
    for path, text in UNDATED.items():
        named = [*ROUTE.findall(text)]
        named += [("", each) for each in ADDRESS.findall(text)]
        for method, address in named:
            concrete = re.sub(r"\{\w+\}|\b[A-Z]+\b", "a1", address).strip("/")
            if concrete == "api/tk-ai":
                continue
            handler = next((each for each in ROUTES if re.fullmatch(each[0], concrete)), None)
            if handler is None or (method and method not in methods_of(handler[1])):
                wrong.append(f"{path}: {method} {address}")
    assert wrong == []


def test_settings_that_a_page_names_exist() -> None:
    from jupyterlab.labapp import LabApp  # starts a process of node

    configurable: dict[str, type[Configurable]] = {
        each.__name__: each
        for each in (
            TkAIExtensionApp,
            ServerApp,
            LabApp,
            KernelManager,
            GatewayClient,
            PersistentMappingKernelManager,
        )
    }
    setting = re.compile(rf"\b({'|'.join(configurable)})\.([a-z]\w+)")
    unknown = [
        f"{path}: {owner}.{name}"
        for path, text in UNDATED.items()
        for owner, name in setting.findall(text)
        if name not in configurable[owner].class_trait_names(config=True)
    ]
    assert unknown == []


def test_plug_ins_commands_and_variables_that_a_page_names_exist() -> None:
    typescript = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("src/**/*.ts*"))
    python = "".join(
        path.read_text(encoding="utf-8") for path in ROOT.glob("tk_ai_extension/**/*.py")
    )
    known = {
        PLUGIN: set(PLUGIN.findall(typescript)),
        COMMAND: set(COMMAND.findall(typescript)),
        VARIABLE: set(VARIABLE.findall(python)),
    }
    unknown = [
        f"{path}: {name}"
        for path, text in UNDATED.items()
        for pattern, names in known.items()
        for name in pattern.findall(text)
        if name not in names
    ]
    assert unknown == []


def test_files_that_a_page_names_exist() -> None:
    missing = [
        f"{path}: {named}"
        for path, text in UNDATED.items()
        for named in inline(text)
        if not is_there(named)
    ]
    assert missing == []


def is_there(named: str) -> bool:
    """Whether a path of the project that a page names is there, with the class that it names."""
    match = FILE.fullmatch(named)
    if match is None or "/" not in match["path"]:
        return True
    is_ours = match["path"].endswith(SUFFIXES) or match["path"].startswith(
        ("scripts/", "examples/", "tests/", "docs/", "benchmarks/", "schema/", "style/")
    )
    found = [ROOT / f"{folder}{match['path']}" for folder in FOLDERS]
    here = next((each for each in found if each.exists()), None)
    if here is None:
        return not is_ours
    return not match["name"] or match["name"] in here.read_text(encoding="utf-8")


def test_python_json_and_toml_of_the_pages_can_be_read() -> None:
    for text in UNDATED.values():
        for block in code(text, "python"):
            if "--8<--" not in block and not block.startswith("%"):
                ast.parse(block)
        for block in code(text, "json"):
            json.loads(block if block.lstrip().startswith("{") else f"{{{block}}}")
        for block in code(text, "toml"):
            tomllib.loads(block)


PRIVATE_WORDS = {
    r"whichever way": "who, or a sentence with a subject",
    r"(cut|lost|the|a) lines? (is|was|drops?|to the server)|line that is cut": "connection",
    r"beforehand|thereby|wherein": "a plain sentence",
}
"""Words that the pages do not use, besides those of tests/test_language.py, with what to write instead."""


def test_the_pages_are_written_in_standard_words() -> None:
    found = [
        f"{path}: {match[0]!r}: write {instead!r}"
        for path, text in UNDATED.items()
        for pattern, instead in PRIVATE_WORDS.items()
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE)
    ]
    assert found == []


def test_generated_pages_have_no_file() -> None:
    assert [path for path in PAGES if (DOCS / path).exists()] == []
