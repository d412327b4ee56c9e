"""Starting a project's host: a process of its own, that outlives the command and its terminal."""

from __future__ import annotations

import os
import subprocess
import sys

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.project import LAUNCH_LOCK, Project, Refused
from tk_ai_extension.model import file_locks

LISTENS = "listens"
"""What a host says when it does; else it says why it cannot."""


def launch(project: Project) -> None:
    """Starts the project's host, unless another command has just done so, and waits until it listens.

    Raises:
        Refused: ``.nb`` cannot be written, or the host did not start; the message has its own words.
    """
    project.make()
    try:
        _launch(project)
    except OSError as error:
        raise Refused(
            f"the host cannot be started in {project.folder}: {error.strerror}."
        ) from None


def _launch(project: Project) -> None:
    with open(os.path.join(project.folder, LAUNCH_LOCK), "w", encoding="ascii") as lock:
        file_locks.lock(lock.fileno())
        running = project.connect(wire.SOCKET)
        if running is not None:
            running.close()
            return
        _start(project)


def _start(project: Project) -> None:
    ready, told = os.pipe()
    try:
        with open(project.log, "ab") as log:
            process = subprocess.Popen(
                # -P: a module of the project's own, such as random.py, is not the host's.
                [sys.executable, "-P", "-m", "tk_ai_extension.cli.host", project.root, str(told)],
                cwd=project.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(told,),
            )
    finally:
        os.close(told)
    with os.fdopen(ready, encoding="utf-8") as words:
        said = words.read()
    if said != LISTENS:
        raise Refused(said or f"the host ended at once; {project.log} has its last words.")
    # It lives on: nobody here waits for it.
    process.returncode = 0
