"""The connected notebooks of each caller, with their names and kernels."""

from __future__ import annotations

import builtins
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, NotebookNotFound
from tk_ai_extension.model.paths import moved

MAX_CALLERS = 1_000
"""Maximum callers that are remembered; the least recently active one is evicted first."""
MAX_NOTEBOOKS = 100
"""Maximum connected notebooks of one caller."""


@dataclass(frozen=True, slots=True)
class ManagedNotebook:
    """A notebook that a caller has connected (use_notebook).

    Attributes:
        caller: The identity of the caller.
        name: The caller's name for it.
        path: The path relative to the root.
        kernel_id: Its current kernel; None if that has ended.
        current: Whether it is the caller's current notebook.
    """

    caller: str
    name: str
    path: str
    kernel_id: str | None
    current: bool = False


@dataclass
class _CallerNotebooks:
    """The notebooks of one caller: paths by name, in the order of connection.

    Attributes:
        left: Deleted notebooks by path, with kernels that the caller may want to shut down.
    """

    caller: str
    paths: dict[str, str] = field(default_factory=dict[str, str])
    current: str | None = None
    left: dict[str, ManagedNotebook] = field(default_factory=dict[str, ManagedNotebook])


class NotebookManager:
    """Names, paths, kernels and the current notebook of each caller.

    Names belong to one caller. A notebook's kernel is the same for all callers, so a replaced kernel
    is replaced for everybody. A caller without a key has no current notebook and no names, because
    sessions of the same user cannot be distinguished.

    Args:
        max_callers: Maximum remembered callers.
        max_notebooks: Maximum connected notebooks of one caller.
    """

    def __init__(self, max_callers: int = MAX_CALLERS, max_notebooks: int = MAX_NOTEBOOKS) -> None:
        self._max_callers = max_callers
        self._max_notebooks = max_notebooks
        self._callers: OrderedDict[str, _CallerNotebooks] = OrderedDict()
        self._kernels: dict[str, str | None] = {}

    def add(
        self, caller: Caller, name: str | None, path: str, kernel_id: str | None
    ) -> ManagedNotebook:
        """Connect a notebook and make it the current one. Idempotent.

        Args:
            caller: The caller.
            name: The caller's name for it; None for its existing name, else the path.
            path: The path relative to the root.
            kernel_id: The notebook's kernel, which applies to every caller.

        Raises:
            InvalidArguments: Another notebook has the name, or it looks like a path.
            LimitReached: The caller has too many notebooks with a kernel. Otherwise, the oldest
                notebook without a kernel is disconnected.
        """
        name = self.checked_name(caller, name, path)
        connected = self._callers.get(caller.identity) or _CallerNotebooks(caller.identity)
        known = next((n for n, p in connected.paths.items() if p == path), None)
        if known is not None and known != name:
            connected.paths = {name if n == known else n: p for n, p in connected.paths.items()}
        if known is None:
            self._evict_idle(connected)
        connected.paths[name] = path
        connected.left.pop(path, None)
        if caller.key is not None:
            connected.current = name
        self._kernels[path] = kernel_id
        self._callers[caller.identity] = connected
        self._callers.move_to_end(caller.identity)
        while len(self._callers) > self._max_callers:
            _, gone = self._callers.popitem(last=False)
            self._forget_unused_kernels(gone.paths.values())
        return self._managed(connected, name)

    def checked_name(self, caller: Caller, name: str | None, path: str) -> str:
        """Return the name under which `add` would connect a notebook, without connecting it.

        Raises:
            InvalidArguments, LimitReached: See `add`.
        """
        connected = self._callers.get(caller.identity) or _CallerNotebooks(caller.identity)
        known = next((n for n, p in connected.paths.items() if p == path), None)
        name = path if caller.key is None else name or known or path
        if name != path and ("/" in name or name.endswith(".ipynb")):
            raise InvalidArguments(
                f"`{name}` looks like a path.", hint=f"Choose a name for {path} without slashes."
            )
        if connected.paths.get(name, path) != path:
            raise InvalidArguments(
                f"`{name}` is already the name of {connected.paths[name]}.",
                hint="Choose another name.",
            )
        if (
            known is None
            and len(connected.paths) >= self._max_notebooks
            and not self._idle(connected)
        ):
            raise LimitReached(
                f"You already have {len(connected.paths)} notebooks with kernels.",
                hint="Disconnect some: call unuse_notebook with shutdown_kernel.",
            )
        return name

    def current(self, caller: Caller) -> ManagedNotebook | None:
        """Return the caller's current notebook, or None."""
        connected = self._notebooks_of(caller)
        if connected is None or connected.current is None:
            return None
        return self._managed(connected, connected.current)

    def remove(self, caller: Caller, notebook: str) -> ManagedNotebook:
        """Disconnect a notebook by name or path. If it was the current one, there is none afterwards.

        Raises:
            NotebookNotFound: The caller has not connected it.
        """
        known = self._callers.get(caller.identity)
        if known is not None and _name_of(known, notebook) is None and notebook in known.left:
            return known.left.pop(notebook)
        connected, name = self._find(caller, notebook)
        managed = self._managed(connected, name)
        del connected.paths[name]
        if connected.current == name:
            connected.current = None
        if not connected.paths and not connected.left:
            del self._callers[caller.identity]
        self._forget_unused_kernels([managed.path])
        return managed

    def list(self, caller: Caller) -> builtins.list[ManagedNotebook]:
        """Return the caller's notebooks, in the order of connection."""
        connected = self._notebooks_of(caller)
        return (
            []
            if connected is None
            else [self._managed(connected, name) for name in connected.paths]
        )

    def resolve(self, caller: Caller, notebook: str | None) -> ManagedNotebook | None:
        """Return the connected notebook of this name or path, or None; for None, the current one.

        The path of a deleted notebook leads to its kernel until another notebook is connected there.
        """
        if notebook is None:
            return self.current(caller)
        connected = self._notebooks_of(caller)
        if connected is None:
            return None
        name = _name_of(connected, notebook)
        return connected.left.get(notebook) if name is None else self._managed(connected, name)

    def kernel_of(self, path: str) -> str | None:
        """Return the kernel of a connected notebook, or None."""
        return self._kernels.get(path)

    def with_kernel(self, kernel_id: str) -> builtins.list[ManagedNotebook]:
        """Return the notebooks of all callers that use a kernel."""
        return [
            self._managed(connected, name)
            for connected in self._callers.values()
            for name, path in connected.paths.items()
            if self._kernels.get(path) == kernel_id
        ]

    def users_of(self, path: str) -> set[str]:
        """Return the identities of the callers that have connected a notebook."""
        return {
            connected.caller
            for connected in self._callers.values()
            if path in connected.paths.values()
        }

    def set_kernel(self, path: str, kernel_id: str) -> None:
        """Note the kernel of a notebook, if it is connected."""
        if path in self._kernels:
            self._kernels[path] = kernel_id

    def replace_kernel(self, old: str, new: str | None) -> set[str]:
        """Replace a kernel for all notebooks that use it.

        Args:
            old: The kernel that has ended.
            new: The new kernel; None if there is none.

        Returns:
            The identities of the affected callers.
        """
        concerned = {managed.caller for managed in self.with_kernel(old)}
        for path, kernel in self._kernels.items():
            if kernel == old:
                self._kernels[path] = new
        return concerned

    def renamed(self, old: str, new: str) -> None:
        """Update paths, and names that are paths, after a notebook or a folder was renamed.

        A former notebook at the new path is disconnected.
        """
        self.deleted(new)
        for connected in self._callers.values():
            paths: dict[str, str] = {}
            current = connected.current
            for name, path in connected.paths.items():
                now = moved(path, old, new)
                new_name = name if now is None or name != path else now
                if name == connected.current:
                    current = new_name
                paths[new_name] = path if now is None else now
                connected.left.pop(paths[new_name], None)
            connected.paths, connected.current = paths, current
        kernels: dict[str, str | None] = {}
        for path, kernel in self._kernels.items():
            kernels[moved(path, old, new) or path] = kernel
        self._kernels = kernels

    def deleted(self, place: str) -> builtins.list[ManagedNotebook]:
        """Disconnect a deleted notebook, or those in a deleted folder, and return them.

        Another notebook may get the name.
        """
        gone = [
            self._managed(connected, name)
            for connected in self._callers.values()
            for name, path in connected.paths.items()
            if moved(path, place, place) is not None
        ]
        for each in gone:
            connected = self._callers[each.caller]
            del connected.paths[each.name]
            if each.current:
                connected.current = None
            if each.kernel_id is not None:
                connected.left[each.path] = replace(each, name=each.path, current=False)
                for oldest in [*connected.left][: -self._max_notebooks]:
                    del connected.left[oldest]
        self._forget_unused_kernels(each.path for each in gone)
        return gone

    def forget(self, caller: Caller) -> None:
        """Disconnect all notebooks of a caller whose session has ended."""
        connected = self._callers.pop(caller.identity, None)
        if connected is not None:
            self._forget_unused_kernels(connected.paths.values())

    def _notebooks_of(self, caller: Caller) -> _CallerNotebooks | None:
        connected = self._callers.get(caller.identity)
        if connected is not None:
            self._callers.move_to_end(caller.identity)
        return connected

    def _idle(self, connected: _CallerNotebooks) -> builtins.list[str]:
        """Return the names of notebooks that can be evicted: not current, and without a kernel."""
        return [
            name
            for name, path in connected.paths.items()
            if name != connected.current and self._kernels.get(path) is None
        ]

    def _evict_idle(self, connected: _CallerNotebooks) -> None:
        """Disconnect the oldest idle notebook if the caller has too many."""
        if len(connected.paths) >= self._max_notebooks:
            path = connected.paths.pop(self._idle(connected)[0])
            self._forget_unused_kernels([path])

    def _find(self, caller: Caller, notebook: str) -> tuple[_CallerNotebooks, str]:
        connected = self._notebooks_of(caller)
        name = None if connected is None else _name_of(connected, notebook)
        if connected is None or name is None:
            names = "" if connected is None else ", ".join(connected.paths)
            raise NotebookNotFound(
                f"You have not connected a notebook `{notebook}`.",
                hint=f"Connected: {names}." if names else "Connect it with use_notebook.",
            )
        return connected, name

    def _managed(self, connected: _CallerNotebooks, name: str) -> ManagedNotebook:
        path = connected.paths[name]
        return ManagedNotebook(
            connected.caller, name, path, self._kernels.get(path), current=connected.current == name
        )

    def _forget_unused_kernels(self, paths: Iterable[str]) -> None:
        """Forget the kernels of the notebooks that no caller has connected any more."""
        used = {path for connected in self._callers.values() for path in connected.paths.values()}
        for path in set(paths) - used:
            self._kernels.pop(path, None)


def _name_of(connected: _CallerNotebooks, notebook: str) -> str | None:
    """Return the name of the notebook with this name or path, or None."""
    if notebook in connected.paths:
        return notebook
    return next((name for name, path in connected.paths.items() if path == notebook), None)
