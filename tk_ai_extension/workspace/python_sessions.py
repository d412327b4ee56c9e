"""Session kernels of the `python` tool: one for each session and folder, up to a limit for each user."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tk_ai_extension.kernels.jupyter_sessions import JupyterSessions
from tk_ai_extension.kernels.kernel_info import NO_NOTEBOOK, KernelEvent
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.model.background_tasks import BackgroundTasks, run_to_completion
from tk_ai_extension.model.callers import Caller, CallerNotices
from tk_ai_extension.model.errors import (
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelStartFailed,
    LimitReached,
    ToolError,
    is_out_of_files,
)
from tk_ai_extension.model.executions import INTERRUPT_IGNORED, Execution, ExecutionRequest
from tk_ai_extension.workspace.runs import Run, RunStep
from tk_ai_extension.workspace.tool_bridge import Answer, ToolBridge

logger = logging.getLogger(__name__)

MAX_SESSIONS = 4
"""Maximum session kernels of a user."""
IDLE_AFTER = 300.0
"""Seconds without use after which a session kernel is shut down."""
MAX_CRASHES = 1
"""Maximum crashes of a session's kernel after which the code is run again."""
TOO_OFTEN = "Python kernel restarted too many times in this session"
REPLACED = "ignored an interrupt and is replaced"
IGNORED = "The code ignored the interrupt. The session gets another kernel."


@dataclass(frozen=True, slots=True)
class PythonSessionKey:
    """The key of a session.

    Attributes:
        user: The user. Sessions of different users are independent.
        name: The session: a caller's private one, or a name that several callers share. Empty for a
            kernel of one call.
        folder: The folder that its code runs in, relative to the root; empty for the root.
    """

    user: str
    name: str
    folder: str = ""


@dataclass(eq=False)
class PythonSession:
    """A session and its kernel.

    Attributes:
        id: The id for the code that runs in it (``PI_TOOL_BRIDGE_SESSION``).
        kernel_id: Its kernel; empty until one is started.
        owners: The identities of the callers that have used it.
        crashes: How often its kernel has crashed since the last reset.
        using: The number of runs that use it or wait for it.
        used: The time of its last use, in seconds of the monotonic clock.
    """

    key: PythonSessionKey
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    kernel_id: str = ""
    owners: set[str] = field(default_factory=set[str])
    crashes: int = 0
    resetting: bool = False
    using: int = 0
    used: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(eq=False)
