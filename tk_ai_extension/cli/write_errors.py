"""What goes wrong where `nb` keeps something for itself, as the errors that every face shows."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.notebooks.files.saving import save_error


@contextmanager
def translate_write_errors(what: str) -> Generator[None]:
    """Turn the system's errors of a block into those of the tools.

    Args:
        what: What is written in it, as a sentence names it.

    Raises:
        DiskFull, ReadOnly, SaveFailed.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise SaveFailed(f"{what} cannot be saved: {error.filename} is gone.") from error
    except OSError as error:
        raise save_error(error, what) from error
