"""What was decided about a project, for the hosts that come after, in a file only its user reads."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tk_ai_extension.cli.project import Refused

SETTINGS = "project.json"
"""The file's name in ``.nb``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a project's kernels are started, and who shares them.

    Attributes:
        server: The address of the Jupyter Server that the project works in, and its token.
        sandbox: Whether its kernels run in a sandbox.
        shared: The notebook whose kernel people share.
    """

    server: tuple[str, str] | None = None
    sandbox: bool = False
    shared: str | None = None


class SettingsFile:
    """A project's settings, read once and written at each change.

    Args:
        folder: The project's ``.nb``, which need not be there.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / SETTINGS
        self.now = self._load()

    def change(self, **changes: Any) -> None:
        """Sets some of them."""
        self.now = replace(self.now, **changes)
        new = self._file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(json.dumps(asdict(self.now)), encoding="utf-8")
        new.replace(self._file)

    def forget(self) -> None:
        """The project is closed: what was decided for its kernels ends, but for the sandbox.

        Who has asked for one once is not to get kernels without it by opening the project again.
        """
        if self.now.sandbox:
            self.change(server=None, shared=None)
        else:
            self._file.unlink(missing_ok=True)

    def _load(self) -> Settings:
        try:
            known = json.loads(self._file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return Settings()
        except ValueError as error:
            raise Refused(f"{self._file} cannot be read ({error}): mend or remove it.") from None
        server = known.pop("server")
        return Settings(server=tuple(server) if server else None, **known)
