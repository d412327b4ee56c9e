"""Imports that take long, in a thread, so that they hold the event loop no longer than they must."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Generator[None]:
    """Keeps the garbage collector from what is imported meanwhile, and from then on.

    So many new classes make it look at every object there is, more than once, a third of a second
    each time, in which the loop of another thread stands still. Classes stay, collected or not.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
