"""Slow imports in a thread without blocking the event loop."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Generator[None]:
    """Pause the garbage collector during imports, then freeze the imported objects.

    Importing many classes triggers several full collections of a third of a second
    each, which hold the GIL and so block the event loop. Classes are never freed anyway.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
