"""The folders whose file of keys a person has agreed to use, kept where no project can write."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from tk_ai_extension.model.errors import ReadOnly

FILE = "trusted_folders.json"
SECRETS = "secrets.env"
"""The user's own file of keys, which may hold addresses, too."""


def user_folder() -> Path:
    """This package's folder in the user's Jupyter configuration."""
    return Path(jupyter_config_dir()) / "tk-ai-extension"


@dataclass(frozen=True, slots=True)
class TrustedFolders:
    """The record of trusted folders, of mode 0600. All of it blocks for a moment.

    A folder is known by its path without links, its device and its inode, and its owner: another one
    that takes its place is not trusted.

    Attributes:
        file: Where the record is.
    """

    file: Path

    def trusts(self, folder: Path) -> bool:
        """Whether the user has said that this folder's file of keys is used."""
        try:
            path, identity = _identity(folder)
        except OSError:
            return False
        known = self._load().get(path)
        return known is not None and known.items() >= identity.items()

    def trust(self, folder: Path) -> None:
        """Notes that the file of keys of a folder is used.

        Raises:
            ReadOnly: that cannot be kept.
        """
        try:
            path, identity = _identity(folder)
            self._save({**self._load(), path: {**identity, "since": int(time.time())}})
        except OSError as error:
            raise ReadOnly(f"{self.file} cannot be written: {error.strerror}.") from error

    def forget(self, folder: Path) -> None:
        """Notes that it is not used any more.

        Raises:
            ReadOnly: that cannot be kept.
        """
        path = os.path.realpath(folder)
        try:
            self._save({each: known for each, known in self._load().items() if each != path})
        except OSError as error:
            raise ReadOnly(f"{self.file} cannot be written: {error.strerror}.") from error

    def _load(self) -> Mapping[str, Mapping[str, int]]:
        try:
            found = self.file.lstat()
            if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
                return {}
            # Takes long to import, and few users have the file.
            from pydantic import TypeAdapter

            return TypeAdapter(dict[str, dict[str, int]]).validate_json(self.file.read_bytes())
        except (OSError, ValueError):
            return {}

    def _save(self, known: Mapping[str, Mapping[str, int]]) -> None:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.file.with_name(f".{self.file.name}-{os.getpid()}-{time.monotonic_ns()}")
        try:
            new.touch(mode=0o600, exist_ok=False)
            new.write_text(json.dumps(known, indent=1), encoding="utf-8")
            new.replace(self.file)
        except OSError:
            new.unlink(missing_ok=True)
            raise


def trusted_folders() -> TrustedFolders:
    """The record of this user."""
    return TrustedFolders(user_folder() / FILE)


def _identity(folder: Path) -> tuple[str, dict[str, int]]:
    path = os.path.realpath(folder)
    found = os.stat(path)  # noqa: PTH116 - a path as text
    return path, {"device": found.st_dev, "inode": found.st_ino, "owner": found.st_uid}
