"""Starting a Python kernel where a second attempt may help."""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable

from tornado.web import HTTPError

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.model.errors import KernelspecNotFound, KernelStartFailed

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""How often a kernel is started whose start fails for a reason that may pass."""


async def start_python(
    kernels: Kernels, path: str, *, make_room: Callable[[], Awaitable[None]]
) -> str:
    """Starts a Python kernel, and once more where a gateway failed or too many files were open.

    Args:
        kernels: Starts it.
        path: What it is started for, below the root: it runs in the folder of that.
        make_room: Lets go of what has files open and is not needed.

    Raises:
        KernelspecNotFound: no Python kernel is installed.
        KernelStartFailed: the start failed for another reason, or twice.
    """
    name = _python_kernelspec(kernels)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await kernels.start(name, path=path)
        except HTTPError as error:  # a gateway's: Jupyter's own manager for those passes it on
            if error.status_code < 500:
                raise KernelStartFailed(f"The gateway refused the kernel: {error}") from error
            if attempt == ATTEMPTS:
                raise KernelStartFailed(f"The gateway failed twice: {error}") from error
            logger.warning("The gateway failed to start a kernel, once more: %s", error)
        except (KernelStartFailed, OSError) as error:
            if not _is_exhausted(error):
                raise
            if attempt == ATTEMPTS:
                raise KernelStartFailed(f"The kernel could not be started: {error}") from error
            logger.warning("Too many open files: idle session kernels are let go")
            await make_room()
    raise AssertionError("the last attempt returns or raises")


def _python_kernelspec(kernels: Kernels) -> str:
    """The default kernelspec, if it is Python's, else the first that is."""
    specs = kernels.kernelspecs()
    for spec in specs:  # the default one first
        if spec.language == "python":
            return spec.name
    known = ", ".join(spec.name for spec in specs) or "none"
    raise KernelspecNotFound(f"No Python kernel is installed (there are: {known}).")


def _is_exhausted(error: BaseException | None) -> bool:
    """Whether this error, or what caused it, is that the system has no more files to open."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return True
        if "Too many open files" in str(error):
            return True
        error = error.__cause__
    return False