class PythonSessions:
    """The session kernels of a workspace: started, reused, replaced, and shut down when idle.

    At a user's limit, that user's least recently used session is closed. A kernel that is bound to a
    notebook is never shut down here: a session that ends or needs another kernel leaves it to the
    notebook.

    Attributes:
        kernels: Starts and stops kernels.
        bindings: Determines which kernels belong to notebooks.
        notices: Notifies callers that variables are lost.
        max_sessions: Maximum session kernels of a user.
        idle_after: Seconds without use after which a session is closed.
        sweep_every: Seconds between two checks for idle sessions.
        bridge: The bridge through which code in these kernels calls tools.
    """

    kernels: KernelService
    bindings: JupyterSessions
    notices: CallerNotices
    max_sessions: int = MAX_SESSIONS
    idle_after: float = IDLE_AFTER
    sweep_every: float = 30.0

    def __post_init__(self) -> None:
        self.bridge = ToolBridge(self.kernels)
        # Least recently used first.
        self._sessions: dict[PythonSessionKey, PythonSession] = {}
        self._tasks = BackgroundTasks(logger)
        self._sweeping: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[PythonSession]:
        """Iterate over the sessions, least recently used first."""
        return iter(list(self._sessions.values()))

    def kernel_of(self, key: PythonSessionKey) -> str | None:
        """Return the present kernel of a session, if it has one."""
        session = self._sessions.get(key)
        return (session.kernel_id or None) if session else None

    async def acquire(
        self, key: PythonSessionKey, caller: Caller, *, resets: bool
    ) -> PythonSession:
        """Return a session with a kernel for one run. Call `release` afterwards.

        Args:
            key: The session.
            caller: The caller.
            resets: Whether the run resets the session.

        Raises:
            KernelBusy: Another reset is in progress.
            KernelDied: The kernel crashed too often, and the run does not reset the session.
            LimitReached: All session kernels of the user are in use.
            InvalidArguments: No Python kernel is installed.
            KernelStartFailed: The kernel did not start.
        """
        session, evicted = self._sessions.get(key), None
        if session is None:
            evicted = self._session_to_evict(key)
            session = PythonSession(key)
        elif resets and session.resetting:
            raise KernelBusy(
                "Another reset of this session is in progress.", hint="Try again when it has ended."
            )
        elif session.crashes > MAX_CRASHES:
            if not resets:
                hint = "Set `reset` in the first cell to start a new kernel."
                raise KernelDied(f"{TOO_OFTEN}.", hint=hint)
            session.crashes = 0
        if key.name:
            self._sessions.pop(key, None)
            self._sessions[key] = session
        session.owners.add(caller.identity)
        session.using += 1
        try:
            if evicted is not None:
                await self._close_session(evicted, "to make room for another session")
            await self.ensure(session)
        except BaseException:
            await self.release(session)
            raise
        if self._sweeping is None:
            self._sweeping = self._tasks.spawn(self._sweep_periodically(), "Closing idle sessions")
        return session

    async def release(self, session: PythonSession) -> None:
        """Release a session after a run; shut down the kernel of one call."""
        session.using -= 1
        session.used = time.monotonic()
        if not session.key.name:
            await self.drop(session)

    async def ensure(self, session: PythonSession) -> None:
        """Start a Python kernel in the session's folder, unless it has one.

        If too many files are open, idle sessions are closed and the start is tried once more.

        Raises:
            InvalidArguments: No Python kernel is installed.
            KernelStartFailed: The kernel did not start.
        """
        async with session.lock:
            if session.kernel_id:
                return
            specs = await self.kernels.kernelspecs()  # The default one is first.
            name = next((spec.name for spec in specs if spec.language == "python"), "python")
            # The kernel runs in the folder of this path, which is not a notebook's.
            path = f"{session.key.folder}/{NO_NOTEBOOK}{session.id}".lstrip("/")
            try:
                session.kernel_id = await self.kernels.start(name, path=path)
            except KernelStartFailed as error:
                if not is_out_of_files(error):
                    raise
                logger.warning("Too many open files: shutting down idle session kernels")
                await self.sweep(0.0, "because too many files were open")
                session.kernel_id = await self.kernels.start(name, path=path)

    async def reset(self, session: PythonSession) -> None:
        """Give the session a new kernel. Raises as `ensure`."""
        session.resetting = True
        try:
            await self.drop(session)
            session.crashes = 0
            await self.ensure(session)
        finally:
            session.resetting = False

    def drop(self, session: PythonSession, event: str = "") -> Coroutine[Any, Any, None]:
        """Take the kernel from a session; return a coroutine that shuts it down, even if cancelled.

        Args:
            session: The session; its next run starts another kernel.
            event: The event of the kernel, for a notice to the session's owners; empty for no notice.
        """
        kernel_id, session.kernel_id = session.kernel_id, ""
        for owner in session.owners if event else ():
            self.notices.add(
                owner, f"The `python` session's kernel {event}. Its variables are lost."
            )
        return run_to_completion(self._shut_down(kernel_id))

    async def sweep(self, idle_after: float, why: str = "because it was idle") -> None:
        """Close the sessions that were not used for some seconds."""
        now = time.monotonic()
        for session in self:
            if not session.using and now - session.used >= idle_after:
                await self._close_session(session, why)

    async def close(self) -> None:
        """Close the bridge. Kernels keep running; their owner shuts them down."""
        await self._tasks.close()
        self.bridge.close()

    def _session_to_evict(self, key: PythonSessionKey) -> PythonSession | None:
        """Return the user's session to close before adding one; None if the limit is not reached.

        Raises:
            LimitReached: All sessions of the user are in use.
        """
        own = [session for session in self if session.key.user == key.user]
        if not key.name or len(own) < self.max_sessions:
            return None
        for session in own:
            if not session.using:
                return session
        raise LimitReached(f"All {self.max_sessions} of your session kernels are in use.")

    async def _sweep_periodically(self) -> None:
        while True:
            await asyncio.sleep(self.sweep_every)
            try:
                await self.sweep(self.idle_after)
            except ToolError as error:
                logger.warning("A session kernel could not be shut down: %s", error.message)

    async def _close_session(self, session: PythonSession, why: str) -> None:
        # Removed before the await: the caller may be cancelled, or be another session's.
        del self._sessions[session.key]
        await self.drop(session, f"was shut down {why}")

    async def _shut_down(self, kernel_id: str) -> None:
        """Shut down a kernel, unless it is a notebook's or has ended."""
        if kernel_id and not await self.bindings.paths_of(kernel_id):
            with suppress(KernelNotFound):
                await self.kernels.shutdown(kernel_id)

    def on_kernel_end(self, event: KernelEvent) -> None:
        """Handle the end of a session's kernel. Its manager must not restart a crashed one."""
        if event.kind == "restarted":
            return
        self.bridge.forget(event.kernel_id)
        for session in self:
            if session.kernel_id == event.kernel_id:
                has_crashed = event.kind == "died"
                session.crashes += has_crashed
                how = f"{'crashed' if has_crashed else 'was shut down'} and is replaced"
                self._tasks.spawn(self.drop(session, how), "Removing a session's kernel")


