"""The list of the strings that people and models read (`scripts/strings.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scripts.strings import SCHEMA_KEYS, Text, changes, texts, texts_of
from tests.proofs import ROOT
from tk_ai_extension.model.sentences import SENTENCES
from tk_ai_extension.tools.registry import Registry


@pytest.fixture(scope="module")
def listed() -> dict[str, set[str]]:
    """The strings of the working tree by kind, without differences of white space."""
    found: dict[str, set[str]] = {}
    for text in texts(None):
        found.setdefault(text.kind, set()).add(_plain(text.text))
    return found


def _plain(text: str) -> str:
    return " ".join(text.split())


def _titles(value: Any) -> Iterator[str]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if key in SCHEMA_KEYS and isinstance(each, str):
            yield each
        elif isinstance(each, dict | list):
            yield from _titles(each)


def test_every_sentence_of_the_server_is_listed(listed: dict[str, set[str]]) -> None:
    english = [
        each
        for value in SENTENCES.values()
        for each in ((value,) if isinstance(value, str) else value)
        if " " in each.strip()
    ]
    assert [each for each in english if _plain(each) not in listed["sentence"]] == []


def test_every_tool_and_setting_of_the_panel_is_listed(listed: dict[str, set[str]]) -> None:
    tools = [_plain(tool.description) for tool in Registry.load()]
    assert [each for each in tools if not any(each in text for text in listed["tool"])] == []
    files = [json.loads(file.read_text()) for file in (ROOT / "schema").rglob("*.json")]
    titles = [_plain(title) for file in files for title in _titles(file)]
    assert titles
    assert [each for each in titles if each not in listed["schema"]] == []


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("src/a.ts", "trans.__('One %1', x)", ["panel: One %1"]),
        ("src/a.tsx", 'trans.__("It\\\'s " +\n  "two.")', ["panel: It's two."]),
        ("src/a.ts", "trans._n('%1 cell', '%1 cells', n)", ["panel: %1 cell", "panel: %1 cells"]),
        ("src/a.ts", "other.__('no'); 'neither'", []),
        ("src/a.spec.ts", "trans.__('a test')", []),
        ("src/api/sentenceTable.ts", "trans.__('generated')", []),
        (
            "schema/a.json",
            '{"title": "A", "x": [{"description": "B"}]}',
            ["schema: A", "schema: B"],
        ),
        ("tk_ai_extension/a.py", "raise Refused(f'No {a.b} here.')", ["error: No {a.b} here."]),
        (
            "tk_ai_extension/a.py",
            "f(hint='Do it.' if x else 'Not so.')",
            ["error: Do it.", "error: Not so."],
        ),
        ("tk_ai_extension/a.py", "class A:\n    default_hint = 'Do it.'", ["error: Do it."]),
        ("tk_ai_extension/cli/a.py", "p.add_argument('-x', help='what it is')", ["nb: what it is"]),
        (
            "tk_ai_extension/a.py",
            "@tool('READ')\nasync def f():\n    '''What it does.'''",
            ["tool: What it does."],
        ),
        ("tk_ai_extension/a.py", "x = 'a text of no interface'", []),
        ("tk_ai_extension/testing/a.py", "raise Refused('in a test')", []),
        ("tests/a.py", "raise Refused('in a test')", []),
    ],
)
def test_strings_are_found_where_they_are_written(
    path: str, source: str, expected: list[str]
) -> None:
    assert [f"{text.kind}: {text.text}" for text in texts_of(path, source)] == expected


def test_what_differs_is_matched_with_what_it_was() -> None:
    def text(path: str, said: str) -> Text:
        return Text(path, 1, "panel", said)

    before = [text("a.ts", "Run this cell"), text("a.ts", "Gone for good"), text("b.ts", "Kept")]
    after = [text("a.ts", "Run the cell"), text("b.ts", "Kept"), text("b.ts", "Entirely new here")]
    assert [each[1:] for each in changes(before, after)] == [
        ("Run this cell", "Run the cell"),
        ("", "Entirely new here"),
        ("Gone for good", ""),
    ]
