"""A project: a folder with notebooks, and `nb`'s state in its folder ``.nb``.

Only fast imports: thin commands use this module.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct

from tk_ai_extension.kernels.sandbox.lookup import FOLDER, SETTINGS, requires_sandbox
from tk_ai_extension.model import file_locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

KERNELS = "kernels"
"""The folder in ``.nb`` with the connection files of kernels."""
HOST_LOCK = "host.lock"
"""Lock file that the project's server holds while it runs."""
LAUNCH_LOCK = "launch.lock"
"""Lock file held during the start of a server, so that concurrent commands start only one."""
SOCKET = "nb.sock"
"""Socket of the project's server."""
SERVER = "server.json"
"""Private file with the server's process id and token."""
OWN_FILES = (
    LAUNCH_LOCK,
    SERVER,
    SOCKET,
    "host.log",
    ".gitignore",
    HOST_LOCK,
)
"""The files that `Project.clean` removes, in this order.

A command that finds no `HOST_LOCK` starts a server, unless the `LAUNCH_LOCK` that it holds was removed.
"""
WRITTEN = (*OWN_FILES, KERNELS, SETTINGS, "project.new", "shared", "relay.log")
"""Existing files and folders that `nb` writes to: none may be a symbolic link."""
PEER = struct.Struct("3i")  # pid, uid, gid (unix(7))


class Refused(Exception):
    """`nb` cannot do something; the message says what to do. The command exits with 2."""


class Project:
    """A folder with notebooks and its ``.nb``.

    Attributes:
        root: The folder; absolute. Paths of notebooks are relative to it.
        folder: Its ``.nb``: the server's socket, kernels, log.
        notice: A notice for the user, one sentence; empty for none.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = os.path.join(root, FOLDER)
        self.notice = ""

    @classmethod
    def find(cls, start: str) -> Project:
        """Return the project of a folder: with the nearest ``.nb`` upwards, else the folder itself.

        Another user's ``.nb`` is skipped. If a project further up has a sandbox, the outermost such
        project is used: sandboxed code can write below it, and must not be able to disable it there.
        """
        found = [project for project in map(cls, _upwards(start)) if project.is_open()]
        nearest = found[0] if found else cls(start)
        for outer in reversed(found):
            if outer is not nearest and outer.has_sandbox():
                outer.notice = (
                    f"{nearest.root} is inside {outer.root}, whose kernels run in a sandbox: using "
                    f"{outer.root}. `nb open --no-sandbox` there disables the sandbox."
                )
                return outer
        problem = cls(start).problem()
        if problem:
            nearest.notice = f"{problem} It is ignored."
        return nearest

    def below(self) -> Iterator[Project]:
        """Find this user's projects in all folders below this one."""
        for folder, names, _ in os.walk(self.root):
            if FOLDER in names:
                names.remove(FOLDER)
                if folder != self.root:
                    yield Project(folder)

    @property
    def log(self) -> str:
        """Path of the server's log."""
        return os.path.join(self.folder, "host.log")

    def is_open(self) -> bool:
        """Whether there is an ``.nb`` that belongs to this user."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()

    def has_sandbox(self) -> bool:
        """Whether ``.nb`` requires a sandbox for kernels, or cannot be read."""
        return requires_sandbox(self.folder)

    def problem(self) -> str:
        """Why ``.nb`` cannot be trusted, one sentence; empty if it can."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return ""
        if stat.S_ISLNK(found.st_mode):
            return f"{self.folder} is a symbolic link: nb would write elsewhere."
        if found.st_uid != os.geteuid():
            return (
                f"{self.folder} belongs to another user (uid {found.st_uid}), who could read and "
                "forge its content."
            )
        return ""

    def make(self) -> None:
        """Create ``.nb``, private and ignored by version control.

        Raises:
            Refused: it cannot be written, belongs to another user, or contains links.
        """
        problem = self.problem() or self._link()
        if problem:
            raise Refused(f"{problem} Remove it, or work in another folder.")
        ignored = os.path.join(self.folder, ".gitignore")
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            if stat.S_IMODE(os.stat(self.folder).st_mode) != 0o700:
                os.chmod(self.folder, 0o700)
            if not os.path.exists(ignored):
                with open(ignored, "w", encoding="utf-8") as file:
                    file.write("*\n")
        except OSError as error:
            raise Refused(
                f"{self.folder} cannot be written ({error.strerror}): the server stores its kernels' "
                "files there. Free some space, or open the project in another folder."
            ) from None

    def _link(self) -> str:
        """Describe a symbolic link in ``.nb``, which may have been downloaded with the project."""
        names = [os.path.join(self.folder, name) for name in WRITTEN]
        try:
            with os.scandir(os.path.join(self.folder, KERNELS)) as entries:
                names += [entry.path for entry in entries]
        except OSError:
            pass
        for name in names:
            if os.path.islink(name):
                return f"{name} is a symbolic link: nb would write elsewhere."
        return ""

    def is_served(self) -> bool:
        """Whether a server of this project runs."""
        try:
            lock = os.open(os.path.join(self.folder, HOST_LOCK), os.O_RDWR)
        except OSError:
            return False
        try:
            file_locks.lock(lock, wait=False)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def clean(self) -> None:
        """Remove `nb`'s files from ``.nb``, and ``.nb`` itself if it is empty."""
        if not self.is_open():
            return
        import shutil

        # Before the lock: the next server makes it again.
        shutil.rmtree(os.path.join(self.folder, KERNELS), ignore_errors=True)
        for name in OWN_FILES:
            try:
                os.unlink(os.path.join(self.folder, name))
            except OSError:
                continue
        try:
            os.rmdir(self.folder)
        except OSError:
            return

    def server(self) -> dict[str, object] | None:
        """Return the content of the server's file (`SERVER`); None if none has run."""
        try:
            with open(os.path.join(self.folder, SERVER), "rb") as file:
                known = json.load(file)
        except (OSError, ValueError):
            return None
        match known:
            case {"pid": int(), "token": str()}:
                return known
            case _:
                return None

    def connect(self) -> socket.socket | None:
        """Connect to the server's socket; None if no server of this user listens."""
        if not self.is_open():
            return None
        connection = socket.socket(socket.AF_UNIX)
        try:
            at_socket(self.folder, connection.connect)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        if not _is_own(connection):
            connection.close()
            return None
        return connection

    def bind(self) -> socket.socket:
        """Bind the server's socket; replaces a stale one."""
        path = os.path.join(self.folder, SOCKET)
        if os.path.lexists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        at_socket(self.folder, listener.bind)
        os.chmod(path, 0o600)
        return listener


def at_socket(folder: str, act: object) -> None:
    """Bind or connect a socket by its bare name, with its folder as the working directory.

    A socket's path is limited to 104 bytes, and a project's may be longer. No other thread of the
    process may depend on the working directory.
    """
    here = os.getcwd()
    os.chdir(folder)
    try:
        act(SOCKET)  # type: ignore[operator]
    finally:
        os.chdir(here)


def _is_own(connection: socket.socket) -> bool:
    """Whether the peer is a process of this user, as far as the system reports it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    peer = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, option, PEER.size))
    return peer[1] == os.geteuid()


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent
