"""The documentation as tests read it: every page, its anchors, its code and what it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from markdown.extensions.toc import slugify

from scripts.docs.pages import DOCS, PAGES
from tests.proofs import ROOT

OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "AGENTS.md")
"""Pages in the project's own folder."""

FENCE = re.compile(r"^ *```(?P<language>\w*).*?\n(?P<code>.*?)^ *```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (?P<title>.+?)(?: \{ #(?P<id>[\w-]+) \})?$", re.MULTILINE)
ANCHOR = re.compile(r'\bid="(?P<id>[^"]+)"')


@cache
def page(path: str) -> str:
    """Return the text of a generated page."""
    return PAGES[path]()


@cache
def written() -> Mapping[str, str]:
    """Return every page that a person writes, by its path from the project's folder."""
    paths = [*DOCS.rglob("*.md"), *(ROOT / name for name in OUTSIDE)]
    return {each.relative_to(ROOT).as_posix(): each.read_text(encoding="utf-8") for each in paths}


@cache
def pages() -> Mapping[str, str]:
    """Return every page, written and generated, by its path from the project's folder."""
    return {**written(), **{f"docs/{path}": page(path) for path in PAGES}}


@cache
def anchors(path: str) -> frozenset[str]:
    """Return what a link can point at within a page."""
    text = FENCE.sub("", pages()[path])
    titled = [
        match["id"] or slugify(plain(match["title"]), "-") for match in HEADING.finditer(text)
    ]
    return frozenset(titled) | {match["id"] for match in ANCHOR.finditer(text)}


def plain(title: str) -> str:
    """Return a heading without its markup."""
    return re.sub(r"[`*]", "", title)
