"""What jupyter-ydoc cannot read or write of a notebook, as errors with a type."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tk_ai_extension.model.errors import InvalidNotebook


@contextmanager
def readable(path: str) -> Generator[None]:
    """Makes what Jupyter cannot read of a notebook an error with a type.

    Raises:
        InvalidNotebook.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidNotebook(
            f"{path} has half a surrogate pair in it, which Jupyter cannot open live.",
            hint="Replace the JSON escape (from \\ud800 to \\udfff, alone) in the file.",
            path=path,
        ) from error
    except (TypeError, ValueError) as error:
        # Valid JSON that Jupyter stumbles over.
        raise InvalidNotebook(f"{path} cannot be opened live: {error}", path=path) from error


@contextmanager
def representable(path: str) -> Generator[None]:
    """Says by name that jupyter-ydoc cannot give a notebook with such numbers as JSON.

    Raises:
        InvalidNotebook.
    """
    try:
        yield
    except (OverflowError, ValueError) as error:
        raise InvalidNotebook(
            f"{path} holds a number that is infinite or none (NaN): it cannot be saved while it is live.",
            hint="Repair the number in the file, or close the notebook everywhere and edit its file.",
            path=path,
        ) from error
