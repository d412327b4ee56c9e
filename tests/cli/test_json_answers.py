"""`nb help json` describes what `--json` prints: each command once, with the fields that it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cli.conftest import Nb
from tests.cli.test_help import COMMANDS, NAMES

WITHOUT_JSON = {"mcp"}
"""Commands with a protocol of their own."""

CALLS: Mapping[str, tuple[list[str], ...]] = {
    "add": (["add", "6 * 7"],),
    "apply": (["apply", '[{"action": "insert", "source": "x = 1"}]', "--run"],),
    "approve": (["approve"],),
    "cat": (["cat", "notes.txt"],),
    "cell": (["cell", "0"],),
    "cells": (["cells"],),
    "chat": (["chat", "--list"],),
    "clear": (["clear", "--all"],),
    "completion": (["completion", "bash"],),
    "create": (["create", "made.ipynb"],),
    "doctor": (["doctor"],),
    "edit": (["edit", "0", "x = 2"],),
    "exec": (["exec", "0"], ["exec", "--all"]),
    "files": (["files"],),
    "history": (["history"],),
    "insert": (["insert", "0", "big = 'x' * 9"],),
    "interrupt": (["interrupt"],),
    "kernel": (["kernel"],),
    "kernels": (["kernels"],),
    "lab": (["lab", "--no-browser"],),
    "managed": (["managed"],),
    "mv": (["mv", "0", "1"],),
    "notebooks": (["notebooks"],),
    "open": (["open", "a.ipynb"],),
    "ps": (["ps"],),
    "read": (["read"],),
    "replace": (["replace", "0", "x", "y"],),
    "restart": (["restart"],),
    "rm": (["rm", "0"],),
    "run": (["run", "1 + 1"], ["run", "failing.ipynb", "--output", "out.ipynb"]),
    "save": (["save"],),
    "search": (["search", "."],),
    "serve": (["serve"], ["serve", "--off"]),
    "shutdown": (["shutdown"],),
    "status": (["status"],),
    "stop": (["stop"],),
    "undo": (["undo"],),
    "unuse": (["unuse"],),
    "var": (["var", "x"],),
    "vars": (["vars"],),
    "verify": (["verify", "a.ipynb", "failing.ipynb", "odd.ipynb"],),
    "watch": (["watch"],),
    "write": (["write", "a.txt"],),
}
"""Calls of each command, of which each answers."""

ORDER = (
    *("open", "read", "exec", "watch", "edit", "replace", "insert", "mv", "var", "vars", "run"),
    *(name for name in NAMES if name not in ("stop", "unuse", "shutdown", "rm")),
    *("rm", "stop", "unuse", "shutdown"),
)


def described(text: str) -> dict[str, list[str]]:
    """The answers in the topic: by command the fields of each, as it writes them."""
    listed = text.partition("are in brackets:\n\n")[2].partition("\nSome fields:")[0]
    found: dict[str, list[str]] = {}
    for part in re.split(r"\n(?=  \w)", f"\n{listed}")[1:]:
        name, _, fields = " ".join(part.split()).partition(" ")
        found[name] = fields.split(" or: ")
    return found


def fields_of(text: str) -> dict[str, Any]:
    """Parse the fields of an answer; those of a list's members are below its name."""
    found: dict[str, Any] = {}
    depth, word, start = 0, "", 0
    for position, sign in enumerate(f"{text},"):
        if sign == "[":
            depth += 1
            start = position + 1 if depth == 1 else start
        elif sign == "]":
            depth -= 1
            if depth == 0:
                found[word.strip()] = fields_of(text[start:position])
        elif depth == 0 and sign == ",":
            found.setdefault(word.strip(), {})
            word = ""
        elif depth == 0:
            word += sign
    return found


def undescribed(answer: Mapping[str, Any], fields: Mapping[str, Any]) -> set[str]:
    """The fields of an answer that its description does not have."""
    found = set(answer) - set(fields) - {"notices"}
    for name in answer.keys() & fields.keys():
        members = answer[name] if isinstance(answer[name], list) and fields[name] else ()
        for member in members:
            found |= {f"{name}.{each}" for each in undescribed(member, fields[name])}
    return found


def test_the_description_is_parsed() -> None:
    assert fields_of("a, b [c, d [e]], f") == {"a": {}, "b": {"c": {}, "d": {"e": {}}}, "f": {}}
    assert undescribed({"a": 1, "b": [{"d": [{"x": 1}]}]}, fields_of("a, b [d [e]]")) == {"b.d.x"}


def test_every_command_declares_its_answers() -> None:
    assert {each.name for each in COMMANDS if not each.answers} == WITHOUT_JSON
    assert set(described(COMMANDS.help(["json"]))) == set(NAMES) - WITHOUT_JSON
    assert set(CALLS) == set(NAMES) - WITHOUT_JSON - {"output"}, "cut outputs have a test each"


@pytest.mark.proves("nb:commands")
def test_the_answers_have_the_fields_that_are_described(nb: Nb) -> None:
    nb.notebook("a.ipynb", "x = 1", "x")
    nb.notebook("failing.ipynb", "y = 1", "1 / 0", "nowhere")
    odd = nb.notebook("odd.ipynb", "print(1)", "undefined_name")
    stored = json.loads(odd.read_text())
    stored["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "2\n"}]
    odd.write_text(json.dumps(stored))
    (nb.root / "notes.txt").write_text("one\ntwo\n")
    topic = {
        name: [fields_of(each) for each in answers]
        for name, answers in described(nb("help", "json").out).items()
    }
    wrong: dict[str, Any] = {}
    for name in dict.fromkeys(name for name in ORDER if name in CALLS):
        if name == "write":
            (nb.root / "a.txt").write_text(nb("read").out)
        for number, words in enumerate(CALLS[name]):
            ended = nb(*words, "--json", status=None)
            lines = ended.out.splitlines()
            assert len(lines) == 1, (words, ended)
            answer = json.loads(lines[0])
            assert "error" not in answer, (words, answer)
            alternatives = topic[name]
            fields = alternatives[number if len(alternatives) == len(CALLS[name]) else 0]
            if found := undescribed(answer, fields):
                wrong[" ".join(words)] = found
    assert wrong == {}
