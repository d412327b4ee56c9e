"""The kernels of a Jupyter Server with a gateway, as `kernels.base.Kernels`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async
from jupyter_server.gateway.managers import GatewayMappingKernelManager

from tk_ai_extension.kernels.base import (
    KernelEnvironment,
    KernelInfo,
    Kernelspec,
    kernelspecs_of,
)
from tk_ai_extension.kernels.base_connection import ConnectionClosed, Ending
from tk_ai_extension.kernels.collector import MAX_OUTPUT_BYTES
from tk_ai_extension.kernels.direct import DirectExecutor
from tk_ai_extension.kernels.execution_listener import Timeouts
from tk_ai_extension.kernels.gateway.connection import PING_INTERVAL
from tk_ai_extension.kernels.gateway.remote_kernel import RemoteKernel
from tk_ai_extension.kernels.gateway.requests import (
    FAILURES,
    ask,
    delete,
    describe_error,
    gateway_address,
    is_not_found,
    not_applied,
    outcome_unknown,
    parsing_response,
    response_to,
    status_of,
    unavailable,
)
from tk_ai_extension.kernels.lifecycle import KernelService
from tk_ai_extension.kernels.pages import PageClient
from tk_ai_extension.kernels.service import Backend, JupyterKernels
from tk_ai_extension.kernels.stack import GuardedStack, StackUnavailable
from tk_ai_extension.kernels.starter import Confine
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.errors import (
    GatewayUnavailable,
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelspecNotFound,
    KernelStartFailed,
    ToolError,
)
from tk_ai_extension.model.executions import ExecutionRequest
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from jupyter_client.multikernelmanager import MultiKernelManager
    from jupyter_events import EventLogger

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


class KernelActionListener:
    """Listens to the events that jupyter_server's kernel managers emit.

    Args:
        on_action: Called with a kernel's id and what was done: ``restart``, ``shutdown``.
    """

    def __init__(self, on_action: Callable[[str, str], None]) -> None:
        self._on_kernel_action = on_action
        self._loggers: list[EventLogger] = []

    def follow(self, event_logger: EventLogger) -> None:
        """Listen to an event logger; all kernels of a server share one."""
        if not any(known is event_logger for known in self._loggers):
            self._loggers.append(event_logger)
            event_logger.add_listener(schema_id=KERNEL_ACTIONS, listener=self._on_event)

    def close(self) -> None:
        """Stop listening."""
        for event_logger in self._loggers:
            event_logger.remove_listener(schema_id=KERNEL_ACTIONS, listener=self._on_event)
        self._loggers.clear()

    async def _on_event(self, logger: EventLogger, schema_id: str, data: Json) -> None:  # noqa: ARG002 - called so
        if data["status"] == "success":
            self._on_kernel_action(str(data.get("kernel_id", "")), data["action"])


class GatewayExecutor(DirectExecutor):
    """Executes code over the WebSocket that is kept for each kernel.

    As `DirectExecutor`. When the connection is lost, an execution ends as ``connection_lost``; the code
    is not submitted again, because it may have run.
    """

    name = "gateway"
    loss_reason = "the kernel produced them faster than it or its gateway could send them"


log = logging.getLogger(__name__)

INTERRUPT_GRACE = 1.0
"""Seconds after another client's interrupt in which it may prove to be the start of a restart."""

MAY_HAVE_STARTED = "The gateway may have started a kernel anyway, which is left there unused."
MAY_HAVE_STOPPED = "It may have been done anyway. Check with get_kernel_status, or read a variable."

CLOSE_TIMEOUT = 3.0
"""Seconds for cleanup at the gateway when this service closes."""


