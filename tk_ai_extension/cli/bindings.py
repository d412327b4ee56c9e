"""Which kernel each notebook runs on, where no Jupyter session says it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from tk_ai_extension.cli.writing import written


class Bindings:
    """`kernels.base.Sessions` of a host, kept in a file for the host that comes after.

    Args:
        file: Where, beside the kernels' connection files; None to keep nothing.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._kernels: dict[str, str] = {}
        self.bound: Callable[[str, str], Awaitable[None]] | None = None
        """Called with a notebook's path and the kernel that it has got."""
        if file is not None and file.exists():
            # What cannot be read is forgotten: a notebook gets another kernel then.
            with suppress(ValueError):
                self._kernels = json.loads(file.read_bytes())

    async def kernel_of(self, path: str) -> str | None:
        """The kernel that was bound to this notebook, or None."""
        return self._kernels.get(path)

    async def bind(self, path: str, kernel_id: str) -> None:
        """Binds a kernel to a notebook.

        Raises:
            DiskFull, ReadOnly, SaveFailed: it is bound, and a host that comes after will not know.
        """
        self._kernels[path] = kernel_id
        if self._file is not None:
            self._write(self._file)
        if self.bound is not None:
            await self.bound(path, kernel_id)

    def _write(self, file: Path) -> None:
        new = file.with_suffix(".new")
        with written("which kernel each notebook runs on"):
            new.write_text(json.dumps(self._kernels), encoding="utf-8")
            new.replace(file)

    async def paths_of(self, kernel_id: str) -> list[str]:
        """The notebooks that run on this kernel."""
        return [path for path, bound in self._kernels.items() if bound == kernel_id]
