"""The kernels of a Jupyter Server that has them run by a gateway, as `kernels.base.Kernels`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

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
from tk_ai_extension.kernels.gateway.pages import PageClient
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

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


class KernelActionListener:
    """Listens to the events that jupyter_server's kernel managers emit.

    Args:
        on_action: Told the kernel's id and what was done: ``restart``, ``shutdown``.
    """

    def __init__(self, on_action: Callable[[str, str], None]) -> None:
        self._on_kernel_action = on_action
        self._loggers: list[Any] = []

    def follow(self, event_logger: Any) -> None:
        """Listen to this one, too; all kernels of a server have the same."""
        if not any(known is event_logger for known in self._loggers):
            self._loggers.append(event_logger)
            event_logger.add_listener(schema_id=KERNEL_ACTIONS, listener=self._on_event)

    def close(self) -> None:
        """Listen no more."""
        for event_logger in self._loggers:
            event_logger.remove_listener(schema_id=KERNEL_ACTIONS, listener=self._on_event)
        self._loggers.clear()

    async def _on_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002 - called so
        if data["status"] == "success":
            self._on_kernel_action(str(data.get("kernel_id", "")), data["action"])


class GatewayExecutor(DirectExecutor):
    """Sends code to a kernel over the WebSocket that is kept for it.

    As `DirectExecutor`; where the connection is lost an execution ends as ``connection_lost``, and the
    code is not sent again: it may have run.
    """

    name = "gateway"
    loss_reason = "the kernel made them faster than it, or its gateway, passes them on"


log = logging.getLogger(__name__)

INTERRUPT_GRACE = 1.0
"""Seconds after an interrupt by others in which it is known whether it was the begin of a restart."""

MAY_HAVE_STARTED = (
    "It may have started a kernel all the same, which is then left there, used by nobody."
)
MAY_HAVE_STOPPED = (
    "It may have been done all the same: get_kernel_status, or a look at a variable, says so."
)

CLOSE_TIMEOUT = 3.0
"""Seconds for what is still to be cleared away at the gateway when we close."""


class GatewayKernels(KernelService[RemoteKernel]):
    """Starts, finds, watches and stops kernels through jupyter_server's gateway client.

    It works with `GatewayMappingKernelManager` and its kernels, those of people among them; all of
    them are in the gateway's hands, and so on another machine, as far as is known here.

    Args:
        manager: The multi-kernel manager.
        specs: The `GatewayKernelSpecManager`.
        environment: What kernels may be given of this server's environment; of that, only what
            ``GatewayClient.allowed_envs`` names goes to the gateway.
        ready_timeout: Seconds in which a kernel must answer.
        timeouts: How long executors wait for what does not come.
        max_output_bytes: The bound of what is kept of one execution's outputs.
        stack: jupyter_server_nbmodel's ExecutionStack, where that extension is enabled: it gets
            clients that reach these kernels, for what people's pages execute through it.
        ping_interval: As in `GatewayConnection.open`.
    """

    def __init__(
        self,
        manager: Any,
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

    # -- what there is

    async def kernelspecs(self) -> list[Kernelspec]:
        """The gateway's kernelspecs, its default one first.

        Raises:
            GatewayUnavailable.
        """
        try:
            specs = await response_to(ensure_async(self._specs.get_all_specs()))
            default = self._manager.default_kernel_name  # the gateway's own since it was asked
            with parsing_response():
                return kernelspecs_of(specs, default)
        except FAILURES as error:
            raise unavailable(error) from error

    async def info(self, kernel_id: str) -> KernelInfo:
        """What is known of a kernel; nothing of its process."""
        kernel = self._kernel(kernel_id)
        state = kernel.state
        if state == "unknown":
            found = await kernel.look()
            if found is False:
                raise KernelNotFound(f"The gateway has no kernel {kernel_id}.")
            if found:
                state = kernel.manager.execution_state
        model: dict[str, Any] = kernel.manager.kernel or {}
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
        return KernelspecNotFound(f"The gateway has no kernelspec `{name}` (it has: {known}).")

    async def _start(self, name: str, path: str | None) -> str:
        """Start a kernel.

        The gateway is sent the folder of ``path`` (``KERNEL_WORKING_DIR``), and may ignore it.

        Raises:
            KernelStartFailed: without the kernel's stderr, which is in the gateway's log. A kernel may
                be left there if a proxy answered instead of the gateway.
            GatewayUnavailable: it does not answer, or not as a gateway.
        """
        kernel_id = await self._launch(name, path)
        try:
            seconds = await self._first_answer(kernel_id, name)
        except BaseException:
            await asyncio.shield(self._spawn(self._discard(kernel_id)))
            raise
        log.info("Kernel %s (%s) answered after %.2f s", kernel_id, name, seconds)
        return kernel_id

    async def _launch(self, name: str, path: str | None) -> str:
        """Has the gateway start a kernel; once more where it fails (HTTP 5xx)."""
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
                "The gateway failed to start a kernel, once more: %s", describe_error(error)
            )
            if outcome_unknown(error):
                log.warning(MAY_HAVE_STARTED)
        try:
            return await self._ask_for_kernel(name, path)
        except FAILURES as error:
            raise _start_failed(name, error, "twice") from error

    async def _ask_for_kernel(self, name: str, path: str | None) -> str:
        withheld = self._withheld(name, path)
        starting: asyncio.Task[str] = asyncio.ensure_future(
            response_to(self._manager.start_kernel(kernel_name=name, path=path, env=withheld))
        )
        self._tasks.keep(starting)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The gateway goes on: what it starts is nobody's.
            starting.add_done_callback(self._discard_late)
            raise

    def _withheld(self, name: str, path: str | None) -> Mapping[str, str]:
        """Blanks for what the gateway client would send of the environment, and is none of a kernel's."""
        allowed = self._environment.environment(name, path)
        return {variable: "" for variable in os.environ if variable not in allowed}

    def _discard_late(self, starting: asyncio.Task[str]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._spawn(self._discard(starting.result()))

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
            problem = f"is not reached: {error.message}"
        else:
            return clock() - began
        raise KernelStartFailed(
            f"The kernel `{name}` {problem}.",
            hint=f"What it wrote is in the log of the gateway {gateway_address()}.",
        )

    async def _discard(self, kernel_id: str) -> None:
        """Remove what is left of a kernel that did not start."""
        if kernel_id in self._manager:
            try:
                await self._delete(kernel_id)
            except FAILURES as error:
                log.warning(
                    "A kernel is left at the gateway (%s): %s", kernel_id, describe_error(error)
                )
        kernel = self._kernels.get(kernel_id)
        if kernel is not None:
            kernel.shut_down()

    # -- executing

    def _unresponsive(self, kernel: RemoteKernel, late: str) -> ToolError:  # noqa: ARG002 - the base's
        return KernelBusy(f"{late}, but the gateway has it: it is busy or stuck.")

    def _ended(self, kernel: RemoteKernel, ending: Ending) -> ToolError:  # noqa: ARG002 - the base's
        if ending.kind == "shutdown":
            return KernelNotFound(ending.message)
        return _stopping() if ending.kind == "closed" else KernelDied(ending.message)

    # -- interrupting and ending

    async def interrupt(self, kernel_id: str) -> None:
        """Interrupt what the kernel runs. Raises KernelNotFound, GatewayUnavailable."""
        kernel = self._kernel(kernel_id)
        if await kernel.queue.drain() or not kernel.is_settled:
            # What it ran has ended with it; what comes after is not what was meant.
            await self._settled(kernel_id)
            return
        if kernel.connection is not None:
            kernel.connection.interrupted()
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
        """The kernel, when it is not just being started again: a gateway cannot stop it meanwhile."""
        if not self._kernel(kernel_id).is_settled:
            with suppress(KernelBusy, KernelDied, GatewayUnavailable):
                await self.connection(kernel_id)
        return self._kernel(kernel_id)

    async def close(self) -> None:
        """Close connections; leaves kernels as they are."""
        self._closed = True
        self._actions.close()
        pages, self._pages = self._pages, None
        if pages is not None:  # first: it goes on to a person's next cell when one is broken off
            await pages.close()
        kernels = list(self._kernels.values())
        self._kernels.clear()
        for kernel in kernels:
            await kernel.queue.close()
        await asyncio.gather(*(kernel.close() for kernel in kernels))
        await self._tasks.close(grace=CLOSE_TIMEOUT)

    # -- one kernel

    def _kernel(self, kernel_id: str) -> RemoteKernel:
        if self._closed:
            raise _stopping()
        if kernel_id not in self._manager:
            if kernel_id in self._kernels:
                self._kernels[kernel_id].shut_down()
            raise KernelNotFound(f"There is no running kernel {kernel_id}.")
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
        # The server's own manager notices it when somebody lists kernels: it may never be asked.
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
            log.warning("What JupyterLab executes does not reach the gateway's kernels: %s", error)
            return None

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        return self._tasks.spawn(work, "Following the kernels of the gateway")


def _start_failed(name: str, error: BaseException, how_often: str = "") -> KernelStartFailed:
    often = f" {how_often}" if how_often else ""
    perhaps = f" {MAY_HAVE_STARTED}" if outcome_unknown(error) else ""
    return KernelStartFailed(
        f"The gateway {gateway_address()} failed{often} to start the kernel `{name}`: "
        f"{describe_error(error)}.",
        hint="Its own log says why. Try again later, or choose another kernelspec (list_kernels)."
        + perhaps,
    )


def _stopping() -> GatewayUnavailable:
    return GatewayUnavailable(
        "This server is stopping: it reaches no kernel any more.",
        hint="Nothing was run. Kernels behind the gateway go on; try again when the server is back.",
    )


def kernels_of(
    manager: Any,
    specs: Any,
    *,
    environment: KernelEnvironment,
    ready_timeout: float,
    timeouts: Timeouts | None = None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    stack: Any = None,
    backend: Backend = "auto",
    capture_stderr: bool = True,
    confine: Confine | None = None,
) -> JupyterKernels | GatewayKernels:
    """The service over the kernels of a server; arguments as those of `JupyterKernels`.

    Kernels behind a gateway have one executor, whatever ``backend`` says: the stack does not keep an
    executor's promises there.
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
            capture_stderr=capture_stderr,
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
