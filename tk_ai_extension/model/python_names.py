"""Find the names that Python code defines and uses, to determine dependencies between cells."""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PythonNames:
    """The names that code defines, and those that it uses before it defines them.

    Attributes:
        defines: The names that it defines.
        uses: The names that it uses before it defines them.
        deferred: Those of `uses` that only function bodies use: they must exist when a function is
            called.
    """

    defines: frozenset[str]
    uses: frozenset[str]
    deferred: frozenset[str] = frozenset()


def names_of(source: str) -> PythonNames | None:
    """Return the names of a Python cell; None if it cannot be parsed.

    Lines with IPython magics and shell commands are ignored; the code below a cell magic such as
    ``%%time`` is analysed.

    >>> names = names_of("y = x + 1")
    >>> sorted(names.defines), sorted(names.uses)
    (['y'], ['x'])
    """
    # First parse it unchanged: a line of Python may begin with `%` if it continues an expression.
    return _names(source) or _names(_without_magics(source))


class _NoScope(Exception):
    """`symtable` has no scope for a function of the syntax tree."""


def _names(text: str) -> PythonNames | None:
    try:
        visitor = _NameVisitor(_function_scopes(text))
        visitor.visit(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError, _NoScope):
        return None
    deferred = frozenset(visitor.uses - visitor.immediate)
    return PythonNames(frozenset(visitor.defines), frozenset(visitor.uses), deferred)


_MAGIC = re.compile(r"^([ \t]*)(?:[%!?]|\w[\w.]*\?{1,2}\s*$)", re.MULTILINE)
_SHELL_ASSIGN = re.compile(r"^([ \t]*\w[\w, ]*=[ \t]*)[%!].*$", re.MULTILINE)
_CONTINUED = re.compile(r"^[ \t]*(?:\w[\w, ]*=[ \t]*)?[%!](?:.*\\\n)+.*$", re.MULTILINE)


def _without_magics(source: str) -> str:
    lines = source.split("\n")
    if lines and lines[0].startswith("%%"):
        lines[0] = ""
    text = _CONTINUED.sub(lambda found: found[0].replace("\\\n", " "), "\n".join(lines))
    text = _SHELL_ASSIGN.sub(r"\1None", text)
    return "\n".join(
        re.sub(r"\S.*", "pass", line) if _MAGIC.match(line) else line for line in text.split("\n")
    )


_ASYNC = re.compile(r"\basync[ \t]+|\bawait\b")


def _without_async(text: str) -> str:
    """Return the code without async and await, which `symtable` rejects outside functions.

    The names and their line numbers are the same.
    """
    return _ASYNC.sub(lambda found: "+" if found[0] == "await" else "", text)


_COMPREHENSIONS = frozenset({"listcomp", "setcomp", "dictcomp", "genexpr"})
"""Names of comprehension scopes in `symtable`. Python 3.12 has only those of generators."""

_Scopes = Mapping[tuple[str, int], PythonNames]
"""The global names of functions and lambdas, by name and line."""


def _function_scopes(text: str) -> _Scopes:
    """Return the outermost functions and lambdas, including those in classes and comprehensions."""
    scopes: dict[tuple[str, int], PythonNames] = {}
    tables = [symtable.symtable(_without_async(text), "<cell>", "exec")]
    while tables:
        for child in tables.pop().get_children():
            name = child.get_name().strip("<>")
            if child.get_type() != "function" or name in _COMPREHENSIONS:
                tables.append(child)
                continue
            place, names = (name, child.get_lineno()), _global_names(child)
            other = scopes.get(place, PythonNames(frozenset(), frozenset()))
            scopes[place] = PythonNames(names.defines | other.defines, names.uses | other.uses)
    return scopes


def _global_names(table: symtable.SymbolTable) -> PythonNames:
    defines: set[str] = set()
    uses: set[str] = set()
    tables = [table]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        named = [symbol for symbol in table.get_symbols() if symbol.is_global()]
        uses |= {symbol.get_name() for symbol in named if symbol.is_referenced()}
        defines |= {
            symbol.get_name() for symbol in named if symbol.is_assigned() or symbol.is_imported()
        }
    return PythonNames(frozenset(defines), frozenset(uses))


