"""Start, find, watch, use and stop the kernels of a Jupyter Server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import zmq
import zmq.asyncio
from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.kernels.environment_variables import inherited_environment
from tk_ai_extension.kernels.kernel import (
    RESTARTED,
    SHUT_DOWN,
    ConnectionClosed,
    Kernel,
    KernelConnection,
)
from tk_ai_extension.kernels.kernel_info import KernelEvent, KernelInfo, Kernelspec, find_kernelspec
from tk_ai_extension.kernels.kernel_process import local_process
from tk_ai_extension.kernels.kernel_run import KernelRun, OtherClientRun
from tk_ai_extension.kernels.output_collector import MAX_OUTPUT_BYTES
from tk_ai_extension.kernels.provisioner import StderrTail
from tk_ai_extension.model.background_tasks import BackgroundTasks, run_to_completion
from tk_ai_extension.model.errors import KernelBusy, KernelDied, KernelNotFound, KernelStartFailed
from tk_ai_extension.model.executions import Execution, ExecutionEvent, ExecutionRequest
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from jupyter_client.multikernelmanager import MultiKernelManager

log = logging.getLogger(__name__)

RunType = TypeVar("RunType", bound=KernelRun)

READY_TIMEOUT = 30.0
"""Seconds in which a kernel must answer."""

ANSWER_TIME = 5.0
"""Seconds to wait for a debugger, and for a kernel that is to be restarted; then it is killed."""

CLOSE_TIMEOUT = 3.0
"""Seconds in which launches must be complete when the service is closed."""

RECONNECT_INTERVAL = 20
"""Milliseconds between attempts to connect; short, so that a starting kernel is connected at once."""


IDLE_LIMIT = 0.5
"""Seconds for which a kernel may be idle while an ExecutionStack has requests; then it is stuck."""

NEXT_STEP = 0.01
"""Seconds in which the stack notes the end of a request after the kernel is idle."""


class KernelService:
    """Starts, finds, watches, runs and stops the kernels of a multi-kernel manager.

    It includes kernels that other clients started. A kernel is watched from its first use.

    Args:
        manager: jupyter_server's `AsyncMappingKernelManager`.
        specs: The kernelspec manager.
        environment: Returns the environment of the kernels that this service starts.
        ready_timeout: Seconds in which a kernel must answer.
        max_output_bytes: Limit of the outputs that are kept for one execution.
        stack: jupyter_server_nbmodel's ExecutionStack: code waits in its queue; None for none.
    """

    backend = "direct"
    """The name of the executor, as in logs, `Execution.backend` and get_kernel_status."""
    kernel_class: type[Kernel] = Kernel

    def __init__(
        self,
        manager: MultiKernelManager,
        specs: Any,
        *,
        environment: Callable[[], Mapping[str, str]] = inherited_environment,
        ready_timeout: float = READY_TIMEOUT,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        stack: Any = None,
    ) -> None:
        self._manager: Any = manager  # its methods are annotated only in part
        self._specs = specs
        self._environment = environment
        self.ready_timeout = ready_timeout
        self._max_output_bytes = max_output_bytes
        self._kernels: dict[str, Kernel] = {}
        self._listeners: dict[Callable[[KernelEvent], None], None] = {}
        self._starts = BackgroundTasks(log)
        self._tasks = BackgroundTasks(log)
        self._context = zmq.asyncio.Context()
        # Receive without a limit: a kernel drops the messages that a client does not take.
        self._context.setsockopt(zmq.RCVHWM, 0)
        self._context.setsockopt(zmq.RECONNECT_IVL, RECONNECT_INTERVAL)
        self._stack = stack
        if stack is not None:
            self.backend = "stack"
        log.info("Using the executor `%s`", self.backend)

    async def kernelspecs(self) -> list[Kernelspec]:
        """Return the installed kernelspecs, the default one first.

        Raises:
            GatewayUnavailable: a gateway has them and does not answer.
        """
        found: Mapping[str, Any] = await self._ask(self._specs.get_all_specs())
        specs = [
            Kernelspec(
                name=name,
                display_name=str(entry["spec"].get("display_name", name)),
                language=str(entry["spec"].get("language", "")).lower(),
                default=name == self._manager.default_kernel_name,
            )
            for name, entry in found.items()
        ]
        return sorted(specs, key=lambda spec: (not spec.default, spec.name))

    def ids(self) -> list[str]:
        """Return the ids of running kernels, including those that a person started."""
        return list(self._manager.list_kernel_ids())

    async def info(self, kernel_id: str) -> KernelInfo:
        """Return what is known about a kernel. Raises KernelNotFound."""
        kernel = self._kernel(kernel_id)
        process, usage = local_process(kernel.manager), dict[str, Any]()
        if process is not None:  # in a thread: it inspects every child process
            usage = await asyncio.to_thread(kernel.meter.measure, process.pid)
        self._kernel(kernel_id)
        # A gateway's model may be old, or None if the gateway does not answer.
        model: Any = await self._ask(self._manager.kernel_model(kernel_id)) or {}
        is_known = kernel.remote or kernel.state != "unknown"
        return KernelInfo(
            id=kernel_id,
            name=model.get("name", ""),
            language=kernel.language,
            state=kernel.state if is_known else model["execution_state"],
            restarts=kernel.restarts,
            sandboxed=getattr(kernel.manager.provisioner, "confinement", None) is not None,
            remote=kernel.remote,
            **usage,
        )

    def subscribe(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:
        """Call ``listener`` for each `KernelEvent`; return an idempotent unsubscribe function."""
        self._listeners[listener] = None
        return partial(self._listeners.pop, listener, None)

    async def close(self) -> None:
        """Close the connections; the kernels keep running."""
        await self._starts.close(grace=CLOSE_TIMEOUT)
        await self._tasks.close()
        self._context.destroy(linger=0)

    # -- running code

    async def execute(
        self, kernel_id: str, request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        """Run one request and yield its events; the last one is always an `Execution`.

        The generator always ends: on reply and idle, when the kernel dies, is restarted or shut down,
        when the connection is lost, or after ``request.timeout`` (it then interrupts the kernel and
        waits a bounded time). Outputs up to then are kept. Code is submitted again only if the kernel
        has dropped it, because another client's code failed. A slow reader gets outputs in larger
        batches; none are lost.

        Closing the generator early (``aclose``) detaches from the execution without interrupting the
        kernel; the request's timeout still applies.

        Raises (before anything is submitted):
            KernelNotFound, KernelDied, KernelBusy, GatewayUnavailable.
        """
        while True:
            kernel = self._kernel(kernel_id)
            connection = await self._connect(kernel)
            if self._stack is not None:
                await _wait_for_turn(self._stack, kernel)
                connection = await self._connect(kernel)
            run = self._run(kernel, request)
            try:
                connection.submit(run)
            except ConnectionClosed:
                continue  # it closed just now, so the kernel received nothing
            where = f"kernel {kernel_id} (backend {self.backend})"
            log.info("Submitting execution request to %s", where)
            async with aclosing(run.events()) as events:
                async for event in events:
                    if isinstance(event, Execution):
                        if run.aborted:
                            continue
                        ended = event.status, event.duration
                        log.info("Execution in %s ended: %s after %.3f s", where, *ended)
                    yield event
            if not run.aborted:
                return

    async def debugger_variables(self, kernel_id: str) -> list[Json] | None:
        """Return a kernel's variables as its debugger lists them; it answers also while code runs.

        It calls the `__repr__` of the values.

        Returns:
            The `Variable` objects of the Debug Adapter Protocol (``name``, ``type``, ``value``); None if the
            kernel has no debugger.

        Raises:
            KernelNotFound, KernelDied, KernelBusy, GatewayUnavailable.
        """
        kernel = self._kernel(kernel_id)
        connection = await self._connect(kernel)
        features = (connection.info or {}).get("supported_features", ())
        metadata = getattr(kernel.manager.kernel_spec, "metadata", {})
        if "debugger" not in features and not metadata.get("debugger"):
            return None
        try:
            async with asyncio.timeout(ANSWER_TIME):
                return (await connection.debug("inspectVariables")).get("variables", [])
        except TimeoutError:
            raise KernelBusy("The kernel's debugger did not answer.") from None
        except ConnectionClosed as closed:
            raise KernelDied(closed.ending.message) from closed

    def follow(self, kernel_id: str, msg_id: str, code: str) -> OtherClientRun | None:
        """Return a run for a request that another client is about to send.

        It ends with idle, or as other runs do. None without a connection, on which its messages arrive.

        Raises:
            KernelNotFound.
        """
        kernel = self._kernel(kernel_id)
        if kernel.connection is None:
            return None
        run = self._run(kernel, ExecutionRequest(code), OtherClientRun)
        kernel.connection.follow(msg_id, run)
        return run

    def _run(
        self, kernel: Kernel, request: ExecutionRequest, kind: type[RunType] = KernelRun
    ) -> RunType:
        return kind(
            request,
            backend=self.backend,
            interrupt=lambda: self.interrupt(kernel.id, only=request),
            stopping=lambda: kernel.stopping,
            grace=kernel.grace,
            max_output_bytes=self._max_output_bytes,
        )

    async def _connect(self, kernel: Kernel) -> KernelConnection:
        """Return an open connection to a kernel.

        Raises:
            KernelNotFound, KernelDied, GatewayUnavailable.
            KernelBusy: it is alive but does not answer.
        """
        connection = kernel.connection
        if connection is not None and not kernel.stopping:
            return connection
        try:
            async with asyncio.timeout(self.ready_timeout):
                return await kernel.connect()
        except TimeoutError as error:
            late = f"The kernel {kernel.id} did not answer within {self.ready_timeout:g} s"
            if kernel.ending is not None:
                raise KernelDied(f"{late}. {kernel.ending.message}") from error
            raise KernelBusy(f"{late} but is alive: it is busy or stuck.") from error
        except ConnectionClosed as closed:
            if closed.ending.kind == "shutdown":
                raise KernelNotFound(f"The kernel {kernel.id} was shut down.") from closed
            raise KernelDied(closed.ending.message) from closed

    async def wait_ready(self, kernel_id: str) -> None:
        """Wait until a kernel answers. Raises KernelNotFound, KernelStartFailed."""
        try:
            await self._connect(self._kernel(kernel_id))
        except (KernelDied, KernelBusy) as error:
            raise KernelStartFailed(error.message) from error

    async def interrupt(self, kernel_id: str, *, only: ExecutionRequest | None = None) -> None:
        """Interrupt what a kernel runs.

        Args:
            kernel_id: The kernel.
            only: A request (compared by identity). Nothing is sent unless the kernel still runs it,
                because the interrupt would reach the code of another client.

        Raises:
            KernelNotFound.
        """
        kernel = self._kernel(kernel_id)
        if kernel.stopping:
            return  # the code to interrupt ends with its process; later code is not interrupted
        # A kernel that has not answered yet may not have its signal handler: a signal would end it.
        connection = await self._connect(kernel)
        if connection.interrupting(only):
            await self._ask(self._manager.interrupt_kernel(kernel_id))

    # -- starting

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:
        """Start a kernel in the folder of ``path``, wait until it answers, and return its id.

        A launch is completed even if the caller is cancelled, and its kernel is then discarded. A launch
        that was cancelled halfway would leave a kernel that is in no list.

        Raises:
            InvalidArguments, KernelUnsupported, GatewayUnavailable.
            KernelStartFailed: it exited or did not answer in time (30 s by default). The message ends
                with the tail of its stderr, and no process is left. Behind a gateway stderr is unknown,
                and a kernel may be left running if the gateway's response was lost.
        """
        wanted = kernel_name or self._manager.default_kernel_name
        name = find_kernelspec(await self.kernelspecs(), wanted).name
        try:
            return await self._start(name, path)
        except KernelStartFailed as error:
            # Another process took one of its ports after they were chosen.
            if "Address already in use" not in error.message:
                raise
            return await self._start(name, path)

    async def _start(self, name: str, path: str | None) -> str:
        clock = asyncio.get_running_loop().time
        kernel_id = await self._starts.complete(
            self._launch(name, path),
            "The start of a kernel",
            lambda launched: self._stop(launched, now=True),
        )
        began = clock()
        kernel = self._kernel(kernel_id)
        try:
            async with asyncio.timeout(self.ready_timeout):
                await kernel.connect(first=True)
        except BaseException as error:
            discarding = self._starts.spawn(self._stop(kernel_id, now=True), "Discarding a kernel")
            await asyncio.wait({discarding})  # its failure is logged
            if isinstance(error, TimeoutError):
                problem = f"did not answer within {self.ready_timeout:g} s."
            elif isinstance(error, ConnectionClosed):
                problem = error.ending.message.removeprefix("The kernel ")
            else:
                raise
            tail: StderrTail | None = getattr(kernel.manager.provisioner, "stderr", None)
            said = "" if tail is None else await tail.text()
            wrote = f" Its last output:\n{said}" if said else ""
            message = f"The kernel `{name}` {problem}{wrote}"
            raise KernelStartFailed(message, stderr=said) from error
        log.info("Kernel %s (%s) answered after %.2f s", kernel_id, name, clock() - began)
        return kernel_id

    async def _launch(self, name: str, path: str | None) -> str:
        """Have the manager start a kernel; return its id."""
        environment = dict(self._environment())
        if path:
            # As in Jupyter's session manager: gives the kernel's code the path of its notebook.
            folder = self._manager.cwd_for_path(path)
            environment["JPY_SESSION_NAME"] = str(Path(folder, Path(path).name))
        kernel_id = str(uuid4())
        try:
            return await self._manager.start_kernel(
                kernel_name=name, kernel_id=kernel_id, path=path, env=environment
            )
        except (OSError, RuntimeError, ValueError, HTTPError) as error:
            # jupyter_client keeps it as pending, and shutdown_all then fails to stop it.
            getattr(self._manager, "_pending_kernels", {}).pop(kernel_id, None)
            message = f"The kernel `{name}` could not be started: {error}"
            raise KernelStartFailed(message) from error

    # -- stopping

    async def restart(self, kernel_id: str) -> None:
        """Restart a kernel and wait until it answers. Running executions end as kernel_restarted.

        A restart is completed even if the caller is cancelled: halfway, it would leave the manager
        unusable.
        """
        await self._in_turn(kernel_id, self._restart)

    async def shutdown(self, kernel_id: str) -> None:
        """Shut a kernel down; running executions end as kernel_died. Raises KernelNotFound."""
        await self._in_turn(kernel_id, self._stop)

    async def _in_turn(
        self, kernel_id: str, stop: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        kernel = self._kernel(kernel_id)

        async with kernel.lock:
            self._kernel(kernel_id)
            await run_to_completion(stop(kernel_id))

    async def _restart(self, kernel_id: str) -> None:
        kernel = self._kernel(kernel_id)
        await kernel.settled()
        # A shutdown_request that the kernel does not read would reach its successor.
        kill = True
        with suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(ANSWER_TIME):
                await kernel.connect()
                kill = False
        self._kernel(kernel_id)
        try:
            answered = await self._ask(self._manager.restart_kernel(kernel_id, now=kill))
            if asyncio.isfuture(answered):
                # jupyter_server's own wait for an answer; `wait_ready` reports failures.
                answered.add_done_callback(lambda done: done.cancelled() or done.exception())
        except (OSError, RuntimeError) as error:
            message = f"The kernel {kernel_id} could not be restarted: {error}"
            raise KernelStartFailed(message) from error
        kernel.stopped(RESTARTED)
        await self.wait_ready(kernel_id)

    async def _stop(self, kernel_id: str, *, now: bool = False) -> None:
        """Have the manager shut a kernel down if it still has it, and wait for the end."""
        kernel = self._kernels.get(kernel_id)
        if kernel is not None:
            await kernel.settled()
        if kernel_id in self._manager:
            await self._ask(self._manager.shutdown_kernel(kernel_id, now=now))
        if kernel is not None:
            kernel.stopped(SHUT_DOWN)
            if kernel.watching is not None and kernel.watching is not asyncio.current_task():
                await asyncio.wait({kernel.watching})

    # -- one kernel

    async def _ask(self, request: Any) -> Any:
        """Await a request to a manager."""
        return await ensure_async(request)

    def _kernel(self, kernel_id: str) -> Kernel:
        """Return the kernel and watch it from now on. Raises KernelNotFound."""
        if kernel_id not in self._manager:
            raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
        manager = self._manager.get_kernel(kernel_id)
        kernel = self._kernels.get(kernel_id)
        if kernel is None or kernel.manager is not manager:
            kernel = self._kernels[kernel_id] = self.kernel_class(
                kernel_id,
                manager,
                is_listed=lambda: kernel_id in self._manager,
                emit=self._emit,
                context=self._context,
            )
            kernel.watching = self._tasks.spawn(self._watch(kernel), f"Watching {kernel_id}")
        return kernel

    async def _watch(self, kernel: Kernel) -> None:
        try:
            ending = await kernel.watch()
            if ending.kind == "died" or kernel.remote:  # the manager does not know of it
                await self._stop(kernel.id, now=True)
        finally:
            await kernel.close()
            if self._kernels.get(kernel.id) is kernel:
                del self._kernels[kernel.id]

    def _emit(self, event: KernelEvent) -> None:
        for listener in list(self._listeners):  # a listener may change the subscriptions
            listener(event)


def find_execution_stack(extension_manager: Any) -> Any:
    """Return a Jupyter Server's ExecutionStack, or None if jupyter_server_nbmodel is not enabled.

    Args:
        extension_manager: The server's extension manager, with its extensions loaded.
    """
    apps: Any = extension_manager.extension_apps.get("jupyter_server_nbmodel") or ()
    return next((getattr(app, "_Extension__execution_stack", None) for app in apps), None)


async def _wait_for_turn(stack: Any, kernel: Kernel) -> None:
    """Wait until the kernel has run what an ExecutionStack had for it, or the stack is stuck."""
    ahead = _pending(stack, kernel.id)
    while ahead := ahead & _pending(stack, kernel.id):
        kernel.changed.clear()
        try:
            async with asyncio.timeout(None if kernel.state == "busy" else IDLE_LIMIT):
                await kernel.changed.wait()
        except TimeoutError:
            log.warning("The execution stack is stuck: not waiting for %s", ahead)
            return
        await asyncio.sleep(NEXT_STEP)


def _pending(stack: Any, kernel_id: str) -> set[str]:
    return {each["request_id"] for each in stack.pending(kernel_id)}
