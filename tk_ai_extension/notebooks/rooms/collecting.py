"""A shared notebook as JSON, as it was at one moment.

jupyter-ydoc collects the cells one after the other and lets others work in between. A cell that is
moved down meanwhile is met twice; where it was changed too, jupyter-ydoc takes the two for different
cells and gives the shared one a new id. Whoever knows it by its id, such as its run, loses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import signature
from typing import Any

from tk_ai_extension.model.cells import Json

_TRIES = 3


def collect_at_one_moment(document: Any, changes: Callable[[], int]) -> Callable[[], None]:
    """Have a shared notebook collected again where it changed meanwhile, whoever asks for it.

    The room's own saves ask for it, too.

    Args:
        document: The YNotebook.
        changes: How many transactions have changed it so far.

    Returns:
        A function that ends it.
    """
    collect = document.aget
    kept = {"deduplicate": False} if "deduplicate" in signature(collect).parameters else {}

    async def aget(*args: Any, **kwargs: Any) -> Json:
        for _ in range(_TRIES):
            before = changes()
            try:
                content: Json = await collect(**kept)
            except IndexError:  # A cell went while the cells were counted.
                continue
            if changes() == before and not _has_duplicates(content["cells"]):
                return content
        return document.get(*args, **kwargs)

    document.aget = aget

    def stop() -> None:
        with suppress(AttributeError):
            del document.aget

    return stop


def _has_duplicates(cells: Sequence[Json]) -> bool:
    ids = [cell["id"] for cell in cells if cell.get("id")]
    return len(set(ids)) < len(ids)
