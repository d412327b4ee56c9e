"""Start of a project's server: a separate process that outlives the command and its terminal."""

from __future__ import annotations

import os
import subprocess
import sys

from tk_ai_extension.cli.connecting import own_server
from tk_ai_extension.cli.project import LAUNCH_LOCK, Project, Refused
from tk_ai_extension.model import file_locks

MODULE = "tk_ai_extension.server.headless"
"""Module of the project's server."""

LISTENS = "listens"
"""Output of a server that is listening; any other output is the reason why it cannot."""


def launch(project: Project) -> bool:
    """Start the project's server unless another command has done so, and wait until it listens.

    Returns:
        Whether this command started it.

    Raises:
        Refused: ``.nb`` cannot be written, or the server did not start; the message has the reason.
    """
    project.make()
    try:
        with open(os.path.join(project.folder, LAUNCH_LOCK), "w", encoding="ascii") as lock:
            file_locks.lock(lock.fileno())
            if listens(project):
                return False
            _start(project)
            return True
    except OSError as error:
        raise Refused(
            f"the server cannot be started in {project.folder}: {error.strerror}."
        ) from None


def listens(project: Project) -> bool:
    """Whether the project's server accepts connections."""
    server = own_server(project)
    if server is None:
        return False
    connection = server.connect()
    if connection is None:
        return False
    connection.close()
    return True


def _start(project: Project) -> None:
    with open(project.log, "ab") as log:
        process = subprocess.Popen(
            # -P: a module of the project's own, such as random.py, is not the server's.
            [sys.executable, "-P", "-m", MODULE, project.root],
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout as words:
        said = words.readline().decode().strip()
    if said != LISTENS:
        raise Refused(said or f"the server stopped at once; see {project.log}.")
    # It keeps running: do not wait for it.
    process.returncode = 0
