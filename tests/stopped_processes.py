"""Stop a process, as a debugger or Ctrl+Z does."""

from __future__ import annotations

import os
import signal


def stop_process(pid: int) -> None:
    """Stop a child of this process with all its threads, and wait until it has stopped.

    One of its threads may have to finish a write to the disk first, while the others still answer.
    """
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
