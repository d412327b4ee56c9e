"""The documentation as tests read it: every page, its anchors, its code and what it names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from markdown.extensions.toc import slugify

from scripts.docs.pages import DOCS, PAGES
from tests.proofs import ROOT

OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "AGENTS.md")
"""Pages in the project's own folder."""

FENCE = re.compile(r"^ *```(?P<language>\w*).*?\n(?P<code>.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r'\]\((?P<markdown>[^)\s]+)\)|\b(?:href|src|srcset)="(?P<html>[^"]+)"')
HEADING = re.compile(r"^#+ (?P<title>.+?)(?: \{ #(?P<id>[\w-]+) \})?$", re.MULTILINE)
ANCHOR = re.compile(r'\bid="(?P<id>[^"]+)"')
IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<target>[^)\s]+)\)")
IMG = re.compile(r"<img\b(?P<attributes>[^>]*)>")
ATTRIBUTE = re.compile(r'(?P<name>[\w-]+)="(?P<value>[^"]*)"')
INCLUDED = re.compile(r'--8<-- "(?P<path>[^":]+)')


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


def links(text: str) -> Iterator[str]:
    """Yield the targets of a page's links and pictures, in Markdown and in HTML."""
    for match in LINK.finditer(re.sub(r"`[^`\n]*\]\([^`\n]*`", "", FENCE.sub("", text))):
        yield match["markdown"] or match["html"]


def images(text: str) -> Iterator[tuple[str, str]]:
    """Yield the target and the alternative text of each picture of a page."""
    for match in IMAGE.finditer(INLINE.sub("", FENCE.sub("", text))):
        yield match["target"], match["alt"]
    for match in IMG.finditer(text):
        found = {each["name"]: each["value"] for each in ATTRIBUTE.finditer(match["attributes"])}
        yield found.get("src", ""), found.get("alt", "")


def is_external(target: str) -> bool:
    """Whether a link leads out of the documentation."""
    return re.match(r"[a-z]+:", target) is not None


def resolved(path: str, target: str) -> str:
    """Return the path, from the project's folder, of the file that a page's link names."""
    file = target.partition("#")[0]
    found = (ROOT / path).parent / file if file else ROOT / path
    return Path(*found.resolve().relative_to(ROOT).parts).as_posix()


def code(text: str, *languages: str) -> Iterator[str]:
    """Yield the blocks of a page that are code of one of these languages."""
    for match in FENCE.finditer(text):
        if match["language"] in languages:
            yield match["code"]


def inline(text: str) -> Iterator[str]:
    """Yield what a page marks as code within its sentences."""
    yield from INLINE.findall(FENCE.sub("", text))
