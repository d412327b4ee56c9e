"""Whether an error means that no more files, sockets and kernels can be opened."""

from __future__ import annotations

import errno


def is_out_of_files(error: BaseException | None) -> bool:
    """Whether this error, or what caused it, is the limit of open files of the process or the system."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        if "Too many open files" in str(error):
            return True
        error = error.__cause__
    return False
