"""Finds which tests name which requirements, without running them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class MarkerError(ValueError):
    """A `proves` marker that cannot be read without running it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One test, or group of tests, that names a requirement.

    Attributes:
        requirement: The id.
        file: The file, from the project's root.
        line: The marker's line, from 1.
        test: The function or class that the marker is on, with its class; empty for a whole module.
    """

    requirement: str
    file: str
    line: int
    test: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.test}".rstrip()


@cache
def proofs(root: Path = ROOT) -> Mapping[str, tuple[Proof, ...]]:
    """The proofs of each requirement that any test names.

    Raises:
        MarkerError: A marker's ids are not literal strings.
    """
    found: defaultdict[str, list[Proof]] = defaultdict(list)
    for path in sorted(root.glob("tests/**/*.py")):
        file = path.relative_to(root).as_posix()
        for proof in proofs_in(path.read_text(encoding="utf-8"), file):
            found[proof.requirement].append(proof)
    return {requirement: tuple(each) for requirement, each in found.items()}


def proofs_in(source: str, file: str) -> Iterator[Proof]:
    """The proofs in one module's source, in order of the tree."""
    yield from _walk(ast.parse(source, file), file, ())


def _walk(node: ast.AST, file: str, scope: tuple[str, ...]) -> Iterator[Proof]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        scope = (*scope, node.name)
    if isinstance(node, ast.Call) and _is_proves(node.func):
        for argument in node.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                message = f"{file}:{node.lineno}: `proves` takes its ids as literal strings"
                raise MarkerError(message)
            yield Proof(argument.value, file, node.lineno, "::".join(scope))
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, file, scope)


def _is_proves(function: ast.expr) -> bool:
    """Whether an expression is ``pytest.mark.proves`` (or ``mark.proves``)."""
    if not (isinstance(function, ast.Attribute) and function.attr == "proves"):
        return False
    owner = function.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "mark") or (
        isinstance(owner, ast.Name) and owner.id == "mark"
    )
