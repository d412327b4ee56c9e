"""The connected notebooks of each caller, with their names and kernels."""

from __future__ import annotations

import builtins
from collections import OrderedDict
from dataclasses import dataclass, field

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, NotebookNotFound
from tk_ai_extension.notebooks.notebook import Notebook, Notebooks

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
    """The notebooks of one caller, in the order of connection.

    Attributes:
        names: The caller's name for each; None if that is its path. Deleted ones stay if they have kernels,
            which the caller may want to shut down.
    """

    caller: str
    names: dict[Notebook, str | None] = field(default_factory=dict[Notebook, str | None])
    current: Notebook | None = None

    def present(self) -> list[Notebook]:
        """Return the notebooks that were not deleted."""
        return [notebook for notebook in self.names if not notebook.is_deleted]

    def name_of(self, notebook: Notebook) -> str:
        return self.names[notebook] or notebook.path

    def find(self, notebook: str) -> Notebook | None:
        """Return the notebook with this name or path, or None."""
        present = self.present()
        named = (each for each in present if self.name_of(each) == notebook)
        return next(named, next((each for each in present if each.path == notebook), None))

    def find_deleted(self, path: str) -> Notebook | None:
        """Return the deleted notebook that was at a path and has a kernel, or None."""
        deleted = (each for each in reversed(self.names) if each.is_deleted and each.path == path)
        return next((each for each in deleted if each.kernel_id is not None), None)

    def managed(self, notebook: Notebook) -> ManagedNotebook:
        name = notebook.path if notebook.is_deleted else self.name_of(notebook)
        is_current = notebook is self.current and not notebook.is_deleted
        return ManagedNotebook(
            self.caller, name, notebook.path, notebook.kernel_id, current=is_current
        )


