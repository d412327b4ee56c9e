"""Damaged packages, odd entries of `sys.path` and odd modules: facts about one decide about no other."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness import ToolHarness
from tk_ai_extension.tools import kernel_modules as program
from tk_ai_extension.tools.registry import Registry

DAMAGES: dict[str, Callable[[Path], object]] = {
    "METADATA is not UTF-8": lambda info: (info / "METADATA").write_bytes(b"Name: caf\xe9\n"),
    "METADATA is a folder": lambda info: _as_folder(info / "METADATA"),
    "METADATA is missing": lambda info: (info / "METADATA").unlink(),
    "RECORD is not UTF-8": lambda info: (info / "RECORD").write_bytes(b"caf\xe9.py,,\n"),
    "RECORD has a bad size": lambda info: (info / "RECORD").write_text("a.py,,many\n"),
    "RECORD has an empty line": lambda info: (info / "RECORD").write_text("\n\na.py,,\n"),
    "top_level.txt is not UTF-8": lambda info: (info / "top_level.txt").write_bytes(b"\xe9\n"),
}

ODD_ENTRIES = (None, 3, b"/bytes", "a\0b", Path("/path"), "/\udcff", "/nowhere", ["list"])


class RaisingFinder:
    """A finder that fails in all that it is asked."""

    def find_distributions(self, context: object = None) -> Any:
        raise RuntimeError(context)

    def iter_modules(self, prefix: str = "") -> Any:
        raise RuntimeError(prefix)

    def find_spec(self, *_: object) -> None:
        """It has no module."""


class Fails:
    """A value that fails in all that is looked up, as a proxy outside of its context."""

    @property
    def __class__(self) -> type:
        raise RuntimeError("no context")

    def __repr__(self) -> str:
        raise RuntimeError("no context")


def _as_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def install(folder: Path, name: str, *, tops: bool = False) -> Path:
    """Install a package of one module; return the folder of its metadata."""
    info = folder / f"{name}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    (info / "RECORD").write_text(f"{name}.py,,\n")
    if tops:
        (info / "top_level.txt").write_text(f"{name}\n")
    (folder / f"{name}.py").write_text(f'"""The module {name}."""\n\ndef public(): ...\n')
    return info


def ask(**query: Any) -> Any:
    return json.loads(program.answer({}, json.dumps(query)))


def facts(name: str) -> Any:
    """Return all that the tools say of a module."""
    (listed,) = (m for m in ask(query="list", pattern=None)["modules"] if m["name"] == name)
    return listed, ask(query="check", name=name), ask(query="describe", name=name)


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A `sys.path` of the test's own, with one finder, and without folders."""
    path: list[Any] = []
    monkeypatch.setattr(sys, "path", path)
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    yield path
    sys.path_importer_cache.clear()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_package_changes_no_fact_about_another(
    tmp_path: Path, search: list[Any], damage: str
) -> None:
    install(tmp_path / "good", "good", tops=True)
    install(tmp_path / "good", "recorded")
    search.append(str(tmp_path / "good"))
    before = facts("good"), facts("recorded")
    assert before[1][1]["version"] == "1.5"
    assert before[1][2]["names"] == ["public()"]
    # Before, between and after the others, and on one path with them.
    for folder in ("aaa", "good"):
        DAMAGES[damage](install(tmp_path / folder, "damaged"))
    search.insert(0, str(tmp_path / "aaa"))
    assert (facts("good"), facts("recorded")) == before
    assert ask(query="check", name="damaged")["available"]
    assert not ask(query="check", name="no_such_module")["available"]


@given(st.lists(st.sampled_from(ODD_ENTRIES), max_size=4), st.integers(0, 4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_odd_entries_of_the_path_and_finders_that_fail_change_no_module(
    tmp_path: Path, search: list[Any], odd: list[Any], at: int
) -> None:
    good = tmp_path / "good"
    if not good.exists():
        install(good, "good")
    search[:] = [str(good)]
    before = facts("good")
    # An import ends at an entry with a NUL: modules behind it cannot be imported.
    at = len(odd) if "a\0b" not in odd else min(at, odd.index("a\0b"))
    search[:] = [*odd[:at], str(good), *odd[at:]]
    finders: list[Any] = [RaisingFinder(), object(), *sys.meta_path]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "meta_path", finders)
        assert facts("good") == before
        assert not ask(query="check", name="no_such_module")["available"]


def test_a_module_behind_an_entry_that_ends_imports_is_not_available(search: list[Any]) -> None:
    search.append("a\0b")
    assert ask(query="check", name="no_such_module") == {
        "available": False,
        "loaded": False,
        "found": "",
    }
    assert [m["name"] for m in ask(query="list", pattern="js*")["modules"]] == ["json"]


def test_members_that_fail_are_named_and_the_others_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def public(default: object = Fails()) -> object:
        return default

    odd: Any = types.ModuleType("odd")
    odd.proxy, odd.public, odd.Shape = Fails(), public, type("Shape", (), {})
    vars(odd)[3] = "a number as a name"
    odd.__file__ = Path("/somewhere/odd.py")
    monkeypatch.setitem(sys.modules, "odd", odd)
    found = ask(query="describe", name="odd")
    assert found["names"] == ["proxy", "public(...)", "class Shape"]
    odd.__all__ = ["Shape", 3, ["list"], "missing"]
    assert ask(query="describe", name="odd")["names"] == ["class Shape"]
    for value in (None, Fails(), 3, object()):
        monkeypatch.setitem(sys.modules, "odd", value)
        assert set(ask(query="check", name="odd")) >= {"available"}
        assert set(ask(query="describe", name="odd")) >= {"available"}


async def test_damage_in_the_environment_of_a_kernel_is_no_failure(harness: ToolHarness) -> None:
    harness = replace(harness, registry=Registry.load(("default", "introspection")))
    harness.write("n.ipynb", "import json")
    for number, damage in enumerate(DAMAGES.values()):
        damage(install(harness.root / "env", f"damaged{number}"))
    install(harness.root / "env", "good")
    # A name that is no UTF-8: a lone surrogate in the kernel, and no text in an answer.
    (harness.root / "env" / "caf\udce9.py").write_text("")
    await harness.call("use_notebook", notebook="n.ipynb")
    code = (
        "import sys, types\nclass Proxy:\n    __class__ = property(lambda self: 1 / 0)\n"
        "sys.modules['odd'] = odd = types.ModuleType('odd', doc='Odd \\ud800.')\nodd.member = Proxy()\n"
        "sys.path[:0] = [None, 3, b'/bytes', 'env']; sys.path.append('a\\0b')"
    )
    await harness.call("execute_ipython", code=code)
    listed = {each.name: each for each in (await harness.call("list_modules")).modules}
    assert listed["ipykernel"].version
    assert listed["good"].version == "1.5"
    assert {f"damaged{number}" for number in range(len(DAMAGES))} <= set(listed)
    assert "caf\N{REPLACEMENT CHARACTER}" in listed
    assert (await harness.call("check_module", name="nbformat")).version
    good = await harness.call("get_module_info", name="good")
    assert (good.version, good.names) == ("1.5", ["public()"])
    assert "member" in (await harness.call("get_module_info", name="odd")).names
