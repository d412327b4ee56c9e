"""Start of a project's server: a separate process that outlives the command and its terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tk_ai_extension.cli.connecting import own_server
from tk_ai_extension.cli.project import HOST_LOCK, LAUNCH_LOCK, Project, Refused
from tk_ai_extension.model import file_locks

MODULE = "tk_ai_extension.server.headless"
"""Module of the project's server."""

LISTENS = "listens"
"""Output of a server that is listening; any other output is the reason why it cannot."""


STOPPING = 20.0
"""Seconds that a server which is stopping is waited for."""


def launch(project: Project) -> None:
    """Start the project's server unless another command has done so, and wait until it listens.

    A server that is stopping is waited for. Its successor is temporary: it stops with its last user, also if
    this process is killed.

    Raises:
        Refused: ``.nb`` cannot be written, or the server did not start; the message has the reason.
    """
    try:
        while not _is_launched(project):
            continue
    except OSError as error:
        raise Refused(
            f"the server cannot be started in {project.folder}: {error.strerror}."
        ) from None


def _is_launched(project: Project) -> bool:
    """Start the server if none listens; return False if a server that stopped removed the lock meanwhile."""
    project.make()
    path = os.path.join(project.folder, LAUNCH_LOCK)
    with open(path, "w", encoding="ascii") as lock:
        file_locks.lock(lock.fileno())
        if listens(project):
            return True
        _wait_for_stop(project)
        try:
            is_current = os.path.samestat(os.fstat(lock.fileno()), os.stat(path))
        except FileNotFoundError:
            return False
        if is_current:
            _start(project)
        return is_current


def _wait_for_stop(project: Project) -> None:
    """Wait until the process of the previous server has ended, and has removed its files."""
    until = time.monotonic() + STOPPING
    try:
        file = os.open(os.path.join(project.folder, HOST_LOCK), os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        while time.monotonic() < until:
            try:
                file_locks.lock(file, wait=False)
                return
            except BlockingIOError:
                time.sleep(0.02)
    finally:
        os.close(file)


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
