"""Settings of a project, in private files, for its later servers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tk_ai_extension.cli.project import SETTINGS, Refused
from tk_ai_extension.cli.write_errors import translate_write_errors

SERVER = "server.json"
"""File outside of the project with the server that it is attached to."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a project.

    Attributes:
        server: Address and token of the Jupyter Server that the project is attached to.
        sandbox: Whether its kernels run in a sandbox.
        shared: The notebook whose kernel is shared.
    """

    server: tuple[str, str] | None = field(default=None, repr=False)
    sandbox: bool = False
    shared: str | None = None


class SettingsFile:
    """A project's settings, read once and written at each change.

    There are two files: ``.nb`` may have been downloaded, or written by code that ran in the
    project, so the address that receives notebooks and a token is stored elsewhere.

    Args:
        folder: The project's ``.nb``, which may be missing; None if it belongs to another user.
        private: The folder of the project's history, which the project's code cannot write.
    """

    def __init__(self, folder: Path | None, private: Path) -> None:
        self._file = None if folder is None else folder / SETTINGS
        self._server = private / SERVER
        self.now = Settings() if self._file is None else self._load(self._file)

    def change(self, **changes: Any) -> None:
        """Change settings, all or none.

        Raises:
            DiskFull, ReadOnly, SaveFailed.
        """
        after = replace(self.now, **changes)
        if after == self.now or self._file is None:
            return
        here = {"sandbox": after.sandbox, "shared": after.shared}
        if (
            here != {"sandbox": self.now.sandbox, "shared": self.now.shared}
            or not self._file.exists()
        ):
            _keep(self._file, here)
            self.now = replace(self.now, **here)
        if after.server != self.now.server:
            _keep(self._server, None if after.server is None else list(after.server))
        self.now = after

    def forget(self) -> None:
        """Reset the settings when the project is closed, except the sandbox.

        Opening a sandboxed project again must not start kernels without the sandbox.

        Raises:
            DiskFull, ReadOnly, SaveFailed.
        """
        if self.now.sandbox:
            self.change(server=None, shared=None)
        elif self._file is not None:
            for file in (self._server, self._file):
                _keep(file, None)
            self.now = Settings()

    def _load(self, file: Path) -> Settings:
        known = _read(file)
        if known is None:
            return Settings()
        match known:
            case {"sandbox": bool(sandbox), "shared": str() | None as shared}:
                pass
            case _:
                raise _unreadable(file, "unexpected content")
        match _read(self._server):
            case None:
                server = None
            case [str(url), str(token)]:
                server = (url, token)
            case _:
                raise _unreadable(self._server, "unexpected content")
        return Settings(server, sandbox, shared)


def _read(file: Path) -> Any:
    """Read a file; None if it is missing."""
    try:
        return json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(file, str(error)) from None


def _unreadable(file: Path, why: str) -> Refused:
    return Refused(f"{file} cannot be read ({why}): fix or remove it.")


def _keep(file: Path, content: Any) -> None:
    """Write a private file atomically, or remove it if there is no content."""
    new = file.with_suffix(".new")
    with translate_write_errors(file.name):
        if content is None:
            file.unlink(missing_ok=True)
            return
        new.unlink(missing_ok=True)
        try:
            new.touch(mode=0o600, exist_ok=False)
            new.write_text(json.dumps(content), encoding="utf-8")
            new.replace(file)
        except OSError:
            new.unlink(missing_ok=True)
            raise
