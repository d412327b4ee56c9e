"""The notebooks of a Jupyter Server: each is open in a tab of JupyterLab, or stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tk_ai_extension.model.errors import Conflict
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import aliases
from tk_ai_extension.notebooks.browser_pages import BrowserPages
from tk_ai_extension.notebooks.document import NotebookDocument, StoredDocument
from tk_ai_extension.notebooks.notebook_files import NotebookFiles
from tk_ai_extension.notebooks.tab_document import TabDocument

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

    from tk_ai_extension.notebooks.contents_manager_notebooks import ContentsManagerStore

_log = logging.getLogger(__name__)


class NotebookStore:
    """The notebooks of a Jupyter Server, by path: opens, creates and copies them.

    Args:
        root: The folder that paths are relative to.
        contain: Converts a caller's path to a path below the root with forward slashes; raises
            PathRefused and InvalidArguments.
        linked: Folders outside the root that links may lead to.
        contents_manager: Jupyter's contents manager; None without a server.
        tabs: The pages with open notebooks; None if there are none.
        warn: Called with warnings for callers, such as that a file was recovered.

    Attributes:
        notebooks: The notebooks by path.
        pages: The pages with open notebooks.
    """

    def __init__(
        self,
        root: Path,
        contain: Callable[[str], str],
        *,
        linked: Sequence[Path] = (),
        contents_manager: ContentsManager | None = None,
        tabs: BrowserPages | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._root = root
        self._contain = contain
        self._stored = _stored_notebooks(root, linked, contents_manager)
        self.pages = self._tabs = tabs or BrowserPages(root)
        self._tabs.warn = warn or _log.warning
        self._tabs.on_moved = self._on_moved
        self.notebooks = self._tabs.notebooks

    @property
    def backend(self) -> str:
        """The kind of documents that are not open in a tab: ``file`` or ``contents``."""
        return "file" if isinstance(self._stored, NotebookFiles) else "contents"

    def contain(self, path: str) -> str:
        """Return a caller's path as a path below the root; the name under which the file is open.

        One file has one live document. If people have it open under another name (a link to it, or to
        one of its folders), every caller gets that name.

        Raises:
            PathRefused, InvalidArguments.
        """
        path = self._contain(path)
        return next(iter(self._open_names(path)), path)

    def _open_names(self, path: str) -> list[str]:
        """Return the names under which a notebook's file is open, the one to use first."""
        tabs = self._tabs.present(path)
        return sorted(dict.fromkeys(tab.path for tab in tabs), key=lambda name: name != path)

    async def open(self, path: str) -> NotebookDocument:
        """Return the document that holds a path now. Call it again for each operation.

        Raises:
            PathRefused, InvalidArguments, NotebookNotFound.
        """
        path = self._contain(path)
        names = self._open_names(path)
        path = names[0] if names else path
        text = await self._stored.open(path)
        notebook = self.notebooks.at(path)
        kept = StoredDocument(notebook, text, self._stored.text, self._tabs.refresh)
        return TabDocument(kept, self._tabs)

    def _on_moved(self, path: str) -> None:
        """Locate a notebook's running cells again: another tab may hold it now."""
        for notebook in self.notebooks:
            if notebook.writers and (
                notebook.path == path or aliases(self._root, path, [notebook.path])
            ):
                notebook.on_moved()

    async def create(self, path: str, notebook: Json) -> NotebookDocument:
        """Create a notebook.

        Raises:
            NotebookExists, PathRefused, InvalidArguments, FileMissing (no such folder), ReadOnly, DiskFull.
            Conflict, ConflictingTabs, TabOffline: the file is gone, and a tab has unsaved changes.
        """
        path = self._contain(path)
        if not await self._stored.exists(path):
            # The file of an open notebook was deleted.
            tab = await self._tabs.find(path)
            if tab is not None and tab.dirty:
                raise Conflict(
                    f"A tab of JupyterLab has unsaved changes of {path}, but its file is gone.",
                    hint="Save the notebook or close it in JupyterLab, or choose another name.",
                )
        await self._stored.create(path, notebook)
        return await self._open_written(path)

    async def copy(self, source: NotebookDocument, path: str) -> NotebookDocument:
        """Write a copy of a notebook, byte for byte if it is a file; a file at the path is replaced.

        Raises:
            PathRefused, InvalidArguments, FileMissing (no such folder), ReadOnly, DiskFull.
            NotebookExists: notebooks are not kept in files, and there is one at the path.
        """
        path = self._contain(path)
        if isinstance(self._stored, NotebookFiles) and not (await source.read()).live:
            await self._stored.copy(source.path, path)
        elif isinstance(self._stored, NotebookFiles):
            await self._stored.write(path, await source.raw())
        else:
            await self._stored.create(path, await source.raw())
        return await self._open_written(path)

    async def _open_written(self, path: str) -> NotebookDocument:
        """Open a notebook after its whole file was written; tabs that have it open read it before."""
        await self._tabs.refresh(path)
        return await self.open(path)

    async def exists(self, path: str) -> bool:
        """Return whether a file or folder exists at a path."""
        return await self._stored.exists(self._contain(path))

    def file_of(self, path: str) -> str:
        """Return the identity of a notebook's file: the same for all names that lead to it.

        With a contents manager without files, this is the path.
        """
        return self._stored.file_of(path) if isinstance(self._stored, NotebookFiles) else path

    def is_open(self, path: str) -> bool:
        """Return whether people have a notebook open, under any of its names."""
        return bool(self._open_names(self._contain(path)))

    async def close(self) -> None:
        """Release all resources; documents must not be used afterwards."""
        for notebook in self.notebooks:
            await notebook.tasks.close()
        await self._tabs.stop()
        await self._stored.close()


def _stored_notebooks(
    root: Path,
    linked: Sequence[Path],
    contents_manager: ContentsManager | None,
) -> NotebookFiles | ContentsManagerStore:
    """Return the store of notebooks that are not open: files, or a contents manager."""
    if contents_manager is None:
        return NotebookFiles(root, None, linked)
    # Imported late: these need Jupyter Server, which a plain folder does not.
    from tk_ai_extension.notebooks.contents_manager_notebooks import ContentsManagerStore
    from tk_ai_extension.notebooks.jupyter_saves import SaveHooks, is_on_files

    if is_on_files(contents_manager):
        return NotebookFiles(root, SaveHooks(contents_manager), linked)
    return ContentsManagerStore(contents_manager)
