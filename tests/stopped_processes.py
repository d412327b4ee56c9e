"""Stop a process, as a debugger or Ctrl+Z does."""

from __future__ import annotations

import os
import signal


def stop_process(pid: int) -> None:
    """Stop a child of this process with all its threads, and wait until it has stopped.

    One of its threads may have to end a write to the disk first, and the others answer meanwhile.
    """
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