@dataclass(eq=False)
class PythonSessionSupervisor:
    """Supervises a session's kernel during one run (`workspace.runs.RunSupervisor`).

    Attributes:
        sessions: Starts and replaces kernels.
        session: The session.
        caller: The caller that the code runs for.
        artifacts: The folder of the user's artifacts.
        answer: Calls a tool with the caller's permissions.
        resets: The steps before which the session gets a new kernel.
        crashes: The crashes of the session before the present step.
    """

    sessions: PythonSessions
    session: PythonSession
    caller: Caller
    artifacts: Path
    answer: Answer
    resets: set[RunStep]
    crashes: int = 0

    async def before_step(self, run: Run, step: RunStep) -> None:
        """Ensure that the session has a live kernel, reset it on request, and set up its environment.

        This happens within the turn of the session's kernel, which is assigned to the run first.
        """
        session = self.session
        if step in self.resets and session.kernel_id in ("", run.kernel_id):
            self.resets.remove(step)
            await self.sessions.reset(session)
        else:
            await self.sessions.ensure(session)
        if run.kernel_id == session.kernel_id:
            self.crashes = session.crashes
            await self._enter()
        run.kernel_id = session.kernel_id

    async def after_step(self, run: Run, step: RunStep) -> bool:
        """Return whether to run the step again: the kernel crashed in it."""
        session, ended = self.session, step.execution
        if ended is None:
            return False
        if ended.status == "timed_out" and INTERRUPT_IGNORED in ended.message:
            message = ended.message.partition(INTERRUPT_IGNORED)[0] + IGNORED
            step.execution = replace(ended, message=message)
            await self.sessions.drop(session, REPLACED)
        if ended.status != "kernel_died" or session.crashes == self.crashes:
            return False
        logger.warning("Kernel %s crashed in a session", run.kernel_id)
        if session.crashes <= MAX_CRASHES:
            return True
        step.warning = f"{TOO_OFTEN}."
        return False

    async def on_interrupt_ignored(self, run: Run) -> None:
        """End a cancelled run that ignored the interrupt, and replace the session's kernel."""
        if run.kernel_id == self.session.kernel_id and run.task is not None:
            run.current.warning = IGNORED
            run.task.cancel()
            await self.sessions.drop(self.session, REPLACED)

    async def on_end(self, run: Run) -> None:  # noqa: ARG002 - the protocol's
        """Release the session."""
        await self.sessions.release(self.session)

    async def _enter(self) -> None:
        """Set the working directory, variables and `sys.path` for the next code."""
        session, kernels = self.session, self.sessions.kernels
        info = await kernels.info(session.kernel_id)
        variables: dict[str, str] = {}
        if not (info.sandboxed or info.remote):  # These reach neither the paths nor the bridge.
            artifacts = str(self.artifacts)
            variables = {"ARTIFACTS": artifacts, "PI_ARTIFACTS_DIR": artifacts}
            variables |= await self.sessions.bridge.variables(
                self.caller, session.kernel_id, session.id, session.key.folder, self.answer
            )
        request = ExecutionRequest(_entering(variables), silent=True)
        async with aclosing(kernels.execute(session.kernel_id, request)) as events:
            async for event in events:
                if isinstance(event, Execution) and event.status != "ok":
                    why = (event.error or {}).get("evalue") or event.message or event.status
                    raise ToolError(f"The kernel's environment could not be set up: {why}.")


CLIENT = Path(__file__).with_name("tool_bridge_client.py").read_text("utf-8")
"""The source of the module `tool_bridge` of a kernel."""


def _entering(variables: Mapping[str, str]) -> str:
    """Return one expression that sets up the environment without adding names to the namespace.

    It creates the module `tool_bridge` if the kernel is new or was restarted.
    """
    return (
        "(lambda modules, new: ('tool_bridge' in modules "
        f"or exec({CLIENT!r}, vars(modules.setdefault('tool_bridge', new))), "
        f"modules['tool_bridge'].enter({json.dumps(variables)!r})) and None)"
        "(__import__('sys').modules, type(__import__('sys'))('tool_bridge'))"
    )
