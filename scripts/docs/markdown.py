"""The forms of Markdown in the generated pages."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, without the columns that are empty in every row; nothing where there are no rows."""
    lines = [[cell(text) for text in row] for row in rows]
    kept = [at for at in range(len(heads)) if any(line[at] for line in lines)]
    if not kept:
        return ""
    shown = [
        [heads[at] for at in kept],
        ["---"] * len(kept),
        *([row[at] for at in kept] for row in lines),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in shown)


def cell(text: str) -> str:
    """A text within a table: on one line, its bars escaped."""
    return re.sub(r"\s*\n\s*", " ", text.strip()).replace("|", "\\|")


def code(value: object) -> str:
    """A value as code, backticks among it or not; nothing for an empty one."""
    text = str(value)
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def literal(value: object) -> str:
    """A JSON value as code."""
    return code(json.dumps(value, ensure_ascii=False))


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: double backticks and cross references become single backticks."""
    return inspect.cleandoc(docstring or "").replace("``", "`")


def sentence(docstring: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(prose(docstring).partition("\n\n")[0].split())


def page(title: str, *parts: str) -> str:
    """A page of these parts, with a blank line between."""
    return "\n\n".join([f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


def docstrings(owner: type | ModuleType) -> Mapping[str, str]:
    """Docstrings of the attributes: the string below each in its class or module."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    body: Sequence[Any] = tree.body if isinstance(owner, ModuleType) else tree.body[0].body  # type: ignore[attr-defined]  # a class's source has its definition first
    texts: dict[str, str] = {}
    for before, after in pairwise(body):
        target = (
            before.targets[0] if isinstance(before, ast.Assign) else getattr(before, "target", None)
        )
        if (
            isinstance(target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            texts[target.id] = sentence(str(after.value.value))
    return texts
