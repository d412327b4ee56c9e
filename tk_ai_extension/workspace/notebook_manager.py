"""Which notebooks each caller works in, under which names, and on which kernels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, NotebookNotFound
from tk_ai_extension.model.paths import moved

MAX_CALLERS = 1_000
"""How many callers are remembered; the one that acted least recently goes first."""
MAX_NOTEBOOKS = 100
"""How many notebooks one caller may hold at once."""


@dataclass(frozen=True, slots=True)
class ManagedNotebook:
    """A notebook that a caller has connected (use_notebook).

    Attributes:
        caller: The identity of the caller.
        name: What the caller calls it.
        path: Relative to the root.
        kernel_id: The kernel it runs on now; None where that is gone.
        current: Whether it is the caller's current notebook.
    """

    caller: str
    name: str
    path: str
    kernel_id: str | None
    current: bool = False


@dataclass
class _Desk:
    """One caller's notebooks: path by name, in the order in which they were connected."""

    caller: str
    paths: dict[str, str] = field(default_factory=dict[str, str])
    current: str | None = None


class NotebookManager:
    """Names, paths, kernels and the current notebook, apart for each caller.

    What callers call things is their own; what a notebook runs on is the same for all of them, so a
    kernel that is replaced is replaced for everybody. A caller without a key has no current
    notebook and no names but paths, since another session of that user would be taken for the
    same.

    Args:
        max_callers: The bound on remembered callers.
        max_notebooks: The bound on notebooks of one caller.
    """

    def __init__(self, max_callers: int = MAX_CALLERS, max_notebooks: int = MAX_NOTEBOOKS) -> None:
        self._max_callers = max_callers
        self._max_notebooks = max_notebooks
        self._desks: OrderedDict[str, _Desk] = OrderedDict()
        self._kernels: dict[str, str | None] = {}

    def add(
        self, caller: Caller, name: str | None, path: str, kernel_id: str | None
    ) -> ManagedNotebook:
        """Connect a notebook and makes it the current one. Doing it twice changes nothing.

        Args:
            caller: Whose notebook.
            name: What the caller calls it from now on; None for the name it has, else the path.
            path: Relative to the root.
            kernel_id: The kernel it runs on, from now on for every caller.

        Raises:
            InvalidArguments: the name is taken by another notebook, or reads like a path.
            LimitReached: the caller holds too many notebooks, each with a kernel. Else the one
                without a kernel that was connected longest ago is closed.
        """
        name = self.checked_name(caller, name, path)
        desk = self._desks.get(caller.identity) or _Desk(caller.identity)
        known = next((n for n, p in desk.paths.items() if p == path), None)
        if known is not None and known != name:
            desk.paths = {name if n == known else n: p for n, p in desk.paths.items()}
        if known is None:
            self._make_room(desk)
        desk.paths[name] = path
        if caller.key is not None:
            desk.current = name
        self._kernels[path] = kernel_id
        self._desks[caller.identity] = desk
        self._desks.move_to_end(caller.identity)
        while len(self._desks) > self._max_callers:
            _, gone = self._desks.popitem(last=False)
            self._let_go(gone.paths.values())
        return self._managed(desk, name)

    def checked_name(self, caller: Caller, name: str | None, path: str) -> str:
        """The name under which `add` would connect a notebook; changes nothing.

        Raises:
            InvalidArguments, LimitReached: as `add` says.
        """
        desk = self._desks.get(caller.identity) or _Desk(caller.identity)
        known = next((n for n, p in desk.paths.items() if p == path), None)
        name = path if caller.key is None else name or known or path
        if name != path and ("/" in name or name.endswith(".ipynb")):
            raise InvalidArguments(f"`{name}` reads like a path and cannot be the name of {path}.")
        if desk.paths.get(name, path) != path:
            raise InvalidArguments(
                f"`{name}` is the name of {desk.paths[name]} already.", hint="Choose another name."
            )
        if known is None and len(desk.paths) >= self._max_notebooks and not self._idle(desk):
            raise LimitReached(
                f"You hold {len(desk.paths)} notebooks with kernels already.",
                hint="Close some (unuse_notebook with shutdown_kernel).",
            )
        return name

    def current(self, caller: Caller) -> ManagedNotebook | None:
        """The caller's current notebook, or None."""
        desk = self._desk(caller)
        return None if desk is None or desk.current is None else self._managed(desk, desk.current)

    def remove(self, caller: Caller, notebook: str) -> ManagedNotebook:
        """Lets go of a notebook, by name or path; if it was the current one, there is none then.

        Raises:
            NotebookNotFound: the caller has not connected it.
        """
        desk, name = self._find(caller, notebook)
        managed = self._managed(desk, name)
        del desk.paths[name]
        if desk.current == name:
            desk.current = None
        if not desk.paths:
            del self._desks[caller.identity]
        self._let_go([managed.path])
        return managed

    def list(self, caller: Caller) -> list[ManagedNotebook]:
        """The caller's notebooks, in the order in which they were connected."""
        desk = self._desk(caller)
        return [] if desk is None else [self._managed(desk, name) for name in desk.paths]

    def resolve(self, caller: Caller, notebook: str | None) -> ManagedNotebook | None:
        """The connected notebook of this name or path (for None the current one), or None."""
        if notebook is None:
            return self.current(caller)
        desk = self._desk(caller)
        name = None if desk is None else _name_of(desk, notebook)
        return None if desk is None or name is None else self._managed(desk, name)

    def kernel_of(self, path: str) -> str | None:
        """The kernel of a notebook that somebody has connected, or None."""
        return self._kernels.get(path)

    def with_kernel(self, kernel_id: str) -> list[ManagedNotebook]:
        """Every caller's notebooks that run on a kernel."""
        return [
            self._managed(desk, name)
            for desk in self._desks.values()
            for name, path in desk.paths.items()
            if self._kernels.get(path) == kernel_id
        ]

    def users_of(self, path: str) -> set[str]:
        """The identities of the callers who have connected a notebook."""
        return {desk.caller for desk in self._desks.values() if path in desk.paths.values()}

    def replace_kernel(self, old: str, new: str | None) -> set[str]:
        """A kernel gave way to another one, or (None) is gone, for every notebook that ran on it.

        Returns:
            The identities of the callers whom that concerns.
        """
        concerned = {managed.caller for managed in self.with_kernel(old)}
        for path, kernel in self._kernels.items():
            if kernel == old:
                self._kernels[path] = new
        return concerned

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now; paths as names follow."""
        for desk in self._desks.values():
            paths: dict[str, str] = {}
            current = desk.current
            for name, path in desk.paths.items():
                now = moved(path, old, new)
                new_name = name if now is None or name != path else now
                if name == desk.current:
                    current = new_name
                paths[new_name] = path if now is None else now
            desk.paths, desk.current = paths, current
        kernels: dict[str, str | None] = {}
        for path, kernel in self._kernels.items():
            now = moved(path, old, new)
            # What stood at the new path before was overwritten: the one that moved wins.
            if now is not None or path not in kernels:
                kernels[path if now is None else now] = kernel
        self._kernels = kernels

    def forget(self, caller: Caller) -> None:
        """The caller's session is over: lets go of all its notebooks."""
        desk = self._desks.pop(caller.identity, None)
        if desk is not None:
            self._let_go(desk.paths.values())

    def _desk(self, caller: Caller) -> _Desk | None:
        desk = self._desks.get(caller.identity)
        if desk is not None:
            self._desks.move_to_end(caller.identity)
        return desk

    def _idle(self, desk: _Desk) -> list[str]:
        """The names of notebooks that can be closed for others: not current, and without a kernel."""
        return [
            name
            for name, path in desk.paths.items()
            if name != desk.current and self._kernels.get(path) is None
        ]

    def _make_room(self, desk: _Desk) -> None:
        """Close the notebook that was connected longest ago, where the caller holds too many."""
        if len(desk.paths) >= self._max_notebooks:
            path = desk.paths.pop(self._idle(desk)[0])
            self._let_go([path])

    def _find(self, caller: Caller, notebook: str) -> tuple[_Desk, str]:
        desk = self._desk(caller)
        name = None if desk is None else _name_of(desk, notebook)
        if desk is None or name is None:
            held = "" if desk is None else ", ".join(desk.paths)
            raise NotebookNotFound(
                f"You have not connected a notebook `{notebook}`.",
                hint=f"Connected: {held}." if held else "Connect it with use_notebook.",
            )
        return desk, name

    def _managed(self, desk: _Desk, name: str) -> ManagedNotebook:
        path = desk.paths[name]
        return ManagedNotebook(
            desk.caller, name, path, self._kernels.get(path), current=desk.current == name
        )

    def _let_go(self, paths: Iterable[str]) -> None:
        """Forget the kernels of those of these notebooks that no caller holds any more."""
        held = {path for desk in self._desks.values() for path in desk.paths.values()}
        for path in set(paths) - held:
            self._kernels.pop(path, None)


def _name_of(desk: _Desk, notebook: str) -> str | None:
    """The name of the notebook that the caller calls so, or that is at this path."""
    if notebook in desk.paths:
        return notebook
    return next((name for name, path in desk.paths.items() if path == notebook), None)
