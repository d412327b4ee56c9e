"""Kernel services of a command without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tk_ai_extension.kernels.base import KernelEvent, KernelInfo, Kernelspec
from tk_ai_extension.model.errors import KernelNotFound
from tk_ai_extension.model.executions import ExecutionRequest


class ServerRequired(KernelNotFound):
    """Running code needs the project's server, which is started with a kernel; nothing was done."""

    default_hint = "`nb open NOTEBOOK` starts the server and the notebook's kernel."


class NoKernels:
    """`kernels.base.Kernels` without kernels: reading and editing need none."""

    async def kernelspecs(self) -> list[Kernelspec]:
        """Return the installed kernelspecs."""
        from jupyter_client.kernelspec import KernelSpecManager

        return [
            Kernelspec(
                name=name,
                display_name=str(entry["spec"].get("display_name", name)),
                language=str(entry["spec"].get("language", "")).lower(),
            )
            for name, entry in sorted(KernelSpecManager().get_all_specs().items())
        ]

    def ids(self) -> list[str]:
        """None."""
        return []

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:  # noqa: ARG002 - the protocol's
        """Refuse.

        Raises:
            ServerRequired: always.
        """
        _refuse()

    async def wait_ready(self, kernel_id: str) -> float:  # noqa: ARG002
        """Refuse, as `start` does."""
        _refuse()

    async def info(self, kernel_id: str) -> KernelInfo:  # noqa: ARG002
        """Refuse, as `start` does."""
        _refuse()

    async def interrupt(self, kernel_id: str, *, only: ExecutionRequest | None = None) -> None:  # noqa: ARG002
        """Refuse, as `start` does."""
        _refuse()

    async def restart(self, kernel_id: str) -> None:  # noqa: ARG002
        """Refuse, as `start` does."""
        _refuse()

    async def shutdown(self, kernel_id: str) -> None:  # noqa: ARG002
        """Refuse, as `start` does."""
        _refuse()

    def subscribe(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:  # noqa: ARG002
        """Do nothing: there are no events."""
        return lambda: None

    async def close(self) -> None:
        """Do nothing."""


class NoSessions:
    """`kernels.base.Sessions` without kernels."""

    async def kernel_of(self, path: str) -> str | None:  # noqa: ARG002 - the protocol's
        """None."""
        return None

    async def bind(self, path: str, kernel_id: str, *, replace: bool = False) -> str:  # noqa: ARG002
        """Refuses, as `NoKernels.start` does."""
        _refuse()

    async def paths_of(self, kernel_id: str) -> list[str]:  # noqa: ARG002
        """None."""
        return []

    async def move(self, path: str, new: str) -> None:
        """Do nothing."""

    async def detach(self, path: str) -> None:
        """Do nothing."""


def _refuse() -> NoReturn:
    raise ServerRequired("No server runs in this project, so there is no kernel.")
