"""The front end as it is built and shipped."""

from __future__ import annotations

import json
import re
from graphlib import TopologicalSorter
from importlib import metadata
from pathlib import Path

import tk_ai_extension
from scripts import typescript
from tests.proofs import ROOT

LABEXTENSION = Path(tk_ai_extension.__file__).parent / "labextension"


def test_jupyterlab_finds_the_built_extension() -> None:
    """It looks in a global object: a minifier may shorten its name as if it were ours."""
    (entry,) = (LABEXTENSION / "static").glob("remoteEntry.*.js")
    text = entry.read_text(encoding="utf-8")
    assert re.search(r"""\b_JUPYTERLAB\b[^;]{0,80}\[["']tk-ai-extension["']\]=""", text)


def test_the_front_end_has_the_version_of_the_package() -> None:
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == tk_ai_extension.__version__


def test_installing_the_package_puts_the_front_end_where_jupyterlab_looks() -> None:
    installed = {str(file) for file in metadata.files("tk-ai-extension") or ()}
    target = "share/jupyter/labextensions/tk-ai-extension/package.json"
    assert [file for file in installed if file.endswith(target)] != []


def test_styles_use_the_themes_colours_alone() -> None:
    colours = re.compile(r"#[0-9a-fA-F]{3,8}\b|\b(rgb|hsl)a?\(")
    found = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "style").glob("*.css")
        for line in path.read_text(encoding="utf-8").splitlines()
        if colours.search(line)
    ]
    assert found == []


def test_no_control_waits_for_a_pointer() -> None:
    """Who uses keys or a touch screen has no pointer to rest on something."""
    hidden = re.compile(r"\b(opacity: 0;|visibility: hidden)")
    found = [
        f"{path.name}: {rule.strip()}"
        for path in (ROOT / "style").glob("*.css")
        for rule in path.read_text(encoding="utf-8").split("}")
        if hidden.search(rule)
    ]
    assert found == []


def test_the_folders_of_the_front_end_import_each_other_in_no_circle() -> None:
    imported: dict[str, set[str]] = {}
    for path in (ROOT / "src").glob("*/*.ts*"):
        if ".spec." in path.name or path.parent.name == "testing":
            continue
        found = re.findall(r"from '\.\./([a-z]+)/", path.read_text(encoding="utf-8"))
        imported.setdefault(path.parent.name, set()).update(found)
    # It raises where there is one, and names it.
    order = list(TopologicalSorter(imported).static_order())
    assert imported["lab"] == set()
    assert order.index("common") < order.index("notebook") < order.index("panel")
    assert order.index("api") < order.index("state") < order.index("chat")


def test_the_types_of_what_the_server_sends_are_those_of_its_models() -> None:
    assert typescript.TARGET.read_text(encoding="utf-8") == typescript.generate()
