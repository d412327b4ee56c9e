"""The contracts of an executor and of the service that owns kernels."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tk_ai_extension.model.executions import ExecutionEvent, ExecutionRequest

KernelState = Literal["starting", "idle", "busy", "restarting", "dead", "stopped", "unknown"]


class Executor(Protocol):
    """Runs code in a kernel."""

    @property
    def name(self) -> str:
        """``stack``, ``direct`` or ``gateway``: in logs, in `Execution.backend`, in get_kernel_status."""
        ...

    def execute(self, kernel_id: str, request: ExecutionRequest) -> AsyncGenerator[ExecutionEvent]:
        """Runs one request and yields what happens; the last event is always an `Execution`.

        It always ends: with the reply and idle, when the kernel dies, is restarted or shut down, on
        a lost connection, or when ``request.timeout`` has passed (it then interrupts the kernel and
        waits a bounded time). What was printed until then is kept. Code that was submitted is never
        submitted again. A slow reader gets outputs in larger batches; nothing is lost.

        Closing the generator early (``aclose``) stops listening and does not interrupt the kernel;
        the request's timeout holds all the same.

        Raises (before anything was submitted):
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
    """Kernelspecs as a kernelspec manager lists them (`get_all_specs`), the default one first."""
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


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A running kernel.

    Attributes:
        memory: Resident bytes of the process and its children, None where it cannot be known.
        cpu: Per cent of one core since the last look, None on the first.
        uptime: Seconds since it was started or first seen.
        sandboxed: Whether it runs in a sandbox, and sees no more than its project.
        remote: Whether it runs on another machine, as far as is known: behind a gateway.
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
    """Something that happened to a kernel, by anybody's hand.

    ``ran``: code was executed by somebody (``code``, ``execution_count``; ``ours`` where it was an
    execution of this server's executors). ``restarted``, ``died``, ``shutdown``: its variables are
    gone. ``state``: busy or idle. ``display``: code that is no execution of this server's executors, but
    a person's in JupyterLab for instance, has updated a display (``display``: the data of an
    `OTHER_DISPLAY_MIME` event).
    """

    kernel_id: str
    kind: Literal["ran", "restarted", "died", "shutdown", "state", "display"]
    state: KernelState = "unknown"
    code: str = ""
    execution_count: int | None = None
    ours: bool = False
    display: Any = None


class KernelEnvironment(Protocol):
    """What the environment of a kernel that we start holds; a composition root fills it in."""

    def environment(self, kernel_name: str, path: str | None) -> Mapping[str, str]:
        """All variables of the new kernel's process."""
        ...


class Kernels(Protocol):
    """The kernels of one server (or one nb project): start, find, watch, stop."""

    async def kernelspecs(self) -> list[Kernelspec]:
        """The installed kernelspecs, the default one first.

        Raises:
            GatewayUnavailable: they are a gateway's.
        """
        ...

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:
        """Starts a kernel in the folder of ``path`` and waits until it answers; returns its id.

        Raises:
            KernelspecNotFound.
            KernelStartFailed: it exited or did not answer in time (30 s by default); the message has
                the end of what it wrote to stderr, and no process is left. Behind a gateway stderr is
                not known, and a kernel may be left of whose start the gateway did not tell.
            GatewayUnavailable.
        """
        ...

    async def wait_ready(self, kernel_id: str) -> float:
        """Waits for a kernel_info reply; returns the seconds it took.

        Raises:
            KernelNotFound, KernelStartFailed.
        """
        ...

    def ids(self) -> list[str]:
        """The ids of running kernels, those that a person started too."""
        ...

    async def info(self, kernel_id: str) -> KernelInfo:
        """What is known of a kernel.

        Raises:
            KernelNotFound.
        """
        ...

    def executor(self, kernel_id: str) -> Executor:
        """The executor that ``auto`` (or the configured choice) takes for this kernel now."""
        ...

    async def interrupt(self, kernel_id: str) -> None:
        """Interrupts whatever it runs. Raises KernelNotFound."""
        ...

    async def restart(self, kernel_id: str) -> None:
        """Restarts it and waits until it answers. Running executions end as kernel_restarted."""
        ...

    async def shutdown(self, kernel_id: str) -> None:
        """Ends the kernel; running executions end as kernel_died. Raises KernelNotFound."""
        ...

    def subscribe(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:
        """Calls ``listener`` for each `KernelEvent`; returns how to stop that."""
        ...

    async def close(self) -> None:
        """Closes connections; leaves kernels as they are."""
        ...


class Sessions(Protocol):
    """Which kernel belongs to which notebook, as people see it (Jupyter's sessions)."""

    async def kernel_of(self, path: str) -> str | None:
        """The kernel that a session of this notebook has, or None."""
        ...

    async def bind(self, path: str, kernel_id: str) -> None:
        """Makes (or updates) the session of this notebook, so that JupyterLab shows it connected."""
        ...

    async def paths_of(self, kernel_id: str) -> list[str]:
        """The notebooks whose sessions have this kernel."""
        ...


Message = dict[str, Any]
"""A deserialised message of the Jupyter protocol."""