class GatewayKernels(KernelService[RemoteKernel]):
    """Starts, finds, watches and stops kernels through jupyter_server's gateway client.

    It works with `GatewayMappingKernelManager` and its kernels, including those that people started.
    They all run at the gateway, so possibly on another machine.

    Args:
        manager: The multi-kernel manager.
        specs: The `GatewayKernelSpecManager`.
        environment: Chooses which of this server's variables kernels may have; of those, only the ones
            in ``GatewayClient.allowed_envs`` are sent to the gateway.
        ready_timeout: Seconds in which a kernel must answer.
        timeouts: How long executors wait for messages that do not arrive.
        max_output_bytes: Limit of the outputs that are kept for one execution.
        stack: jupyter_server_nbmodel's ExecutionStack if that extension is enabled, else None. It gets
            clients that reach these kernels, for cells that pages execute through it.
        ping_interval: As in `GatewayConnection.open`.
    """

    def __init__(
        self,
        manager: MultiKernelManager,
        specs: Any,
        *,
        environment: KernelEnvironment,
        ready_timeout: float,
        timeouts: Timeouts | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        stack: Any = None,
        ping_interval: float = PING_INTERVAL,
    ) -> None:
        super().__init__(manager, ready_timeout=ready_timeout)
        self._specs = specs
        self._environment = environment
        self._ping_interval = ping_interval
        self._tasks = BackgroundTasks(log)
        self._executor = GatewayExecutor(
            self,
            timeouts=replace(timeouts or Timeouts(), external_interrupt_grace=INTERRUPT_GRACE),
            max_output_bytes=max_output_bytes,
        )
        self._closed = False
        self._pages = self._serve_pages(stack)
        self._actions = KernelActionListener(self._on_kernel_action)

    # -- queries

    async def kernelspecs(self) -> list[Kernelspec]:
        """Return the gateway's kernelspecs, its default first.

        Raises:
            GatewayUnavailable.
        """
        try:
            specs = await response_to(ensure_async(self._specs.get_all_specs()))
            default = self._manager.default_kernel_name  # the gateway's, after that request
            with parsing_response():
                return kernelspecs_of(specs, default)
        except FAILURES as error:
            raise unavailable(error) from error

    async def info(self, kernel_id: str) -> KernelInfo:
        """Return what is known about a kernel; nothing about its process."""
        kernel = self._kernel(kernel_id)
        state = kernel.state
        if state == "unknown":
            found = await kernel.look()
            if found is False:
                raise KernelNotFound(f"The gateway has no kernel {kernel_id}.")
            if found:
                state = kernel.manager.execution_state
        model: Json = kernel.manager.kernel or {}
        return KernelInfo(
            id=kernel_id,
            name=str(model.get("name", "")),
            language=kernel.language,
            state=state,
            uptime=asyncio.get_running_loop().time() - kernel.seen_since,
            restarts=kernel.restarts,
            remote=True,
        )

    # -- starting

    def _no_kernelspec(self, name: str, known: str) -> KernelspecNotFound:
        return KernelspecNotFound(f"The gateway has no kernelspec `{name}`. It has: {known}.")

    async def _start(self, name: str, path: str | None) -> str:
        """Start a kernel.

        The folder of ``path`` is sent to the gateway (``KERNEL_WORKING_DIR``), which may ignore it.

        Raises:
            KernelStartFailed: without the kernel's stderr, which is in the gateway's log. A kernel may
                be left there if a proxy answered in place of the gateway.
            GatewayUnavailable: there is no response, or it is not a gateway's.
        """
        kernel_id = await self._launch(name, path)
        try:
            seconds = await self._first_answer(kernel_id, name)
        except BaseException:
            await self._discarded(kernel_id)
            raise
        log.info("Kernel %s (%s) answered after %.2f s", kernel_id, name, seconds)
        return kernel_id

    async def _launch(self, name: str, path: str | None) -> str:
        """Have the gateway start a kernel; try once more if it fails (HTTP 5xx)."""
        try:
            return await self._ask_for_kernel(name, path)
        except FAILURES as error:
            status = status_of(error)
            if status is None:
                hint = MAY_HAVE_STARTED if outcome_unknown(error) else None
                raise unavailable(error, hint) from error
            if status < 500:
                raise _start_failed(name, error) from error
            log.warning(
                "The gateway failed to start a kernel, trying again: %s", describe_error(error)
            )
            if outcome_unknown(error):
                log.warning(MAY_HAVE_STARTED)
        try:
            return await self._ask_for_kernel(name, path)
        except FAILURES as error:
            raise _start_failed(name, error, "twice") from error

    async def _ask_for_kernel(self, name: str, path: str | None) -> str:
        withheld = self._withheld(name, path)
        return await self._launched(
            response_to(self._manager.start_kernel(kernel_name=name, path=path, env=withheld))
        )

    def _withheld(self, name: str, path: str | None) -> Mapping[str, str]:
        """Return blanks for variables that the gateway client would send and kernels must not have."""
        allowed = self._environment.environment(name, path)
        return {variable: "" for variable in os.environ if variable not in allowed}

    async def _first_answer(self, kernel_id: str, name: str) -> float:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(self._ready_timeout):
                await self._kernel(kernel_id).connect(first=True)
        except TimeoutError:
            problem = f"did not answer within {self._ready_timeout:g} s"
        except ConnectionClosed as closed:
            problem = closed.ending.message.removeprefix("The kernel ").rstrip(".")
        except GatewayUnavailable as error:
            problem = f"cannot be reached: {error.message}"
        else:
            return clock() - began
        raise KernelStartFailed(
            f"The kernel `{name}` {problem}.",
            hint=f"See the log of the gateway {gateway_address()} for the kernel's output.",
        )

    async def _discard(self, kernel_id: str) -> None:
        if kernel_id in self._manager:
            try:
                await self._delete(kernel_id)
            except FAILURES as error:
                log.warning(
                    "Kernel %s is left at the gateway: %s", kernel_id, describe_error(error)
                )
        kernel = self._kernels.get(kernel_id)
        if kernel is not None:
            kernel.shut_down()

    # -- executing

    def _unresponsive(self, kernel: RemoteKernel, late: str) -> ToolError:  # noqa: ARG002 - the base's
        return KernelBusy(f"{late}, but the gateway still has it: it is busy or stuck.")

    def _ended(self, kernel: RemoteKernel, ending: Ending) -> ToolError:  # noqa: ARG002 - the base's
        if ending.kind == "shutdown":
            return KernelNotFound(ending.message)
        return _stopping() if ending.kind == "closed" else KernelDied(ending.message)

    # -- interrupting and stopping

    async def _interrupt(self, kernel_id: str, only: ExecutionRequest | None) -> None:
        kernel = self._kernel(kernel_id)
        if await kernel.queue.drain() or not kernel.is_settled:
            # The code to interrupt ended with its process; do not interrupt later code.
            await self._settled(kernel_id)
            return
        if self._begin_interrupt(kernel, only):
            await ask(kernel_id, self._manager.interrupt_kernel(kernel_id))

    async def _restart(self, kernel_id: str) -> None:
        kernel = await self._settled(kernel_id)
        restarting = response_to(self._manager.restart_kernel(kernel_id))
        await self._stop(kernel, restarting, kernel.restarted)
        await self.wait_ready(kernel_id)

    async def _shutdown(self, kernel_id: str) -> None:
        kernel = await self._settled(kernel_id)
        await self._stop(kernel, self._delete(kernel_id), kernel.shut_down)

    async def _stop(
        self, kernel: RemoteKernel, request: Awaitable[None], done: Callable[[], None]
    ) -> None:
        kernel.stop_requested, kernel.stop_announced = True, None
        try:
            await request
        except FAILURES as error:
            kernel.stop_requested = False
            if is_not_found(error):
                await kernel.look()
                raise KernelNotFound(f"The gateway has no kernel {kernel.id}.") from error
            if not_applied(error) and kernel.stop_announced is None:
                raise unavailable(error) from error
            kernel.on_stop_failed()
            raise unavailable(error, MAY_HAVE_STOPPED) from error
        else:
            done()
        finally:
            kernel.stop_requested = False

    async def _delete(self, kernel_id: str) -> None:
        await delete(self._manager.get_kernel(kernel_id))
        if kernel_id in self._manager:
            await response_to(self._manager.shutdown_kernel(kernel_id))

    async def _settled(self, kernel_id: str) -> RemoteKernel:
        """Return the kernel once no restart is under way, during which a gateway cannot stop it."""
        if not self._kernel(kernel_id).is_settled:
            with suppress(KernelBusy, KernelDied, GatewayUnavailable):
                await self.connection(kernel_id)
        return self._kernel(kernel_id)

    async def close(self) -> None:
        """Close the connections; the kernels keep running."""
        self._closed = True
        self._actions.close()
        pages, self._pages = self._pages, None
        if pages is not None:  # first: when a cell is aborted it runs a person's next one
            await pages.close()
        kernels = list(self._kernels.values())
        self._kernels.clear()
        for kernel in kernels:
            await kernel.queue.close()
        await asyncio.gather(*(kernel.close() for kernel in kernels))
        closing = (self._starts, self._tasks)
        await asyncio.gather(*(tasks.close(grace=CLOSE_TIMEOUT) for tasks in closing))

    # -- one kernel

    def _kernel(self, kernel_id: str) -> RemoteKernel:
        if self._closed:
            raise _stopping()
        if kernel_id not in self._manager:
            if kernel_id in self._kernels:
                self._kernels[kernel_id].shut_down()
            raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
        manager = self._manager.get_kernel(kernel_id)
        kernel = self._kernels.get(kernel_id)
        self._actions.follow(manager.event_logger)
        if kernel is None or kernel.manager is not manager:
            kernel = self._kernels[kernel_id] = RemoteKernel(
                kernel_id,
                manager,
                is_listed=lambda: kernel_id in self._manager,
                emit=self._emit,
                on_gone=lambda: self._forget(kernel_id),
                ping_interval=self._ping_interval,
            )
        return kernel

    def _on_kernel_action(self, kernel_id: str, action: str) -> None:
        kernel = self._kernels.get(kernel_id)
        if kernel is not None and action == "restart":
            kernel.was_restarted()
        elif kernel is not None and action == "shutdown":
            kernel.shut_down()

    def _forget(self, kernel_id: str) -> None:
        # The server's manager removes it only when a client lists kernels, which may never happen.
        self._manager.remove_kernel(kernel_id)
        kernel = self._kernels.pop(kernel_id, None)
        if kernel is not None:
            self._spawn(kernel.close())
            if self._pages is not None:
                self._spawn(self._pages.forget(kernel_id))

    def _serve_pages(self, stack: Any) -> GuardedStack | None:
        try:
            return stack and GuardedStack(stack, lambda kernel_id: PageClient(kernel_id, self))
        except StackUnavailable as error:
            log.warning("JupyterLab's cells cannot reach the gateway's kernels: %s", error)
            return None

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        return self._tasks.spawn(work, "Following the kernels of the gateway")


