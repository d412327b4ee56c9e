"""One object for each notebook that somebody uses, and the map of paths to them.

A path is a name, which another notebook may get. Whatever is kept about a notebook is on its object or
refers to it; `Notebooks` alone follows renames and deletions.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from weakref import WeakValueDictionary

from tk_ai_extension.model.errors import NotebookNotFound
from tk_ai_extension.model.paths import DELETED, moved
from tk_ai_extension.notebooks.reads import Revisions, Seen
from tk_ai_extension.notebooks.staleness import LastRuns

MAX_UNUSED = 200
"""Maximum notebooks that are remembered although nothing refers to them; the oldest goes first."""


class Notebook:
    """A notebook that somebody uses, with all that is kept about it.

    Attributes:
        path: Its present path; its last one if it was deleted.
        is_deleted: Whether it was deleted, or replaced by a renamed one. Nothing may be carried out for it
            then: another notebook may have its path.
        kernel_id: The kernel that it was known to have last; None for none.
        starting: Held while its kernel is started; others wait to join it.
        seen: The source of each cell as each caller last read it.
        revisions: The snapshots that were shown as text.
        last_runs: The last run of each cell, which says whether its outputs are fresh.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_deleted = False
        self.kernel_id: str | None = None
        self.starting = asyncio.Lock()
        self.forget_content()

    def __repr__(self) -> str:
        return f"<Notebook {self.path}{' (deleted)' if self.is_deleted else ''}>"

    @property
    def stored_path(self) -> str:
        """What is stored as its path: marked if it was deleted."""
        return f"{self.path}{DELETED}" if self.is_deleted else self.path

    def check_present(self) -> None:
        """Check that it was not deleted.

        Raises:
            NotebookNotFound: It was.
        """
        if self.is_deleted:
            raise deleted_error(self.path)

    def forget_content(self) -> None:
        """Forget what was kept about the content, which another one has replaced."""
        self.seen = Seen()
        self.revisions = Revisions()
        self.last_runs = LastRuns()


def deleted_error(path: str) -> NotebookNotFound:
    """Return the error of what was about a notebook that was deleted since."""
    return NotebookNotFound(
        f"{path.removesuffix(DELETED)} was deleted.",
        hint="Another notebook may have its name. See list_notebooks.",
    )


class Notebooks:
    """The notebooks of a server by path.

    A notebook stays as long as something refers to it. Beyond that, the most recently used ones are kept.

    >>> notebooks = Notebooks()
    >>> notebook = notebooks.at("x/a.ipynb")
    >>> _ = notebooks.rename("x", "y")
    >>> notebook.path, notebooks.at("y/a.ipynb") is notebook, notebooks.at("x/a.ipynb") is notebook
    ('y/a.ipynb', True, False)

    Args:
        max_unused: Maximum notebooks to which nothing else refers.
    """

    def __init__(self, max_unused: int = MAX_UNUSED) -> None:
        self._max_unused = max_unused
        self._by_path: WeakValueDictionary[str, Notebook] = WeakValueDictionary()
        self._recent: OrderedDict[Notebook, None] = OrderedDict()

    def __iter__(self) -> Iterator[Notebook]:
        return iter(list(self._by_path.values()))

    def at(self, path: str) -> Notebook:
        """Return the notebook at a path."""
        notebook = self._by_path.get(path)
        if notebook is None:
            notebook = self._by_path[path] = Notebook(path)
        self._recent[notebook] = None
        self._recent.move_to_end(notebook)
        if len(self._recent) > self._max_unused:
            self._recent.popitem(last=False)
        return notebook

    def find(self, path: str) -> Notebook | None:
        """Return the notebook at a path; None if nothing is kept about it."""
        return self._by_path.get(path)

    def rename(self, old: str, new: str) -> tuple[dict[str, Notebook], list[Notebook]]:
        """Move a notebook, or those in a folder, to a new path.

        Returns:
            The notebooks that have moved, by former path, and former ones at the new path, which are
            deleted.
        """
        renamed = [(each, path) for each in self if (path := moved(each.path, old, new))]
        for notebook, _ in renamed:
            del self._by_path[notebook.path]
        deleted = self.delete(new)
        former = {notebook.path: notebook for notebook, _ in renamed}
        for notebook, path in renamed:
            notebook.path = path
            self._by_path[path] = notebook
        return former, deleted

    def delete(self, path: str) -> list[Notebook]:
        """Mark a notebook, or those in a folder, as deleted, and return them."""
        deleted = [each for each in self if moved(each.path, path, path)]
        for notebook in deleted:
            notebook.is_deleted = True
            del self._by_path[notebook.path]
            self._recent.pop(notebook, None)
        return deleted
