"""Folders whose file of keys the user trusts, recorded where no project can write."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir

from tk_ai_extension.model.errors import ReadOnly
from tk_ai_extension.model.private_files import make_private, write_private
from tk_ai_extension.model.single_writer import single_writer

FILE = "trusted_folders.json"
SECRETS = "secrets.env"
"""Name of the user's own file of keys, which may hold addresses as well."""


def user_folder() -> Path:
    """Return this package's folder in the user's Jupyter configuration."""
    return Path(jupyter_config_dir()) / "tk-ai-extension"


@dataclass(frozen=True, slots=True)
class TrustedFolders:
    """Record of trusted folders, a file of mode 0600. All methods block.

    A folder is identified by its real path, device, inode and owner: another folder
    at that path is not trusted.

    Attributes:
        file: Path of the record.
    """

    file: Path

    def trusts(self, folder: Path) -> bool:
        """Whether the user trusts this folder's file of keys."""
        try:
            path, identity = _identity(folder)
        except OSError:
            return False
        known = self._load().get(path)
        return known is not None and known.items() >= identity.items()

    def trust(self, folder: Path) -> None:
        """Trust the file of keys of a folder.

        Raises:
            ReadOnly: the record cannot be written.
        """
        try:
            path, identity = _identity(folder)
            self._change(path, {**identity, "since": int(time.time())})
        except OSError as error:
            raise ReadOnly(f"{self.file} cannot be written: {error.strerror}.") from error

    def forget(self, folder: Path) -> None:
        """Stop trusting the file of keys of a folder.

        Raises:
            ReadOnly: the record cannot be written.
        """
        path = os.path.realpath(folder)
        try:
            self._change(path, None)
        except OSError as error:
            raise ReadOnly(f"{self.file} cannot be written: {error.strerror}.") from error

    def _load(self) -> Mapping[str, Mapping[str, int]]:
        try:
            found = self.file.lstat()
            if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
                return {}
            # Slow to import, and few users have the file.
            from pydantic import TypeAdapter

            return TypeAdapter(dict[str, dict[str, int]]).validate_json(self.file.read_bytes())
        except (OSError, ValueError):
            return {}

    def _change(self, path: str, identity: Mapping[str, int] | None) -> None:
        """Record a folder, or remove it: without losing what another thread or server records meanwhile."""
        make_private(self.file.parent)
        with single_writer(self.file):
            others = {each: known for each, known in self._load().items() if each != path}
            known = others if identity is None else {**others, path: identity}
            write_private(self.file, json.dumps(known, indent=1))


def trusted_folders() -> TrustedFolders:
    """Return the record of this user."""
    return TrustedFolders(user_folder() / FILE)


def _identity(folder: Path) -> tuple[str, dict[str, int]]:
    path = os.path.realpath(folder)
    found = os.stat(path)  # noqa: PTH116 - a path as text
    return path, {"device": found.st_dev, "inode": found.st_ino, "owner": found.st_uid}
