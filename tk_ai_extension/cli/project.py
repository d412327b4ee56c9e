"""Where a project keeps what `nb` needs to find again: the folder ``.nb`` beside its notebooks.

Imports nothing that a thin command would have to wait for.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ".nb"
KERNELS = "kernels"
"""The folder in ``.nb`` with the connection files of kernels."""
HOST_LOCK = "host.lock"
"""Locked by the project's server as long as it lives."""
LAUNCH_LOCK = "launch.lock"
"""Held while a server is being started, so that two commands at once start one."""
BINDINGS = "notebooks.json"
"""A file beside them of older versions, which is removed with the rest."""
SOCKET = "nb.sock"
"""The socket on which the project's server listens."""
SERVER = "server.json"
"""The file with the server's process and the token that it lets in, for its user alone."""
NOTE = ".process"
"""How the name of what says that a kernel runs ends."""
SETTINGS = "project.json"
"""The file that says whether the project's kernels run in a sandbox."""
OWN_FILES = (
    os.path.join(KERNELS, BINDINGS),
    HOST_LOCK,
    LAUNCH_LOCK,
    SERVER,
    "host.log",
    ".gitignore",
)
WRITTEN = (*OWN_FILES, KERNELS, SETTINGS, "project.new", "shared", "external", "relay.log")
"""What `nb` writes, or writes in, without making it anew: none of it may be a link."""
PEER = struct.Struct("3i")  # pid, uid, gid (unix(7))


class Refused(Exception):
    """What `nb` cannot do, in a sentence with what to do about it; the command exits with 2."""


class Project:
    """A folder with notebooks, and its ``.nb``.

    Attributes:
        root: The folder; absolute. Paths of notebooks are relative to it.
        folder: Its ``.nb``: the server's socket, kernels, log.
        notice: What whoever works in it should know, in a sentence; empty where there is nothing.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = os.path.join(root, FOLDER)
        self.notice = ""

    @classmethod
    def find(cls, start: str) -> Project:
        """The project that a folder is in: of the nearest ``.nb`` upwards, else the folder's own.

        Somebody else's ``.nb`` is passed over. Where a project further up has a sandbox it is that
        one, the outermost: what runs in a sandbox writes below, and must not be able to end it there.
        """
        found = [project for project in map(cls, _upwards(start)) if project.is_open()]
        nearest = found[0] if found else cls(start)
        for outer in reversed(found):
            if outer is not nearest and outer.has_sandbox():
                outer.notice = (
                    f"the kernels of {outer.root} have a sandbox, and {nearest.root} is in it: this "
                    f"is about {outer.root}. `nb open --no-sandbox` there ends that."
                )
                return outer
        problem = cls(start).problem()
        if problem:
            nearest.notice = f"{problem} It is passed over."
        return nearest

    def below(self) -> Iterator[Project]:
        """The projects of this user in folders below this one; looks through all of them."""
        for folder, names, _ in os.walk(self.root):
            if FOLDER in names:
                names.remove(FOLDER)
                if folder != self.root:
                    yield Project(folder)

    @property
    def log(self) -> str:
        """Where the server writes its log."""
        return os.path.join(self.folder, "host.log")

    def is_open(self) -> bool:
        """Whether there is an ``.nb``, of this user's own."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()

    def has_sandbox(self) -> bool:
        """Whether it is said in ``.nb`` that the kernels have a sandbox, or cannot be read there."""
        try:
            with open(os.path.join(self.folder, SETTINGS), "rb") as file:
                known = json.load(file)
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            return True
        match known:
            case {"sandbox": False}:
                return False
            case _:
                return True

    def problem(self) -> str:
        """Why nothing may be said or written in ``.nb``, in a sentence; empty where nothing is wrong."""
        try:
            found = os.lstat(self.folder)
        except OSError:
            return ""
        if stat.S_ISLNK(found.st_mode):
            return f"{self.folder} is a link, and nb makes none: what it writes would be elsewhere."
        if found.st_uid != os.geteuid():
            return (
                f"{self.folder} belongs to another user (uid {found.st_uid}), who could read and "
                "answer what is said there."
            )
        return ""

    def make(self) -> None:
        """Make ``.nb``, for its owner alone, and kept out of version control.

        Raises:
            Refused: it cannot be written, belongs to somebody else, or has links in it.
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
                f"{self.folder} cannot be written ({error.strerror}): the server keeps its kernels "
                "there. Free or allow some space, or open the project in another folder."
            ) from None

    def _link(self) -> str:
        """What in ``.nb`` is a link, in a sentence: it may have come with what was downloaded."""
        names = [os.path.join(self.folder, name) for name in WRITTEN]
        try:
            with os.scandir(os.path.join(self.folder, KERNELS)) as entries:
                names += [entry.path for entry in entries]
        except OSError:
            pass
        for name in names:
            if os.path.islink(name):
                return f"{name} is a link, and nb makes none: what it writes would be elsewhere."
        return ""

    def has_kernels(self) -> bool:
        """Whether there are kernels that a former server has left running."""
        if not self.is_open():
            return False
        try:
            found = os.listdir(os.path.join(self.folder, KERNELS))
            return any(name.endswith(NOTE) for name in found)
        except OSError:
            return False

    def clean(self) -> None:
        """Remove what `nb` has made in ``.nb``, and ``.nb`` where nothing else is in it."""
        if not self.is_open():
            return
        for name in OWN_FILES:
            try:
                os.unlink(os.path.join(self.folder, name))
            except OSError:
                continue
        for folder in (os.path.join(self.folder, KERNELS), self.folder):
            try:
                os.rmdir(folder)
            except OSError:
                return

    def server(self) -> dict[str, object] | None:
        """Return what the project's server says of itself (`SERVER`); None where none has run."""
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
        """A connection to the server's socket; None where no server of this user listens."""
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
        """The server's end of the socket; whatever was left there before is replaced."""
        path = os.path.join(self.folder, SOCKET)
        if os.path.lexists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        at_socket(self.folder, listener.bind)
        os.chmod(path, 0o600)
        return listener


def at_socket(folder: str, act: object) -> None:
    """Bind or connects a socket by its bare name, from inside its folder.

    A socket's path may be 104 bytes long, and a project's is what it is. The process must have no
    other thread that minds where it is.
    """
    here = os.getcwd()
    os.chdir(folder)
    try:
        act(SOCKET)  # type: ignore[operator]
    finally:
        os.chdir(here)


def _is_own(connection: socket.socket) -> bool:
    """Whether this user listens at the other end, as far as the system says it."""
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
