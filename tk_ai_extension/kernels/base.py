"""The interfaces of executors and of the service that owns kernels."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.executions import ExecutionEvent, ExecutionRequest
from tk_ai_extension.model.json_values import Json

NO_NOTEBOOK = "."
"""Prefix of the name of a path that a kernel is started for if it belongs to no notebook.

The kernel runs in the folder of the path. No notebook's name begins with it.
"""

KernelState = Literal["starting", "idle", "busy", "restarting", "dead", "stopped", "unknown"]


class Executor(Protocol):
    """Runs code in a kernel.

    >>> import asyncio
    >>> from tk_ai_extension.model.executions import Execution, Started
    >>> class Nowhere:
    ...     name = "nowhere"
    ...
    ...     async def execute(self, kernel_id, request):
    ...         yield Started(1)
    ...         yield Execution("ok", execution_count=1, backend=self.name)
    >>> async def last_event(executor: Executor) -> ExecutionEvent:
    ...     return [event async for event in executor.execute("a kernel", ExecutionRequest("1"))][-1]
    >>> asyncio.run(last_event(Nowhere())).status
    'ok'
    """

    @property
    def name(self) -> str:
        """``stack``, ``direct`` or ``gateway``, as in logs, `Execution.backend` and get_kernel_status."""
        ...

    def execute(self, kernel_id: str, request: ExecutionRequest) -> AsyncGenerator[ExecutionEvent]:
        """Run one request and yield its events; the last one is always an `Execution`.

        The generator always ends: on reply and idle, when the kernel dies, is restarted or shut down,
        when the connection is lost, or after ``request.timeout`` (it then interrupts the kernel and
        waits a bounded time). Outputs up to then are kept. Submitted code is never submitted again. A
        slow reader gets outputs in larger batches; none are lost.

        Closing the generator early (``aclose``) detaches from the execution without interrupting the
        kernel; the request's timeout still applies.

        Raises (before anything is submitted):
            KernelNotFound, KernelDied, KernelBusy, GatewayUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Kernelspec:
    """An installed kernelspec."""

    name: str
    display_name: str
    language: str
    default: bool = False


def kernelspecs_of(found: Mapping[str, Any], default: str) -> list[Kernelspec]:
    """Return the kernelspecs in a kernelspec manager's listing (`get_all_specs`), the default first."""
    specs = [
        Kernelspec(
            name=name,
            display_name=str(entry["spec"].get("display_name", name)),
            language=str(entry["spec"].get("language", "")).lower(),
            default=name == default,
        )
        for name, entry in found.items()
    ]
    return sorted(specs, key=lambda spec: (not spec.default, spec.name))


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
    """Something that happened to a kernel, whichever client caused it.

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


class KernelEnvironment(Protocol):
    """Chooses the environment variables of the kernels that this server starts."""

    def environment(self, kernel_name: str, path: str | None) -> Mapping[str, str]:
        """Return all variables of a new kernel's process."""
        ...


class Kernels(Protocol):
    """The kernels of one server (or one nb project): starts, finds, watches and stops them."""

    async def kernelspecs(self) -> list[Kernelspec]:
        """Return the installed kernelspecs, the default first.

        Raises:
            GatewayUnavailable: a gateway has them and does not answer.
        """
        ...

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:
        """Start a kernel in the folder of ``path``, wait until it answers, and return its id.

        Raises:
            InvalidArguments.
            KernelStartFailed: it exited or did not answer in time (30 s by default). The message ends
                with the tail of its stderr, and no process is left. Behind a gateway stderr is unknown,
                and a kernel may be left running if the gateway's response was lost.
            GatewayUnavailable.
        """
        ...

    async def wait_ready(self, kernel_id: str) -> float:
        """Wait for a kernel_info reply; return the seconds it took.

        Raises:
            KernelNotFound, KernelStartFailed.
        """
        ...

    def ids(self) -> list[str]:
        """Return the ids of the running kernels, including those that people started."""
        ...

    async def info(self, kernel_id: str) -> KernelInfo:
        """Return what is known about a kernel.

        Raises:
            KernelNotFound.
        """
        ...

    def executor(self, kernel_id: str) -> Executor:
        """Return the executor that the configured backend selects for this kernel now."""
        ...

    async def interrupt(self, kernel_id: str, *, only: ExecutionRequest | None = None) -> None:
        """Interrupt what a kernel runs.

        Args:
            kernel_id: The kernel.
            only: A request (compared by identity). Nothing is sent unless the kernel still runs it,
                because the interrupt would reach the code of another client.

        Raises:
            KernelNotFound.
        """
        ...

    async def restart(self, kernel_id: str) -> None:
        """Restart a kernel and wait until it answers. Running executions end as kernel_restarted."""
        ...

    async def shutdown(self, kernel_id: str) -> None:
        """Shut a kernel down; running executions end as kernel_died. Raises KernelNotFound."""
        ...

    def subscribe(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:
        """Call ``listener`` for each `KernelEvent`; return a function that unsubscribes it."""
        ...

    async def close(self) -> None:
        """Close the connections; the kernels keep running."""
        ...


class Sessions(Protocol):
    """Jupyter's sessions: which kernel belongs to which notebook."""

    async def kernel_of(self, path: str) -> str | None:
        """Return the id of the kernel in this notebook's session, or None."""
        ...

    async def bind(self, path: str, kernel_id: str, *, replace: bool = False) -> str:
        """Create or update the notebook's session, so that JupyterLab shows the kernel connected.

        Args:
            path: The notebook.
            kernel_id: The kernel.
            replace: Whether to replace another kernel. Set it only if a person or caller chose
                ``kernel_id`` for this notebook: somebody may have bound the other kernel just now.

        Returns:
            The id of the notebook's kernel: ``kernel_id``, or the other one that was kept.
        """
        ...

    async def paths_of(self, kernel_id: str) -> list[str]:
        """Return the paths of the notebooks whose sessions have this kernel."""
        ...

    async def move(self, path: str, new: str) -> None:
        """Move a notebook's session to its new path."""
        ...

    async def detach(self, path: str) -> None:
        """Take a deleted notebook's session from its path; the kernel continues."""
        ...


Message = Json
"""A deserialized message of the Jupyter messaging protocol."""
