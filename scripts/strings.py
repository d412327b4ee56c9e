"""List the strings that a person or a model reads, as tab-separated values.

    python scripts/strings.py [--since REVISION]

The columns are place, kind and text; with a revision: place, kind, and the text there and now, of what
differs. Placeholders of f-strings stand in braces.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "tk_ai_extension/"
LITERAL = re.compile(r"\s*(['\"`])((?:\\.|(?!\1).)*)\1\s*([+,]?)", re.DOTALL)
TRANSLATED = re.compile(r"\btrans\.(?:__|_n|_p)\(")
SCHEMA_KEYS = {"title", "description", "label", "caption"}
KINDS = {"cli": "nb", "tools": "tool", "mcp": "mcp"}
FOLDERS = ("src", "schema", PACKAGE)
TABLES = {"model/sentences.py": "sentence", "tools/glossary.py": "tool"}
ERROR = re.compile(r"Error$|Refus|Invalid|NotFound|Denied|Required|WrongCall")


class Text(NamedTuple):
    """A string, where it stands and who reads it."""

    path: str
    line: int
    kind: str
    text: str


def texts_of(path: str, source: str) -> Iterator[Text]:
    """Yield the strings of a file."""
    if re.search(r"^src/.*(?<!\.spec)(?<!sentenceTable)\.tsx?$", path):
        yield from _translated(path, source)
    elif re.search(r"^schema/.*\.json$", path):
        yield from _settings(path, json.loads(source))
    elif re.search(r"^tk_ai_extension/.*\.py$", path):
        strings = _Strings(path)
        strings.visit(ast.parse(source))
        yield from strings.found


def _translated(path: str, source: str) -> Iterator[Text]:
    for call in TRANSLATED.finditer(source):
        at, parts = call.end(), [""]
        while found := LITERAL.match(source, at):
            parts[-1] += re.sub(r"\\(.)", r"\1", found[2])
            parts += [""] * (found[3] == ",")
            at = found.end() if found[3] else len(source)
        line = source.count("\n", 0, call.start()) + 1
        yield from (Text(path, line, "panel", part) for part in parts if part)


def _settings(path: str, value: Any) -> Iterator[Text]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in pairs:
        if key in SCHEMA_KEYS and isinstance(each, str):
            yield Text(path, 0, "schema", each)
        elif isinstance(each, dict | list):
            yield from _settings(path, each)


class _Strings(ast.NodeVisitor):
    """Collects the strings of a module of the package."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.module = path.removeprefix(PACKAGE)
        self.kind = KINDS.get(self.module.partition("/")[0], "setting")
        self.found: list[Text] = []

    def add(self, kind: str, *nodes: ast.expr | None) -> None:
        """Add the strings of expressions, as far as they are more than a word."""
        for node in nodes:
            for text in _strings(node):
                if " " in text.strip():
                    self.found.append(Text(self.path, getattr(node, "lineno", 0), kind, text))

    def visit_Module(self, node: ast.Module) -> None:
        for each in node.body:
            value = each.value if isinstance(each, ast.Assign | ast.AnnAssign) else None
            if self.module in TABLES:
                self.add(TABLES[self.module], value)
            elif self.kind == "nb" and isinstance(value, ast.Constant | ast.JoinedStr):
                self.add(self.kind, value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if "hint" in ast.unparse(node.targets[0]):
            self.add("error", node.value)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any(ast.unparse(each).startswith("tool(") for each in node.decorator_list):
            self.found.append(Text(self.path, node.lineno, "tool", ast.get_docstring(node) or ""))
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - named by ast

    def visit_Raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Call) and not ERROR.search(ast.unparse(node.exc.func)):
            self.add("error", *node.exc.args)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func).rpartition(".")[2]
        if ERROR.search(name):
            self.add("error", *node.args)
        elif name == "Command":
            self.add("nb", *node.args)
        for keyword in node.keywords:
            if keyword.arg in {"hint", "message"}:
                self.add("error", keyword.value)
            elif keyword.arg in {"help", "description", "epilog", "title"}:
                self.add(self.kind, keyword.value)
        self.generic_visit(node)


def _strings(node: ast.AST | None) -> Iterator[str]:
    """Yield the strings of an expression; what is put in stands in braces."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            str(each.value) if isinstance(each, ast.Constant) else f"{{{ast.unparse(each.value)}}}"
            for each in node.values
            if isinstance(each, ast.Constant | ast.FormattedValue)
        )
    elif isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.IfExp | ast.BinOp | ast.Call):
        for each in node.values if isinstance(node, ast.Dict) else ast.iter_child_nodes(node):
            yield from _strings(each)


def _git(*command: str) -> str:
    return subprocess.check_output(["git", *command], cwd=ROOT, text=True)


def texts(revision: str | None) -> Iterator[Text]:
    """Yield the strings of a revision, in the files' present names; of the working tree if None."""
    listing = ["ls-tree", "-r", "--name-only", revision] if revision else ["ls-files"]
    renames = ["diff", "--name-status", "-M40", "--diff-filter=R", revision or "HEAD"]
    moved = dict(line.split("\t")[1:] for line in _git(*renames).splitlines() if revision)
    for name in _git(*listing, *FOLDERS).splitlines():
        if name.endswith((".ts", ".tsx", ".json", ".py")):
            source = _git("show", f"{revision}:{name}") if revision else (ROOT / name).read_text()
            for text in texts_of(name, source):
                yield text._replace(path=moved.get(name, name))


def changes(before: list[Text], after: list[Text]) -> Iterator[tuple[Text, str, str]]:
    """Yield what differs, with both texts; one is empty where a string is new or gone."""
    same = {text.text for text in before} & {text.text for text in after}
    old = [text for text in before if text.text not in same]
    for text in after:
        if text.text not in same:
            near = [each for each in old if each.path == text.path] or old
            least = 0.45 if near is not old else 0.65
            match = get_close_matches(text.text, [each.text for each in near], 1, least)
            found = next((each for each in near if each.text in match), None)
            if found is not None:
                old.remove(found)
            yield text, "" if found is None else found.text, text.text
    for text in old:
        yield text, text.text, ""


def main() -> None:
    """Print the table, and on standard error how many strings there are of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", metavar="REVISION", help="print what differs from a revision")
    since = parser.parse_args().since
    found = sorted(texts(None), key=lambda text: (text.kind, text.path, text.line))
    rows = (
        [(text, text.text) for text in found]
        if since is None
        else list(changes(list(texts(since)), found))
    )
    for text, *columns in rows:
        shown = [" ".join(column.split()) for column in columns]
        sys.stdout.write("\t".join([f"{text.path}:{text.line}", text.kind, *shown]) + "\n")
    for kind, count in sorted(Counter(text.kind for text, *_ in rows).items()):
        sys.stderr.write(f"{kind}: {count}\n")


if __name__ == "__main__":
    main()
