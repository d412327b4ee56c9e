"""Hide a process's environment and memory from other processes of the same user."""

from __future__ import annotations

import ctypes
import logging
import sys

logger = logging.getLogger(__name__)

PR_SET_DUMPABLE = 4


def hide_process() -> bool:
    """Hide this process's environment and memory from the user's other processes; return whether it worked.

    On Linux, ``/proc/PID/environ``, ``mem`` and ``fd`` then belong to root, debuggers cannot attach,
    and there are no core dumps (prctl(2), PR_SET_DUMPABLE). Child processes are not hidden. Root can
    still read everything.
    """
    if sys.platform != "linux":
        return False
    try:
        done = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    except (OSError, AttributeError) as error:
        logger.warning("The process's environment is not hidden: %s", error)
        return False
    return done
