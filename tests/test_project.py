"""The project as a whole: its files and modules."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proofs import ROOT

PACKAGE = ROOT / "tk_ai_extension"
CODE = (".py", ".ts", ".tsx")
LOCK_FILES = re.compile(r"(\.lock|-lock\.(json|yaml)|requirements[\w-]*\.txt)\Z")
# Written so that this file does not find itself.
MACHINE_PATHS = re.compile(r"(^|[^A-Za-z0-9_.-])/(work|farm|root)/", re.MULTILINE)
REGISTRIES = re.compile(r"\b(pypi\.org|pythonhosted\.org|registry\.(npmjs|yarnpkg)\b)")
MUTABLE = {
    "bytearray",
    "Counter",
    "defaultdict",
    "deque",
    "dict",
    "list",
    "OrderedDict",
    "set",
    "WeakKeyDictionary",
    "WeakSet",
    "WeakValueDictionary",
}


def project_files() -> list[Path]:
    """Every file that is tracked or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def project_texts() -> Iterator[tuple[str, str]]:
    """Name and text of every file that is text."""
    for path in project_files():
        data = path.read_bytes()
        if b"\0" not in data:
            yield path.relative_to(ROOT).as_posix(), data.decode("utf-8", "replace")


def trees(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    """Name and syntax tree of every module below a folder."""
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        yield name, ast.parse(path.read_text(encoding="utf-8"), name)


def imported(tree: ast.Module) -> Iterator[str]:
    """The full names of the modules that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_lock_files_hold_no_hosts() -> None:
    found = [name for name, text in project_texts() if LOCK_FILES.search(name) and "://" in text]
    assert found == []


def test_no_file_names_a_path_of_one_machine() -> None:
    notebooks_aside = (each for each in project_texts() if not each[0].endswith(".ipynb"))
    assert [name for name, text in notebooks_aside if MACHINE_PATHS.search(text)] == []


def test_no_file_names_a_package_registry() -> None:
    assert [name for name, text in project_texts() if REGISTRIES.search(text)] == []


def test_no_module_is_longer_than_eight_hundred_lines() -> None:
    lengths = {name: text.count("\n") for name, text in project_texts() if name.endswith(CODE)}
    assert {name: lines for name, lines in lengths.items() if lines > 800} == {}


def test_no_module_of_the_package_keeps_state() -> None:
    found = [
        f"{name}:{line} {what}"
        for name, tree in trees(PACKAGE)
        for line, what in module_state(tree)
    ]
    assert found == []


def module_state(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of a module's state: mutable values at its top, and `global`."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, final = node.targets, False
        elif isinstance(node, ast.AnnAssign):
            targets, final = [node.target], "Final" in ast.unparse(node.annotation)
        else:
            continue
        if final or node.value is None or not is_mutable(node.value):
            continue
        for target in targets:
            name = ast.unparse(target)
            if not (name.isupper() or (name.startswith("__") and name.endswith("__"))):
                yield node.lineno, name
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield node.lineno, ", ".join(node.names)


def is_mutable(value: ast.expr) -> bool:
    """Whether an expression makes a container that can be changed afterwards."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in MUTABLE
    made = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    return isinstance(value, made)


def test_the_model_imports_almost_nothing() -> None:
    allowed = {"nbformat", "tk_ai_extension.model"}
    found = [
        f"{name}: {module}"
        for name, tree in trees(PACKAGE / "model")
        for module in imported(tree)
        if module.partition(".")[0] not in sys.stdlib_module_names
        and not any(module == each or module.startswith(f"{each}.") for each in allowed)
    ]
    assert found == []


def test_examples_in_docstrings_hold() -> None:
    with_examples = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted(PACKAGE.rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in with_examples}
    assert {name: result for name, result in results.items() if result.failed} == {}


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys, tk_ai_extension;"
        "print([name for name in sys.modules if name.partition('.')[0] in"
        " ('claude_agent_sdk', 'jupyter_client', 'jupyter_server', 'mcp', 'pydantic')])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert printed.strip() == "[]"


@pytest.mark.proves("mcp:lazy")
def test_a_server_loads_the_extension_without_other_packages(tmp_path: Path) -> None:
    program = (
        "import sys; from jupyter_server.serverapp import ServerApp;"
        "ServerApp.instance().initialize(sys.argv[1:]);"
        "print('modules', *sys.modules)"
    )
    folders = dict.fromkeys(("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"), str(tmp_path))
    loaded: dict[bool, set[str]] = {}
    for extension in (False, True):
        printed = subprocess.run(
            [
                *(sys.executable, "-c", program, "--allow-root", "--no-browser"),
                f"--ServerApp.root_dir={tmp_path}",
                "--ServerApp.port=0",
                f"--ServerApp.jpserver_extensions=tk_ai_extension={extension}",
            ],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ
            | {f"JUPYTER_{name}": folder for name, folder in folders.items()}
            | {"JUPYTER_NO_CONFIG": "1"},
        ).stdout
        loaded[extension] = set(printed.partition("modules ")[2].split())
    added = {name for name in loaded[True] - loaded[False] if "." not in name}
    assert added - sys.stdlib_module_names == {"tk_ai_extension"}
    ours = {name for name in loaded[True] if name.startswith("tk_ai_extension.")}
    assert "tk_ai_extension.server.app" in ours
    # What works on notebooks is imported when the server is up.
    late = (
        "tools",
        "model.cells",
        "model.cell_operations",
        "workspace.workspace",
        "server.composition",
    )
    assert not ours & {f"tk_ai_extension.{name}" for name in late}
    assert len(ours) < 60
