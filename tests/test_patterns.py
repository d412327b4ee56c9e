"""No pattern of the package takes the square of the time for twice the text: `re` holds the GIL."""

from __future__ import annotations

import ast
import functools
import importlib
import operator
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tk_ai_extension

PACKAGE = Path(tk_ai_extension.__file__).parent
PARSER: Any = importlib.import_module("re._parser")

LENGTH = 2_000
SUSPICIOUS = 0.0005
"""Seconds of the processor: a linear pattern needs a tenth for `LENGTH`, a quadratic one several."""
TIMES = 8
DIRECT_CALL = re.compile(r"\bre\.(?!compile|escape)[a-z]+\(")
ANCHORED = {"match", "fullmatch"}
CATEGORIES = {
    "CATEGORY_SPACE": " \n",
    "CATEGORY_NOT_SPACE": "x.",
    "CATEGORY_DIGIT": "0",
    "CATEGORY_NOT_DIGIT": "x",
    "CATEGORY_WORD": "x_0",
    "CATEGORY_NOT_WORD": " .",
}
OTHERS: frozenset[str] = frozenset("x0 .\n<")


@dataclass(frozen=True, slots=True)
class Found:
    """A pattern of the package: where it is, and how it is used."""

    place: str
    pattern: re.Pattern[Any]
    uses: frozenset[str]

    def seconds(self, text: str) -> float:
        """Processor time of one use on a text."""
        subject: Any = text if isinstance(self.pattern.pattern, str) else text.encode()
        began = time.thread_time()
        if self.uses and self.uses <= ANCHORED:
            for use in self.uses:
                getattr(self.pattern, use)(subject)
        else:
            for _ in self.pattern.finditer(subject):
                pass
        return time.thread_time() - began

    def is_quadratic(self, make: Text) -> bool:
        """Whether a text of `TIMES` the length takes about the square of `TIMES` the time."""
        long = make(LENGTH)
        if self.seconds(long) < SUSPICIOUS:
            return False
        # The least time of several is without the noise of the machine.
        least = min(self.seconds(make(LENGTH // TIMES)) for _ in range(5))
        return min(self.seconds(long) for _ in range(3)) > max(least * TIMES**1.5, SUSPICIOUS)


@dataclass(frozen=True, slots=True)
class Text:
    """A text of any length: ``before``, ``repeated`` again and again, and ``after``."""

    before: str
    repeated: str
    after: str

    def __call__(self, length: int) -> str:
        return f"{self.before}{self.repeated * (length // len(self.repeated))}{self.after}"


def patterns() -> Iterator[Found]:
    """All patterns of the package: of its modules' variables, and in calls such as ``re.sub``."""
    for file in sorted({*PACKAGE.rglob("*.py")} - {*PACKAGE.glob("testing/**/*.py")}):
        source = file.read_text(encoding="utf-8")
        place = file.relative_to(PACKAGE).as_posix()
        for call in ast.walk(ast.parse(source)) if DIRECT_CALL.search(source) else ():
            if found := _of_call(call):
                yield Found(f"{place}:{call.lineno}", *found)  # pyrefly: ignore[missing-attribute]
        if "re.compile(" in source:
            name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
            for variable, value in vars(importlib.import_module(name)).items():
                for pattern, method in _of_value(value):
                    uses = method or frozenset(re.findall(rf"\b{variable}\.(\w+)", source))
                    yield Found(f"{place}:{variable}", pattern, uses - {"pattern"})


def _of_call(call: ast.AST) -> tuple[re.Pattern[Any], frozenset[str]] | None:
    match call:
        case ast.Call(
            ast.Attribute(ast.Name("re"), function), [ast.Constant(str() as pattern), *rest]
        ) if function != "compile":
            named = [*rest, *(each.value for each in call.keywords)]
            flags = [
                re.RegexFlag[each.attr]
                for value in named
                for each in ast.walk(value)
                if isinstance(each, ast.Attribute) and each.attr in re.RegexFlag.__members__
            ]
            compiled = re.compile(pattern, functools.reduce(operator.or_, flags, 0))
            return compiled, frozenset({function})
    return None


def _of_value(value: Any) -> Iterator[tuple[re.Pattern[Any], frozenset[str]]]:
    """The patterns of a variable: itself, those that it contains, or the one of a bound method.

    With its method, if it is one.
    """
    if isinstance(value, dict):
        value = tuple(value.values())
    many: Iterable[Any] = value if isinstance(value, tuple | list) else [value]
    for each in many:
        pattern = getattr(each, "__self__", each)
        if isinstance(pattern, re.Pattern):
            yield pattern, frozenset({each.__name__} if pattern is not each else ())


class Grammar:
    """The characters of a pattern, and random texts that it matches."""

    def __init__(self, pattern: re.Pattern[Any], random: Random) -> None:
        source = pattern.pattern
        self._tree = PARSER.parse(source, pattern.flags & ~re.DEBUG)
        self._random = random
        self._groups: dict[int | None, str] = {}
        self.characters = sorted({*OTHERS, *_characters(self._tree)})

    def texts(self, count: int) -> Iterator[Text]:
        """Each character again and again, and ``count`` random combinations of parts."""
        for character in self.characters:
            yield Text("", character, "")
        choose = self._random.choice
        for _ in range(count):
            whole = self._sample(self._tree)
            begin, end = sorted(self._random.choices(range(len(whole) + 1), k=2))
            part = whole[begin if self._random.random() < 0.3 else 0 : end] or choose(
                self.characters
            )
            one, other = choose(self.characters), choose(self.characters)
            yield choose(
                [
                    Text("", part, ""),
                    Text(part, one, other),
                    Text("", part + one, ""),
                    Text(part, one + other, ""),
                ]
            )

    def _sample(self, tree: Any) -> str:
        return "".join(self._one(str(kind), value) for kind, value in tree)

    def _one(self, kind: str, value: Any) -> str:
        choose = self._random.choice
        match kind:
            case "LITERAL":
                return chr(value)
            case "IN" | "ANY" | "NOT_LITERAL":
                return choose(sorted(_members(kind, value)))
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, below = value
                count = self._random.randint(least, min(most, least + 2))
                return "".join(self._sample(below) for _ in range(count))
            case "SUBPATTERN":
                self._groups[value[0]] = text = self._sample(value[3])
                return text
            case "GROUPREF":
                return self._groups.get(value, "")
            case "BRANCH":
                return self._sample(choose(value[1]))
            case "ATOMIC_GROUP":
                return self._sample(value)
            case _:
                return ""


def _members(kind: str, value: Any) -> set[str] | frozenset[str]:
    """Some characters that one place of a pattern takes."""
    if kind == "ANY":
        return {"x", " ", "."}
    if kind == "NOT_LITERAL":
        return OTHERS - {chr(value)}
    members = {char for name, below in value for char in _of_class(str(name), below)}
    return ({*OTHERS} - members or {"é"}) if str(value[0][0]) == "NEGATE" else members


def _of_class(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "RANGE":
            return chr(value[0]) + chr(value[1])
        case "CATEGORY":
            return CATEGORIES[str(value)]
        case _:
            return ""


def _characters(tree: Any) -> Iterator[str]:
    """The characters that a pattern names."""
    for kind, value in tree:
        match str(kind):
            case "LITERAL" | "NOT_LITERAL":
                yield chr(value)
            case "IN":
                yield from (char for name, below in value for char in _of_class(str(name), below))
            case "BRANCH":
                for branch in value[1]:
                    yield from _characters(branch)
            case "ATOMIC_GROUP":
                yield from _characters(value)
            case _:
                for below in value if isinstance(value, tuple) else ():
                    if isinstance(below, PARSER.SubPattern):
                        yield from _characters(below)


def quadratic(found: Iterable[Found], random: Random, count: int) -> list[str]:
    """The patterns with a text that they take the square of the time for."""
    slow: list[str] = []
    for each in found:
        for make in Grammar(each.pattern, random).texts(count):
            if each.is_quadratic(make):
                slow.append(f"{each.place}: {each.pattern.pattern!r} with {make}")
                break
    return slow


@pytest.mark.proves("exec:no-block", "threat:exhaustion")
def test_no_pattern_takes_the_square_of_the_time() -> None:
    found = list(patterns())
    assert len(found) > 100
    assert quadratic(found, Random(1), 4) == []


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(5))
def test_no_pattern_takes_the_square_of_the_time_for_many_texts(seed: int) -> None:
    assert quadratic(patterns(), Random(seed), 200) == []


def test_a_quadratic_pattern_is_found() -> None:
    """The search sees patterns that the package once had."""
    once = (
        r"(`++)[^`\n]++\1",
        r"(?m)^\s*#\s*(NBVAL_[A-Z_]+)\s*$",
        r"(?m)^([ \t]*)(?:[%!?]|\w+[\w.]*\?{1,2}\s*$)",
        r"\$\{([A-Z]+)(?::-([^}]*))?\}",
    )
    for pattern in once:
        assert quadratic([Found("here", re.compile(pattern), frozenset())], Random(1), 40), pattern
