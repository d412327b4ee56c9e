"""MkDocs' hooks: add the generated pages when the site is built."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every decision to the navigation, below their list."""
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
    """Add the generated pages."""
    from scripts.docs.pages import PAGES

    for path, make in PAGES.items():
        files.append(File.generated(config, path, content=make()))
    return files


def _find_project() -> None:
    """Make the project's folders importable: mkdocs is not started as a module of it."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