def _start_failed(name: str, error: BaseException, how_often: str = "") -> KernelStartFailed:
    often = f" {how_often}" if how_often else ""
    perhaps = f" {MAY_HAVE_STARTED}" if outcome_unknown(error) else ""
    return KernelStartFailed(
        f"The gateway {gateway_address()} failed{often} to start the kernel `{name}`: "
        f"{describe_error(error)}.",
        hint="See the gateway's log. Try again later, or choose another kernelspec (list_kernels)."
        + perhaps,
    )


def _stopping() -> GatewayUnavailable:
    return GatewayUnavailable(
        "This server is stopping and can no longer reach kernels.",
        hint="Nothing was run. Kernels behind the gateway keep running; try again after the restart.",
    )


def kernels_of(
    manager: MultiKernelManager,
    specs: Any,
    *,
    environment: KernelEnvironment,
    ready_timeout: float,
    timeouts: Timeouts | None = None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    stack: Any = None,
    backend: Backend = "auto",
    confine: Confine | None = None,
) -> JupyterKernels | GatewayKernels:
    """Return the service for a server's kernels; the arguments are those of `JupyterKernels`.

    Kernels behind a gateway always use `GatewayExecutor`, whatever ``backend`` is: the stack does not
    meet the `Executor` interface there.
    """
    if not isinstance(manager, GatewayMappingKernelManager):
        return JupyterKernels(
            manager,
            specs,
            environment=environment,
            ready_timeout=ready_timeout,
            timeouts=timeouts,
            max_output_bytes=max_output_bytes,
            stack=stack,
            backend=backend,
            confine=confine,
        )
    level = logging.INFO if backend == "auto" else logging.WARNING
    log.log(level, "Kernels are behind a gateway: executions go over WebSockets")
    return GatewayKernels(
        manager,
        specs,
        environment=environment,
        ready_timeout=ready_timeout,
        timeouts=timeouts,
        max_output_bytes=max_output_bytes,
        stack=stack,
    )
