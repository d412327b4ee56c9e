"""The names that Python code defines and uses, from which it follows what depends on what."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """What a piece of code defines, and what it uses before it defines it."""

    defines: frozenset[str]
    uses: frozenset[str]


def names_of(source: str) -> Names | None:
    """The names of a Python cell; None where it cannot be parsed (another language, an error).

    IPython's magics and shell lines are passed over; the code in a ``%%time``-like cell counts.
    """
    try:
        tree = ast.parse(_without_magics(source))
        visitor = _NameVisitor()
        visitor.visit(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Names(frozenset(visitor.defines), frozenset(visitor.uses))


_MAGIC = re.compile(r"^([ \t]*)(?:[%!?]|\w+[\w.]*\?{1,2}\s*$)", re.MULTILINE)
_SHELL_ASSIGN = re.compile(r"^([ \t]*\w[\w, ]*=[ \t]*)[%!].*$", re.MULTILINE)


def _without_magics(source: str) -> str:
    lines = source.split("\n")
    if lines and lines[0].startswith("%%"):
        lines[0] = ""
    text = _SHELL_ASSIGN.sub(r"\1None", "\n".join(lines))
    return "\n".join(
        re.sub(r"\S.*", "pass", line) if _MAGIC.match(line) else line for line in text.split("\n")
    )


class _NameVisitor(ast.NodeVisitor):
    """Collects module-level definitions, and names read that are not a function's own."""

    def __init__(self) -> None:
        self.defines: set[str] = set()
        self.uses: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            if node.id not in self.defines:
                self.uses.add(node.id)
        else:
            self.defines.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            if node.target.id not in self.defines:
                self.uses.add(node.target.id)
            self.defines.add(node.target.id)
        else:
            self.visit(node.target)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._changed_in_place(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._changed_in_place(node)

    def _changed_in_place(self, node: ast.Attribute | ast.Subscript) -> None:
        """``df["a"] = 1`` uses df, and whoever uses df afterwards depends on it."""
        self.generic_visit(node)
        root: ast.expr = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if not isinstance(node.ctx, ast.Load) and isinstance(root, ast.Name):
            self.defines.add(root.id)

    def visit_Import(self, node: ast.Import) -> None:
        self.defines |= {alias.asname or alias.name.split(".")[0] for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.defines |= {alias.asname or alias.name for alias in node.names}

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_scope(node)
        self.defines.add(node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_scope(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_scope(node)
        self.defines.add(node.name)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self._visit_scope(node)
        else:
            super().generic_visit(node)

    def _visit_scope(self, node: ast.AST) -> None:
        inner = _NameVisitor()
        arguments = getattr(node, "args", None)
        if isinstance(arguments, ast.arguments):
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            inner.defines |= {argument.arg for argument in every}
            inner.defines |= {
                argument.arg for argument in (arguments.vararg, arguments.kwarg) if argument
            }
        for generator in getattr(node, "generators", ()):
            inner.visit(generator.iter)
            inner.visit(generator.target)
        for child in ast.iter_child_nodes(node):
            inner.visit(child)
        self.uses |= inner.uses - self.defines
