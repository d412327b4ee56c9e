"""MkDocs' hooks: the generated pages join the written ones when the site is built."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts every decision into the navigation, below their list."""
    _find_project()
    from scripts.docs.decisions import decisions

    pages = [
        {f"{each.number}. {each.title}": f"adr/{each.file}"}
        for each in decisions(Path(config.docs_dir) / "adr")
    ]
    config.nav = [
        {name: ["adr/index.md", *pages]} if target == "adr/" else {name: target}
        for item in config.nav or ()
        for name, target in item.items()
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Makes the generated pages."""
    from scripts.docs.pages import PAGES

    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    return files


def _find_project() -> None:
    """Lets the project's own folders be imported: mkdocs is started from its own place."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
