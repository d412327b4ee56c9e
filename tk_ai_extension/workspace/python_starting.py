"""Starting a Python kernel, also where others hold too many files open."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.model.errors import KernelspecNotFound, KernelStartFailed, is_out_of_files

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""How often a kernel is started for which too many files are open."""


async def start_python(
    kernels: Kernels, path: str, *, make_room: Callable[[], Awaitable[None]]
) -> str:
    """Starts a Python kernel, and once more where too many files were open.

    Args:
        kernels: Starts it.
        path: What it is started for, below the root: it runs in the folder of that.
        make_room: Lets go of what has files open and is not needed.

    Raises:
        KernelspecNotFound: no Python kernel is installed.
        KernelStartFailed: the start failed for another reason, or twice.
    """
    name = await _python_kernelspec(kernels)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await kernels.start(name, path=path)
        except (KernelStartFailed, OSError) as error:
            if not is_out_of_files(error):
                raise
            if attempt == ATTEMPTS:
                raise KernelStartFailed(f"The kernel could not be started: {error}") from error
            logger.warning("Too many open files: idle session kernels are let go")
            await make_room()
    raise AssertionError("the last attempt returns or raises")


async def _python_kernelspec(kernels: Kernels) -> str:
    """The default kernelspec, if it is Python's, else the first that is."""
    specs = await kernels.kernelspecs()
    for spec in specs:  # the default one first
        if spec.language == "python":
            return spec.name
    known = ", ".join(spec.name for spec in specs) or "none"
    raise KernelspecNotFound(f"No Python kernel is installed (there are: {known}).")
