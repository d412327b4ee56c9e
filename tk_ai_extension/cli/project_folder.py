"""A project: a folder with notebooks, and `nb`'s state in its folder ``.nb``.

Only fast imports: every command uses this module.
"""

from __future__ import annotations

import argparse
import json
import os
import stat

from tk_ai_extension.model import file_locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FOLDER = ".nb"
"""Folder of a project with `nb`'s state."""
SETTINGS = "project.json"
"""File with the setting whether kernels run in a sandbox."""
KERNELS = "kernels"
"""The folder in ``.nb`` with the connection files of kernels."""
LAUNCH_LOCK = "launch.lock"
"""Lock file that a command holds while it starts or stops the project's server."""
STATE = "nb.json"
"""File with the current notebook and the last execution of each caller."""
LOG = "host.log"
"""The log of the project's server."""
OWN_FILES = (STATE, LOG, ".gitignore", LAUNCH_LOCK)
"""The files that `Project.clean` removes."""


class CommandError(argparse.ArgumentTypeError):
    """`nb` cannot do something; the message says what to do. The command exits with 2."""


class Project:
    """A folder with notebooks and its ``.nb``.

    Attributes:
        root: The folder; absolute.
        folder: Its ``.nb``: kernels, settings, state, log.
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
                    f"{nearest.root} is inside {outer.root}, which runs kernels in a sandbox: using "
                    f"{outer.root}. `nb open --no-sandbox` there disables the sandbox."
                )
                return outer
        problem = cls(start).problem()
        if problem:
            nearest.notice = f"{problem} It is ignored."
        return nearest

    def below(self) -> Iterator[Project]:
        """Yield this user's projects in all folders below this one."""
        for folder, names, _ in os.walk(self.root):
            if FOLDER in names:
                names.remove(FOLDER)
                if folder != self.root:
                    yield Project(folder)

    @property
    def log(self) -> str:
        """Path of the server's log."""
        return os.path.join(self.folder, LOG)

    def is_open(self) -> bool:
        """Whether there is an ``.nb`` that belongs to this user."""
        return os.path.isdir(self.folder) and not self.problem()

    def has_sandbox(self) -> bool:
        """Whether the settings require a sandbox for kernels, or cannot be read."""
        try:
            with open(os.path.join(self.folder, SETTINGS), "rb") as file:
                known = json.load(file)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError, RecursionError):
            return True
        match known:
            case {"sandbox": False}:
                return False
            case _:
                return True

    def problem(self) -> str:
        """Why ``.nb`` cannot be trusted, one sentence; empty if it can.

        It may have been downloaded with the project.
        """
        try:
            found = os.lstat(self.folder)
        except OSError:
            return ""
        if stat.S_ISLNK(found.st_mode):
            return f"{self.folder} is a symbolic link: nb would write elsewhere."
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            return (
                f"{self.folder} belongs to another user (uid {found.st_uid}), who could read and "
                "forge its content."
            )
        return ""

    def make(self) -> None:
        """Create ``.nb``, private and ignored by version control.

        Raises:
            CommandError: it cannot be written, belongs to another user, or contains links.
        """
        names = (*OWN_FILES, KERNELS, SETTINGS, "shared", "relay.log")
        paths = [os.path.join(self.folder, name) for name in names]
        link = next(filter(os.path.islink, paths), None)
        problem = self.problem() or (
            f"{link} is a symbolic link: nb would write elsewhere." if link else ""
        )
        if problem:
            raise CommandError(f"{problem} Remove it, or work in another folder.")
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            os.chmod(self.folder, 0o700)
            ignored = os.path.join(self.folder, ".gitignore")
            if not os.path.exists(ignored):
                with open(ignored, "w", encoding="utf-8") as file:
                    file.write("*\n")
        except OSError as error:
            raise CommandError(
                f"{self.folder} cannot be written ({error.strerror}): the server stores its kernels' "
                "files there. Free some space, or open the project in another folder."
            ) from None

    def lock(self) -> int:
        """Wait for the lock of the server's start and stop; return the file that holds it.

        Raises:
            CommandError: ``.nb`` cannot be written.
        """
        path = os.path.join(self.folder, LAUNCH_LOCK)
        while True:
            self.make()
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            file_locks.lock(file)
            # An `nb shutdown` that held it has removed the file.
            if os.path.exists(path) and os.path.samestat(os.fstat(file), os.stat(path)):
                return file
            os.close(file)

    def clean(self) -> None:
        """Remove `nb`'s files from ``.nb``, and ``.nb`` itself if it is empty.

        The setting of a sandbox stays: opening the project again must not start kernels without one.
        """
        import shutil
        from contextlib import suppress

        shutil.rmtree(os.path.join(self.folder, KERNELS), ignore_errors=True)
        files = OWN_FILES if self.has_sandbox() else (SETTINGS, *OWN_FILES)
        with suppress(OSError):
            for name in files:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.folder, name))
            os.rmdir(self.folder)

    # -- state of callers

    def state(self, caller: str) -> dict[str, Any]:
        """Return a caller's state: ``notebook`` (its absolute path) and ``execution``."""
        known = self._states().get(caller)
        return known if isinstance(known, dict) else {}

    def keep(self, caller: str, **changes: str) -> None:
        """Store changes of a caller's state.

        Raises:
            CommandError: ``.nb`` cannot be written.
        """
        states = self._states()
        before = states.get(caller, {})
        after = {**before, **changes}
        if after == before:
            return
        self.make()
        path = os.path.join(self.folder, STATE)
        new = f"{path}.{os.getpid()}"
        with open(new, "w", encoding="utf-8") as file:
            json.dump({**states, caller: after}, file)
        os.replace(new, path)

    def _states(self) -> dict[str, Any]:
        if not self.is_open():
            return {}
        try:
            with open(os.path.join(self.folder, STATE), "rb") as file:
                known = json.load(file)
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above
