"""Keeping a process's environment and memory from other processes of the same user."""

from __future__ import annotations

import ctypes
import logging
import sys

logger = logging.getLogger(__name__)

PR_SET_DUMPABLE = 4


def hide_process() -> bool:
    """Keep others of the same user from this process's environment and memory; whether that is done.

    Linux: ``/proc/PID/environ``, ``mem`` and ``fd`` become root's, and a debugger is not let in
    (prctl(2), PR_SET_DUMPABLE); nor is there a core dump. Programs that it starts are not hidden.
    Root reads it all the same.
    """
    if sys.platform != "linux":
        return False
    try:
        done = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    except (OSError, AttributeError) as error:
        logger.warning("The process's environment is not hidden: %s", error)
        return False
    return done