class NotebookManager:
    """Names and the current notebook of each caller.

    Names belong to one caller. A notebook's kernel is the same for all callers, so a replaced kernel
    is replaced for everybody. A caller without a key has no current notebook and no names, because
    sessions of the same user cannot be distinguished.

    Args:
        notebooks: The notebooks by path.
        max_callers: Maximum remembered callers.
        max_notebooks: Maximum connected notebooks of one caller.
    """

    def __init__(
        self,
        notebooks: Notebooks | None = None,
        max_callers: int = MAX_CALLERS,
        max_notebooks: int = MAX_NOTEBOOKS,
    ) -> None:
        self._notebooks = Notebooks() if notebooks is None else notebooks
        self._max_callers = max_callers
        self._max_notebooks = max_notebooks
        self._callers: OrderedDict[str, _CallerNotebooks] = OrderedDict()

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
        notebook = self._notebooks.at(path)
        if notebook not in connected.names:
            self._make_room(connected, path)
        connected.names[notebook] = None if name == path else name
        if caller.key is not None:
            connected.current = notebook
        notebook.kernel_id = kernel_id
        self._callers[caller.identity] = connected
        self._callers.move_to_end(caller.identity)
        while len(self._callers) > self._max_callers:
            self._callers.popitem(last=False)
        return connected.managed(notebook)

    def checked_name(self, caller: Caller, name: str | None, path: str) -> str:
        """Return the name under which `add` would connect a notebook, without connecting it.

        Raises:
            InvalidArguments, LimitReached: See `add`.
        """
        connected = self._callers.get(caller.identity) or _CallerNotebooks(caller.identity)
        present = connected.present()
        known = next((each for each in present if each.path == path), None)
        if name is None and known is not None:
            name = connected.name_of(known)
        name = path if caller.key is None else name or path
        if name != path and ("/" in name or name.endswith(".ipynb")):
            raise InvalidArguments(
                f"`{name}` looks like a path.", hint=f"Choose a name for {path} without slashes."
            )
        taken = next((each for each in present if connected.name_of(each) == name), None)
        if taken is not None and taken is not known:
            raise InvalidArguments(
                f"`{name}` is already the name of {taken.path}.", hint="Choose another name."
            )
        if known is None and len(present) >= self._max_notebooks and self._idle(connected) is None:
            raise LimitReached(
                f"You already have {len(present)} notebooks with kernels.",
                hint="Disconnect some: call unuse_notebook with shutdown_kernel.",
            )
        return name

    def current(self, caller: Caller) -> ManagedNotebook | None:
        """Return the caller's current notebook, or None."""
        connected = self._notebooks_of(caller)
        if connected is None or connected.current is None or connected.current.is_deleted:
            return None
        return connected.managed(connected.current)

    def remove(self, caller: Caller, notebook: str) -> ManagedNotebook:
        """Disconnect a notebook by name or path. If it was the current one, there is none afterwards.

        Raises:
            NotebookNotFound: The caller has not connected it.
        """
        connected = self._notebooks_of(caller)
        found = None
        names = ""
        if connected is not None:
            found = connected.find(notebook) or connected.find_deleted(notebook)
            names = ", ".join(map(connected.name_of, connected.present()))
        if connected is None or found is None:
            raise NotebookNotFound(
                f"You have not connected a notebook `{notebook}`.",
                hint=f"Connected: {names}." if names else "Connect it with use_notebook.",
            )
        managed = connected.managed(found)
        del connected.names[found]
        if connected.current is found:
            connected.current = None
        if not connected.names:
            del self._callers[caller.identity]
        return managed

    def list(self, caller: Caller) -> builtins.list[ManagedNotebook]:
        """Return the caller's notebooks, in the order of connection."""
        connected = self._notebooks_of(caller)
        return [] if connected is None else [*map(connected.managed, connected.present())]

    def resolve(self, caller: Caller, notebook: str | None) -> ManagedNotebook | None:
        """Return the connected notebook of this name or path, or None; for None, the current one.

        The path of a deleted notebook leads to its kernel until another notebook is connected there.
        """
        if notebook is None:
            return self.current(caller)
        connected = self._notebooks_of(caller)
        if connected is None:
            return None
        found = connected.find(notebook) or connected.find_deleted(notebook)
        return None if found is None else connected.managed(found)

    def connections(self, notebook: Notebook) -> builtins.list[ManagedNotebook]:
        """Return the connections of all callers to a notebook, which may have been deleted."""
        return [
            connected.managed(notebook)
            for connected in self._callers.values()
            if notebook in connected.names
        ]

    def with_kernel(self, kernel_id: str) -> builtins.list[ManagedNotebook]:
        """Return the notebooks of all callers that use a kernel."""
        return [
            connected.managed(notebook)
            for connected in self._callers.values()
            for notebook in connected.present()
            if notebook.kernel_id == kernel_id
        ]

    def users_of(self, path: str) -> set[str]:
        """Return the identities of the callers that have connected a notebook."""
        notebook = self._notebooks.find(path)
        return set() if notebook is None else {each.caller for each in self.connections(notebook)}

    def replace_kernel(self, old: str, new: str | None) -> set[str]:
        """Replace a kernel for all notebooks that use it.

        Args:
            old: The kernel that has ended.
            new: The new kernel; None if there is none.

        Returns:
            The identities of the affected callers.
        """
        concerned = {managed.caller for managed in self.with_kernel(old)}
        for notebook in self._notebooks:
            if notebook.kernel_id == old:
                notebook.kernel_id = new
        return concerned

    def forget(self, caller: Caller) -> None:
        """Disconnect all notebooks of a caller whose session has ended."""
        self._callers.pop(caller.identity, None)

    def _notebooks_of(self, caller: Caller) -> _CallerNotebooks | None:
        connected = self._callers.get(caller.identity)
        if connected is not None:
            self._callers.move_to_end(caller.identity)
        return connected

    def _idle(self, connected: _CallerNotebooks) -> Notebook | None:
        """Return the oldest notebook that can be evicted: not current, and without a kernel."""
        present = (each for each in connected.present() if each is not connected.current)
        return next((each for each in present if each.kernel_id is None), None)

    def _make_room(self, connected: _CallerNotebooks, path: str) -> None:
        """Disconnect the oldest idle notebook if the caller has too many, and deleted ones of a path."""
        if len(connected.present()) >= self._max_notebooks:
            idle = self._idle(connected)
            assert idle is not None, "checked by `checked_name`"
            del connected.names[idle]
        deleted = [each for each in connected.names if each.is_deleted]
        for position, each in enumerate(reversed(deleted)):
            if each.path == path or each.kernel_id is None or position >= self._max_notebooks:
                del connected.names[each]
