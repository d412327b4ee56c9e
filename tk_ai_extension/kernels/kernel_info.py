"""Values about kernels: kernelspecs, running kernels and what happens to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json

NO_NOTEBOOK = "."
"""Prefix of the name of a path that a kernel is started for if it belongs to no notebook.

The kernel runs in the folder of the path. No notebook's name begins with it.
"""

KernelState = Literal["starting", "idle", "busy", "restarting", "dead", "unknown"]


@dataclass(frozen=True, slots=True)
class Kernelspec:
    """An installed kernelspec."""

    name: str
    display_name: str
    language: str
    default: bool = False


def find_kernelspec(specs: Sequence[Kernelspec], name: str) -> Kernelspec:
    """Return the kernelspec of this name; ``python`` is also the native one, as in jupyter_client.

    Raises:
        InvalidArguments: No kernelspec of that name is installed.
    """
    by_name = {spec.name: spec for spec in specs}
    spec = by_name.get(name) or (by_name.get(NATIVE_KERNEL_NAME) if name == "python" else None)
    if spec is None:
        raise InvalidArguments(
            f"No kernelspec `{name}` is installed. Installed: {', '.join(by_name) or 'none'}.",
            hint="Call list_kernels to see the installed ones.",
        )
    return spec


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A running kernel.

    Attributes:
        memory: Resident bytes of the process and its children; None if unknown.
        cpu: Percent of one core since the previous measurement; None for the first.
        uptime: Seconds since it was started or first seen.
        sandboxed: Whether it runs in a sandbox that shows it only its project.
        remote: Whether it runs behind a gateway, so possibly on another machine.
    """

    id: str
    name: str
    language: str
    state: KernelState
    memory: int | None = None
    cpu: float | None = None
    uptime: float | None = None
    pid: int | None = None
    restarts: int = 0
    sandboxed: bool = False
    remote: bool = False


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """An event of a kernel, whichever client caused it.

    ``ran``: a client executed code (``code``, ``execution_count``; ``ours`` if the client is one of
    this server's executors). ``restarted``, ``died``, ``shutdown``: its variables are gone. ``state``:
    it became busy or idle. ``display``: another client's code, for instance a cell that a person runs
    in JupyterLab, updated a display (``display``: the data of an `OTHER_DISPLAY_MIME` event).
    """

    kernel_id: str
    kind: Literal["ran", "restarted", "died", "shutdown", "state", "display"]
    state: KernelState = "unknown"
    code: str = ""
    execution_count: int | None = None
    ours: bool = False
    display: Any = None


Message = Json
"""A deserialized message of the Jupyter messaging protocol."""
