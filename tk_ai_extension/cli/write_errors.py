"""Translation of errors when `nb` writes its own files, for all interfaces."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.notebooks.atomic_file import save_error


@contextmanager
def translate_write_errors(what: str) -> Generator[None]:
    """Translate `OSError` in a block to errors of the tools.

    Args:
        what: What is written, for the message.

    Raises:
        DiskFull, ReadOnly, SaveFailed.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise SaveFailed(f"{what} cannot be saved: {error.filename} is gone.") from error
    except OSError as error:
        raise save_error(error, what) from error
