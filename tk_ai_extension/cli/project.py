"""Where a project keeps what `nb` needs to find again: the folder ``.nb`` beside its notebooks.

Imports nothing that a thin command would have to wait for.
"""

from __future__ import annotations

import os
import socket
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ".nb"
KERNELS = "kernels"
"""The folder in ``.nb`` with the connection files of kernels."""
HOST_LOCK = "host.lock"
"""Locked by a host as long as it lives."""
LAUNCH_LOCK = "launch.lock"
"""Held while a host is being started, so that two commands at once start one."""
BINDINGS = "notebooks.json"
"""The file beside them that says which kernel each notebook runs on."""
NOTE = ".process"
"""How the name of what says that a kernel runs ends."""
OWN_FILES = (
    os.path.join(KERNELS, BINDINGS),
    HOST_LOCK,
    LAUNCH_LOCK,
    "host.log",
    ".gitignore",
)


class Refused(Exception):
    """What `nb` cannot do, in a sentence with what to do about it; the command exits with 2."""


class Project:
    """A folder with notebooks, and its ``.nb``.

    Attributes:
        root: The folder; absolute. Paths of notebooks are relative to it.
        folder: Its ``.nb``: the host's sockets, kernels, log.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = os.path.join(root, FOLDER)

    @classmethod
    def find(cls, start: str) -> Project:
        """The project that a folder is in: of the nearest ``.nb`` upwards, else the folder's own."""
        for folder in _upwards(start):
            if os.path.isdir(os.path.join(folder, FOLDER)):
                return cls(folder)
        return cls(start)

    @property
    def log(self) -> str:
        """Where the host writes what happens to it."""
        return os.path.join(self.folder, "host.log")

    def is_open(self) -> bool:
        """Whether there is an ``.nb``.

        Raises:
            Refused: it belongs to somebody else, who could read and answer what is said there.
        """
        try:
            found = os.lstat(self.folder)
        except FileNotFoundError:
            return False
        if found.st_uid != os.geteuid():
            raise Refused(
                f"{self.folder} belongs to another user (uid {found.st_uid}): nothing is said to a "
                "host of theirs. Work in a folder of your own."
            )
        return stat.S_ISDIR(found.st_mode)

    def make(self) -> None:
        """Makes ``.nb``, for its owner alone, and kept out of version control.

        Raises:
            Refused: it cannot be written, or belongs to somebody else.
        """
        if self.is_open() and os.path.exists(os.path.join(self.folder, ".gitignore")):
            os.chmod(self.folder, 0o700)
            return
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            os.chmod(self.folder, 0o700)
            with open(os.path.join(self.folder, ".gitignore"), "w", encoding="utf-8") as file:
                file.write("*\n")
        except OSError as error:
            raise Refused(
                f"{self.folder} cannot be written ({error.strerror}): the host keeps its kernels "
                "there. Free or allow some space, or open the project in another folder."
            ) from None

    def has_kernels(self) -> bool:
        """Whether there are kernels that a host, which is gone, has left."""
        try:
            found = os.listdir(os.path.join(self.folder, KERNELS))
            return any(name.endswith(NOTE) for name in found)
        except OSError:
            return False

    def clean(self) -> None:
        """Removes what `nb` has made in ``.nb``, and ``.nb`` where nothing else is in it."""
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

    def connect(self, name: str) -> socket.socket | None:
        """A connection to the host's socket of this name; None where no host listens.

        Raises:
            Refused: ``.nb`` belongs to somebody else.
        """
        if not self.is_open():
            return None
        connection = socket.socket(socket.AF_UNIX)
        try:
            at_socket(self.folder, connection.connect, name)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        return connection

    def bind(self, name: str) -> socket.socket:
        """The host's end of the socket of this name; whatever was left there before is replaced."""
        path = os.path.join(self.folder, name)
        if os.path.lexists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        at_socket(self.folder, listener.bind, name)
        os.chmod(path, 0o600)
        return listener


def at_socket(folder: str, act: object, name: str) -> None:
    """Binds or connects a socket by its bare name, from inside its folder.

    A socket's path may be 104 bytes long, and a project's is what it is. The process must have no
    other thread that minds where it is.
    """
    here = os.getcwd()
    os.chdir(folder)
    try:
        act(name)  # type: ignore[operator]
    finally:
        os.chdir(here)


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent
