"""Start of a project's server: a separate process that outlives the command and its terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from threading import Thread

from tk_ai_extension.cli.client import write
from tk_ai_extension.cli.connecting import IMPORT_TIMEOUT, own_server
from tk_ai_extension.cli.project import HOST_LOCK, LAUNCH_LOCK, Project, Refused
from tk_ai_extension.model import file_locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from typing import IO, TypeVar

    T = TypeVar("T")

MODULE = "tk_ai_extension.server.headless"
"""Module of the project's server."""

LISTENS = "listens"
"""Output of a server that is listening; any other output is the reason why it cannot."""

STOPPING = 20.0
"""Seconds that a server which is stopping is waited for."""

STARTING = IMPORT_TIMEOUT
"""Seconds in which a server must listen."""

NOTICE = 1.0
"""Seconds of a wait for another process after which it is reported."""


def launch(project: Project) -> None:
    """Start the project's server unless another command has done so, and wait until it listens.

    A server that is stopping is waited for. Its successor is temporary: it stops with its last user, also if
    this process is killed.

    Raises:
        Refused: ``.nb`` cannot be written, another process did not end its start or stop of a server in time,
            or the server did not start; the message has the reason.
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
    with open(path, "a+b", buffering=0) as lock:
        holder = _Holder("another nb", "start the server", lambda: _pid_in(lock))
        _lock(lock.fileno(), STOPPING + STARTING, holder)
        lock.truncate(0)
        with suppress(OSError):  # a full disk: the process is not named
            lock.write(b"%d" % os.getpid())
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
    try:
        file = os.open(os.path.join(project.folder, HOST_LOCK), os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        _lock(file, STOPPING, _Holder("the previous server", "stop", lambda: _server_pid(project)))
    finally:
        os.close(file)


class _Holder:
    """A process that holds a lock.

    Args:
        name: What it is, in a sentence.
        task: What it does before it releases the lock; a verb.
        pid: Returns its process id; 0 if unknown.
    """

    def __init__(self, name: str, task: str, pid: Callable[[], int]) -> None:
        self._name = name
        self._task = task
        self._pid = pid

    def waiting(self) -> str:
        """Return the notice for a wait that takes longer."""
        return f"waiting for {self._named(self._pid())} to {self._task}."

    def late(self, limit: float) -> str:
        """Return the error for a wait that is over."""
        pid = self._pid()
        hint = "If it is suspended, resume or end it."
        if pid:
            hint = f"If it is suspended, `kill -CONT {pid}` resumes it; `kill -KILL {pid}` ends it."
        return f"{self._named(pid)} did not {self._task} within {limit:g} s. {hint} Then try again."

    def _named(self, pid: int) -> str:
        return f"{self._name} (process {pid})" if pid else self._name


def _lock(file: int, limit: float, holder: _Holder) -> None:
    """Lock a file; report on standard error what a longer wait is for.

    Raises:
        Refused: another process holds the lock for longer than ``limit`` seconds.
    """
    with suppress(BlockingIOError):
        file_locks.lock(file, wait=False)
        return
    locked = _in_thread(lambda: file_locks.lock(file))
    try:
        locked.result(NOTICE)
        return
    except TimeoutError:
        write(sys.stderr, f"nb: {holder.waiting()}\n")
    try:
        locked.result(limit - NOTICE)
    except TimeoutError:
        raise Refused(holder.late(limit)) from None


def _in_thread(call: Callable[[], T]) -> Future[T]:
    """Make a blocking call that has no timeout of its own; the process can end before it does."""
    from concurrent.futures import Future

    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except OSError as error:
            outcome.set_exception(error)

    Thread(target=run, daemon=True).start()
    return outcome


def _pid_in(lock: IO[bytes]) -> int:
    """Return the process id in the lock file; 0 if it cannot be read."""
    try:
        lock.seek(0)
        return int(lock.read(20))
    except (OSError, ValueError):
        return 0


def _server_pid(project: Project) -> int:
    known = project.server()
    return 0 if known is None else int(str(known["pid"]))


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

    def answer(words: IO[bytes] = process.stdout) -> bytes:
        with words:
            return words.readline()

    try:
        said = _in_thread(answer).result(STARTING).decode().strip()
    except TimeoutError:
        process.kill()
        process.wait()
        raise Refused(
            f"the server did not listen within {STARTING:g} s and was ended; see {project.log}."
        ) from None
    if said != LISTENS:
        raise Refused(said or f"the server stopped at once; see {project.log}.")
    # It keeps running: do not wait for it.
    process.returncode = 0
