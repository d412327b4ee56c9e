"""Runs the contents manager's save hooks and events for files that this package writes itself."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.files.splicing import CELL_DEPTH, EncodedCell, assemble
from tk_ai_extension.notebooks.jsonspans import DROP, JsonForm, edit_object, scan_object, skip
from tk_ai_extension.notebooks.reading import NotebookIndex, read_notebook

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

_log = logging.getLogger(__name__)


_HOOKS = ("_pre_save_hooks", "_post_save_hooks")


def missing_parts(contents_manager: ContentsManager) -> list[str]:
    """Return the private attributes that this module uses and a contents manager lacks.

    If one is missing, the hooks are run at each save even if there are none.
    """
    kind = type(contents_manager).__name__
    return [f"{kind}.{name}" for name in _HOOKS if not hasattr(contents_manager, name)]


class SaveHooks:
    """Everything that a contents manager does at a save in addition to writing the file.

    Args:
        contents_manager: Jupyter's contents manager.
    """

    def __init__(self, contents_manager: ContentsManager) -> None:
        self._manager: Any = contents_manager  # its methods are not annotated

    @property
    def before(self) -> bool:
        """Whether there are hooks that may change the content before a save."""
        return self._has("pre")

    async def pre_save(self, path: str, data: bytes) -> bytes:
        """Run the hooks on a file's new content and return it as they changed it.

        Only what a hook changed is rewritten. As in Jupyter's own save, an `HTTPError` from a hook
        refuses the save; any other error is logged and ignored. The hooks run on the event loop, as in
        Jupyter; everything else runs in threads.

        Raises:
            SaveFailed: a hook refused, or left no notebook.
        """
        content = await asyncio.to_thread(_model_content, data)
        # Keep dropped cells alive: a new object could get the same id().
        cells = tuple(content["cells"])
        before = await asyncio.to_thread(copy.deepcopy, content)
        model: Json = {"type": "notebook", "format": "json", "content": content}
        try:
            self._manager.run_pre_save_hooks(model=model, path=path)
        except HTTPError as error:
            raise SaveFailed(
                f"A save hook refused {path}: {error.log_message or error.reason}."
            ) from error
        try:
            return await asyncio.to_thread(
                _apply_hook_changes, data, path, before, model["content"], cells
            )
        except MALFORMED as error:
            raise SaveFailed(f"A save hook left no notebook in {path}: {error!r}.") from error

    async def saved(self, path: str, file: Path) -> None:
        """Run the post-save hooks and emit the save event; a failure is logged.

        The file is saved, so the change succeeded, whatever happens here.
        """
        manager = self._manager
        try:
            if self._has("post"):
                model = await ensure_async(manager.get(path, content=False))
                manager.run_post_save_hooks(model=model, os_path=str(file))
        except Exception as error:  # noqa: BLE001 - as in the docstring
            _log.error("A post-save hook failed on %s: %s", path, error)
        try:
            manager.emit(data={"action": "save", "path": path})
        except Exception:  # noqa: BLE001 - as above
            _log.exception("The save of %s was not announced", path)

    def _has(self, when: Literal["pre", "post"]) -> bool:
        registered = getattr(self._manager, f"_{when}_save_hooks", True)
        return getattr(self._manager, f"{when}_save_hook") is not None or bool(registered)

    def moved(self, old: str, new: str) -> None:
        """Emit a rename event for a move outside Jupyter, so that users of paths follow it."""
        self._manager.emit(data={"action": "rename", "path": new, "source_path": old})


def _model_content(data: bytes) -> Json:
    """Return the notebook as hooks get it: multi-line texts as single strings."""
    text = data.decode("utf-8")
    # Cell by cell: json's C code holds the GIL for a whole document.
    members, _ = scan_object(text, skip(text, 0), ("cells",))
    notebook = {member.key: member.value for member in members}
    joined: list[Json] = []
    for cell in cast("list[Json]", notebook["cells"]):
        cell = {**cell, "source": cellforms.joined(cell.get("source"))}  # noqa: PLW2901
        if isinstance(cell.get("outputs"), list):
            cell["outputs"] = list(cellforms.read_outputs(cell["outputs"]))
        joined.append(cell)
    return {**notebook, "cells": joined}


def _apply_hook_changes(
    data: bytes, path: str, before: Json, after: Json, cells: Sequence[Json]
) -> bytes:
    """Return the file with the hooks' changes; ``cells`` are the original objects, in order."""
    if after == before:
        return data
    known = {id(cell): number for number, cell in enumerate(cells)}
    index = read_notebook(data, path)
    order: list[int] = []
    bodies: dict[int, EncodedCell] = {}
    for number, cell in enumerate(cast("list[Json]", after["cells"])):
        slot = known.get(id(cell), -1 - number)
        if slot < 0:
            stored = cellforms.stored_cell(
                cellforms.content_of(cell, index.nbformat), as_lines=index.as_lines
            )
            text = index.form.dumps_object(stored, index.form.line(CELL_DEPTH) or None)
            bodies[slot] = EncodedCell(text.encode("utf-8"), stored)
        elif (old := before["cells"][slot]) != cell:
            bodies[slot] = _edited(index, data, slot, _difference(old, cell))
        order.append(slot)

    def read(span: tuple[int, int]) -> bytes:
        return data[span[0] : span[1]]

    pieces = assemble(index, order, bodies, read).pieces
    written = b"".join(piece if isinstance(piece, bytes) else read(piece) for piece in pieces)
    top = _difference(
        {key: value for key, value in before.items() if key != "cells"},
        {key: value for key, value in after.items() if key != "cells"},
    )
    return _edited_top(written, top) if top else written


def _edited(index: NotebookIndex, data: bytes, slot: int, values: Json) -> EncodedCell:
    assert index.spans is not None
    start, end = index.spans[slot]
    text = data[start:end].decode("utf-8")
    if "source" in values and values["source"] is not DROP and index.as_lines:
        values["source"] = cellforms.split(values["source"])
    if isinstance(values.get("outputs"), list):
        values["outputs"] = cellforms.stored_outputs(values["outputs"], as_lines=index.as_lines)
    edited = edit_object(text, values, index.form)
    return EncodedCell(edited.encode("utf-8"), json.loads(edited))


def _edited_top(data: bytes, values: Json) -> bytes:
    text = data.decode("utf-8")
    start = skip(text, 0)
    members, end = scan_object(text, start)
    form = JsonForm.of(text, start, members)
    edited = edit_object(text[start:end], values, form)
    return (text[:start] + edited + text[end:]).encode("utf-8")


def _difference(old: Json, new: Json) -> Json:
    """Return the fields of ``new`` that differ from ``old``, and `DROP` for those that it lacks."""
    values = {key: value for key, value in new.items() if key not in old or old[key] != value}
    return values | {key: DROP for key in old if key not in new}
