"""Take the documentation's pictures of JupyterLab again.

    python scripts/docs/pictures.py [NAME ...]

The tests of `tests/browser` that call `picture` take them, into `docs/images`; with names, only those
pictures' tests run.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs" / "images"


def picture_tests(names: frozenset[str]) -> Iterator[str]:
    """Yield the ids of the tests that take these pictures, or any where no name is given."""
    for path in sorted((ROOT / "tests" / "browser").glob("test_*.py")):
        functions = [
            node
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.AsyncFunctionDef)
        ]
        taking = {each.name for each in functions if _taken(each) & (names or _taken(each))}
        # A test may leave a picture to a helper of its module.
        for function in functions:
            if function.name.startswith("test_") and taking & {function.name, *_called(function)}:
                yield f"{path.relative_to(ROOT)}::{function.name}"


def _calls(function: ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node


def _called(function: ast.AsyncFunctionDef) -> set[str]:
    return {name for name, _ in _calls(function)}


def _taken(function: ast.AsyncFunctionDef) -> set[str]:
    return {
        str(call.args[1].value)
        for name, call in _calls(function)
        if name == "picture" and isinstance(call.args[1], ast.Constant)
    }


def main() -> int:
    """Run the tests; returns pytest's exit code."""
    tests = list(picture_tests(frozenset(sys.argv[1:])))
    if not tests:
        print("No test takes such a picture.", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "", *tests]
    environment = {**os.environ, "PICTURES": str(FOLDER)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