class _NameVisitor(ast.NodeVisitor):
    """Collects the names that a module or a class body defines and uses, in the order of execution.

    Whether a name is used before it is defined depends on the order, which `symtable` does not have.
    So `symtable` is used only for the bodies of functions.

    Args:
        scopes: The functions of the cell.
        seen_inside: The visitor of the scope that functions in these statements see: for a class
            body, the enclosing scope. None for this visitor itself.
        classes: The names of the enclosing classes.
    """

    def __init__(
        self,
        scopes: _Scopes,
        seen_inside: _NameVisitor | None = None,
        classes: frozenset[str] = frozenset(),
    ) -> None:
        self.defines: set[str] = set()
        self.uses: set[str] = set()
        self.immediate: set[str] = set()
        self._scopes = scopes
        self._seen_inside = seen_inside or self
        self._classes = classes

    def _visit_all(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _use(self, name: str) -> None:
        if name not in self.defines:
            self.uses.add(name)
            self.immediate.add(name)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            self._use(node.id)
        if not isinstance(node.ctx, ast.Load):
            self.defines.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit_all(node.value, *node.targets)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._visit_all(node.value, node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all(node.annotation, node.value)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._use(node.target.id)
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit_all(node.iter, node.target, *node.body, *node.orelse)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self.visit_For(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        known = node.name is None or node.name in self.defines
        self._visit_all(node.type)
        if node.name is not None:
            self.defines.add(node.name)
        self._visit_all(*node.body)
        if not known:
            # Python deletes the name at the end of the handler.
            self.defines.discard(node.name or "")

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self._visit_comprehension(node)
            return
        super().generic_visit(node)
        captured: str | None = None
        if isinstance(node, ast.MatchAs | ast.MatchStar):
            captured = node.name
        elif isinstance(node, ast.MatchMapping):
            captured = node.rest
        if captured is not None:
            self.defines.add(captured)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        """Visit a comprehension: its loop variables are local, names bound by ``:=`` are not."""
        self.visit(node.generators[0].iter)
        targets = [name for each in node.generators for name in ast.walk(each.target)]
        own = {
            name.id
            for name in targets
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        inside = _NameVisitor(self._scopes, classes=self._classes)
        inside.defines |= own
        for position, each in enumerate(node.generators):
            inside._visit_all(*([each.iter] if position else []), each.target, *each.ifs)
        inside._visit_all(
            *(node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        )
        self._use_outside(inside.uses, inside.immediate)
        self.defines |= inside.defines - own

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._changed_in_place(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._changed_in_place(node)

    def _changed_in_place(self, node: ast.Attribute | ast.Subscript) -> None:
        """Record an in-place change: ``df["a"] = 1`` uses df, and later uses of df depend on it."""
        self.generic_visit(node)
        root: ast.expr = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if not isinstance(node.ctx, ast.Load) and isinstance(root, ast.Name):
            self.defines.add(root.id)

    def visit_Import(self, node: ast.Import) -> None:
        self.defines |= {alias.asname or alias.name.split(".")[0] for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        # The names of a star import are unknown.
        self.defines |= {alias.asname or alias.name for alias in node.names} - {"*"}

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        every = node.args
        arguments = [*every.posonlyargs, *every.args, every.vararg, *every.kwonlyargs, every.kwarg]
        self._visit_all(*node.decorator_list, *every.defaults, *every.kw_defaults)
        self._visit_all(*(each.annotation for each in arguments if each), node.returns)
        self._visit_inside(node.name, node, frozenset() if self._classes else {node.name})
        self.defines.add(node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(*node.args.defaults, *node.args.kw_defaults)
        self._visit_inside("lambda", node)

    def _visit_inside(
        self, name: str, node: ast.expr | ast.stmt, own: AbstractSet[str] = frozenset()
    ) -> None:
        """Record a function's global names. It does not see the names of an enclosing class."""
        inside = self._scopes.get((name, node.lineno))
        if inside is None:
            raise _NoScope
        self._use_outside(inside.uses - self._classes - own)
        self._seen_inside.defines |= inside.defines

    def _use_outside(
        self, names: AbstractSet[str], immediate: AbstractSet[str] = frozenset()
    ) -> None:
        """Record names that an inner scope uses from its enclosing scope, now or when it is called."""
        outside = self._seen_inside
        outside.uses |= names - outside.defines
        outside.immediate |= immediate - outside.defines

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(*node.decorator_list, *node.bases, *node.keywords)
        body = _NameVisitor(self._scopes, self._seen_inside, self._classes | {node.name})
        body._visit_all(*node.body)
        self._use_outside(body.uses, body.immediate)
        self.defines.add(node.name)
