"""Session kernels of the `python` tool: one for each session and folder, up to a limit for each user."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from tk_ai_extension.kernels.base import NO_NOTEBOOK, KernelEvent
from tk_ai_extension.kernels.service import Kernels
from tk_ai_extension.kernels.sessions import Sessions
from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    InvalidArguments,
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelStartFailed,
    LimitReached,
    SaveFailed,
    ToolError,
    is_out_of_files,
)
from tk_ai_extension.model.executions import INTERRUPT_IGNORED, Execution, ExecutionRequest
from tk_ai_extension.workspace.journal import Notices
from tk_ai_extension.workspace.runs import Run, Step
from tk_ai_extension.workspace.tool_bridge import Answer, ToolBridge

logger = logging.getLogger(__name__)

MAX_SESSIONS = 4
"""Maximum session kernels of a user."""
MAX_SINGLE = 8
"""Maximum kernels of a user for one call each."""
IDLE_AFTER = 300.0
"""Seconds without use after which a session kernel is shut down."""
MAX_RESTARTS = 1
"""Maximum crashes of a session's kernel after which it is replaced."""
CLOSE_WITHIN = 3.0
"""Seconds to shut down the session kernels when the server stops."""
TOO_OFTEN = "Python kernel restarted too many times in this session"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key of a session.

    Attributes:
        user: The user. Sessions of different users are independent.
        name: The session: a caller's own, or a name that several callers share.
        folder: The folder that its code runs in, relative to the root; empty for the root.
    """

    user: str
    name: str
    folder: str = ""


@dataclass(eq=False)
class PythonSession:
    """A session and its kernel.

    Attributes:
        single: Whether its kernel is one of one call.
        id: The id for the code that runs in it (``PI_TOOL_BRIDGE_SESSION``).
        kernel_id: Its kernel; empty until one is started.
        owners: The identities of the callers that have used it.
        died: Whether its kernel has crashed and was not replaced yet.
        stopped: Whether its kernel was shut down.
        restarts: The number of crashes after which its kernel was replaced.
        using: The number of runs that use it or wait for it.
        used: The time of its last use, in seconds of the monotonic clock.
    """

    key: SessionKey
    single: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    kernel_id: str = ""
    owners: set[str] = field(default_factory=set[str])
    died: bool = False
    stopped: bool = False
    restarts: int = 0
    resetting: bool = False
    using: int = 0
    used: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class PythonSessions:
    """The session kernels of a workspace: started, reused, replaced, and shut down when idle.

    At a user's limit, that user's least recently used session is closed. A session whose kernel is bound
    to a notebook is neither counted nor closed, and such a kernel is never shut down here: a session that
    ends or needs another kernel leaves it to the notebook.

    Args:
        kernels: Starts and stops kernels.
        bindings: Knows which kernels belong to notebooks.
        notices: Notifies callers that variables are lost.
        max_sessions: Maximum session kernels of a user.
        max_single: Maximum kernels of a user for one call each.
        idle_after: Seconds without use after which a session is closed.
        sweep_every: Seconds between two checks for idle sessions.
    """

    def __init__(
        self,
        kernels: Kernels,
        bindings: Sessions,
        notices: Notices,
        *,
        max_sessions: int = MAX_SESSIONS,
        max_single: int = MAX_SINGLE,
        idle_after: float = IDLE_AFTER,
        sweep_every: float = 30.0,
    ) -> None:
        self.bridge = ToolBridge(kernels)
        """The bridge through which code in these kernels calls tools."""
        self._kernels = kernels
        self._bindings = bindings
        self._notices = notices
        self._max = max_sessions
        self._max_single = max_single
        self._idle_after = idle_after
        self._sweep_every = sweep_every
        # Least recently used first.
        self._sessions: dict[SessionKey, PythonSession] = {}
        self._sweeping: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[PythonSession]:
        """Iterate over the sessions, least recently used first."""
        return iter(list(self._sessions.values()))

    def get(self, key: SessionKey | None) -> PythonSession | None:
        """Return the session of a key, if there is one."""
        return None if key is None else self._sessions.get(key)

    async def acquire(self, key: SessionKey, caller: Caller) -> PythonSession:
        """Return a session with a kernel for one run. Call `release` afterwards.

        Raises:
            LimitReached: All session kernels of the user are in use.
            InvalidArguments: No Python kernel is installed.
            KernelStartFailed: The kernel did not start.
        """
        bound = {session for session in self if await self._is_bound(session.kernel_id)}
        session, evicted = self._sessions.pop(key, None), None
        if session is None:
            evicted = self._session_to_evict(key.user, bound)
            session = PythonSession(key)
        session.owners.add(caller.identity)
        return await self._use(session, evicted)

    async def single(self, user: str, folder: str) -> PythonSession:
        """Start a kernel for one call. Call `release` afterwards.

        Raises:
            LimitReached: Too many of the user's calls have their own kernel.
            InvalidArguments: No Python kernel is installed.
            KernelStartFailed: The kernel did not start.
        """
        if sum(each.single and each.key.user == user for each in self) >= self._max_single:
            raise LimitReached(f"{self._max_single} of your calls already have their own kernel.")
        key = SessionKey(user, f"call:{secrets.token_hex(6)}", folder)
        return await self._use(PythonSession(key, single=True))

    async def _use(
        self, session: PythonSession, evicted: PythonSession | None = None
    ) -> PythonSession:
        self._sessions[session.key] = session
        session.using += 1
        try:
            if evicted is not None:
                await self._close_session(evicted, "was shut down to make room for another session")
            async with session.lock:
                await self._start(session)
        except BaseException:
            await self.release(session)
            if not session.kernel_id and not session.using:
                self._remove(session)
            raise
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep_periodically())
        return session

    async def release(self, session: PythonSession) -> None:
        """Release a session after a run; shut down the kernel of one call."""
        session.using -= 1
        session.used = time.monotonic()
        if session.single:
            await self._close_session(session, "was shut down")

    async def ensure(self, session: PythonSession) -> None:
        """Start a kernel for the session if it has none: it crashed, was shut down, or was killed.

        Raises:
            KernelDied: The kernel crashed too often.
            KernelStartFailed: The kernel did not start.
        """
        async with session.lock:
            if session.died:
                if session.restarts >= MAX_RESTARTS:
                    raise KernelDied(
                        f"{TOO_OFTEN}.", hint="Set `reset` in the first cell to start a new kernel."
                    )
                session.restarts += 1
                self._notify_owners(session, "crashed and was replaced")
                await self._drop(session)
            elif session.kernel_id and session.kernel_id not in self._kernels.ids():
                self._notify_owners(session, "was shut down and is being replaced")
                session.kernel_id = ""
            await self._start(session)

    async def reset(self, session: PythonSession) -> None:
        """Give the session a new kernel.

        Raises:
            KernelBusy: Another reset is in progress.
            KernelStartFailed: The kernel did not start.
        """
        if session.resetting:
            raise reset_in_progress()
        session.resetting = True
        try:
            async with session.lock:
                await self._drop(session)
                await self._start(session)
                session.restarts = 0
        finally:
            session.resetting = False

    async def kill(self, session: PythonSession) -> bool:
        """Shut down a kernel that ignores an interrupt; the next run starts another one.

        Returns:
            Whether it has ended. A kernel that is a notebook's runs on.
        """
        if has_ended := await self._drop(session):
            self._notify_owners(session, "ignored the interrupt, was killed and replaced")
        return has_ended

    async def sweep(self) -> None:
        """Close idle sessions, and those whose kernel has ended."""
        now = time.monotonic()
        for session in self:
            is_idle = now - session.used >= self._idle_after
            has_ended = session.kernel_id not in self._kernels.ids()
            if (is_idle or has_ended) and not await self._is_bound(session.kernel_id):
                await self._close_session(session, "was shut down because it was idle")

    async def close(self) -> None:
        """Shut down the session kernels, which could not be found again after a restart."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait({self._sweeping})
        await self.bridge.close()
        stopping = [asyncio.create_task(self._drop(each)) for each in self]
        if stopping:
            await asyncio.wait(stopping, timeout=CLOSE_WITHIN)
        for task in stopping:
            task.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)

    async def _start(self, session: PythonSession) -> None:
        """Start a Python kernel in the session's folder, unless it has one.

        If too many files are open, idle sessions are closed and the start is tried once more.
        """
        if session.kernel_id:
            return
        name = await self._python_kernelspec()
        # The kernel runs in the folder of this path, which is not a notebook's.
        path = f"{session.key.folder}/{NO_NOTEBOOK}{session.id}".lstrip("/")
        session.died = session.stopped = False
        try:
            session.kernel_id = await self._kernels.start(name, path=path)
        except KernelStartFailed as error:
            if not is_out_of_files(error):
                raise
            logger.warning("Too many open files: shutting down idle session kernels")
            await self._close_idle(session.key.user)
            session.kernel_id = await self._kernels.start(name, path=path)

    async def _python_kernelspec(self) -> str:
        """Return the default kernelspec if its language is Python, else the first one that is."""
        specs = await self._kernels.kernelspecs()
        for spec in specs:  # The default one is first.
            if spec.language == "python":
                return spec.name
        known = ", ".join(spec.name for spec in specs) or "none"
        raise InvalidArguments(
            f"No Python kernel is installed (installed: {known}).",
            hint="Run `pip install ipykernel`.",
        )

    async def _drop(self, session: PythonSession) -> bool:
        """Take the kernel from a session, and shut it down unless it is a notebook's.

        This is carried through if the caller is cancelled: nobody else may know the kernel.

        Returns:
            Whether it has ended.
        """
        kernel_id, session.kernel_id = session.kernel_id, ""
        session.died = False
        self.bridge.revoke(kernel_id)
        return await run_to_completion(self._shut_down(kernel_id))

    async def _shut_down(self, kernel_id: str) -> bool:
        # Where the notebooks of a kernel cannot be read, it is one of a session only.
        with suppress(SaveFailed):
            if await self._is_bound(kernel_id):
                return False
        with suppress(KernelNotFound):
            if kernel_id in self._kernels.ids():
                await self._kernels.shutdown(kernel_id)
        return True

    async def _is_bound(self, kernel_id: str) -> bool:
        return bool(kernel_id and await self._bindings.paths_of(kernel_id))

    def _session_to_evict(self, user: str, bound: set[PythonSession]) -> PythonSession | None:
        """Return the user's session to close before adding one; None if the limit is not reached.

        Raises:
            LimitReached: All sessions of the user are in use.
        """
        counted = [
            each for each in self if each.key.user == user and not (each.single or each in bound)
        ]
        if len(counted) < self._max:
            return None
        for session in counted:
            if not session.using:
                return session
        raise LimitReached(f"All {self._max} of your session kernels are in use.")

    async def _sweep_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._sweep_every)
            try:
                await self.sweep()
            except ToolError as error:
                logger.warning("A session kernel could not be shut down: %s", error.message)

    async def _close_idle(self, user: str) -> None:
        """Close the idle sessions of a user who needs files; all idle ones if the user has none."""
        idle = [each for each in self if not (each.using or await self._is_bound(each.kernel_id))]
        for session in [each for each in idle if each.key.user == user] or idle:
            await self._close_session(session, "was shut down because too many files were open")

    async def _close_session(self, session: PythonSession, event: str) -> None:
        if session.using or not self._remove(session):
            return
        # At once: the caller, who may be another one, may be cancelled.
        self._notify_owners(session, event)
        self.bridge.forget(session.id)
        await self._drop(session)

    def _remove(self, session: PythonSession) -> bool:
        """Remove a session; return False if it was removed before: its key may have another one."""
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        return True

    def _notify_owners(self, session: PythonSession, event: str) -> None:
        for owner in session.owners:
            self._notices.add(
                owner, f"The `python` session's kernel {event}. Its variables are lost."
            )

    def on_kernel_end(self, event: KernelEvent) -> None:
        """Note that a kernel has died, was restarted or was shut down."""
        for session in self._sessions.values():
            if session.kernel_id == event.kernel_id:
                session.died = session.died or event.kind == "died"
                session.stopped = event.kind == "shutdown"


@dataclass(eq=False)
class PythonStep(Step):
    """One cell of a `python` call."""

    reset: bool = False
    """Whether to give the session a new kernel before this cell."""


@dataclass(eq=False)
class SessionSupervisor:
    """Supervises a session's kernel during one run (`workspace.runs.RunSupervisor`).

    Attributes:
        kernels: Runs the code that sets up the environment.
        sessions: Starts and replaces kernels.
        session: The session.
        caller: The caller that the code runs for.
        variables: Environment variables that the call sets.
        artifacts: The folder of the user's artifacts.
        answer: Calls a tool with the caller's permissions.
    """

    kernels: Kernels
    sessions: PythonSessions
    session: PythonSession
    caller: Caller
    variables: Mapping[str, str]
    artifacts: Path
    answer: Answer

    async def before_step(self, run: Run, step: Step) -> None:
        """Ensure that the session has a live kernel, reset it on request, and set up its environment.

        All of it within the turn of the session's kernel, which is assigned to the run first.
        """
        session = self.session
        if session.kernel_id in ("", run.kernel_id):
            if isinstance(step, PythonStep) and step.reset:
                step.reset = False
                await self.sessions.reset(session)
            else:
                await self.sessions.ensure(session)
        if run.kernel_id == session.kernel_id:
            await self._enter()
        run.kernel_id = session.kernel_id

    async def after_step(self, run: Run, step: Step) -> bool:
        """Return whether to run the step again, which is so after the kernel crashed in it."""
        session, ended = self.session, step.execution
        if ended is None:
            return False
        has_died = ended.status in ("kernel_died", "kernel_restarted")
        if run.cancelled and has_died:
            message = (
                "The code ignored the interrupt. Its kernel was killed; its variables are lost."
            )
            _end(step, replace(ended, status="interrupted", message=message))
        elif ended.status == "timed_out":
            # Clients of `python` match this message.
            message = ended.message.replace("Timed out", "Command timed out", 1)
            if INTERRUPT_IGNORED in message:
                message = message.partition(INTERRUPT_IGNORED)[0] + await self._kill()
            _end(step, replace(ended, message=message))
        if run.cancelled or session.single or session.stopped or ended.status != "kernel_died":
            return False
        if session.restarts >= MAX_RESTARTS:
            _end(step, replace(ended, message=f"{ended.message} {TOO_OFTEN}."))
        if session.kernel_id == run.kernel_id:
            session.died = True
        logger.warning("Kernel %s crashed in a session", run.kernel_id)
        return session.restarts < MAX_RESTARTS

    async def on_interrupt_ignored(self, run: Run) -> None:
        """Kill the kernel of a cancelled run that ignored the interrupt, or leave it to its notebook."""
        if run.kernel_id != self.session.kernel_id:
            return  # Another cancellation has killed it.
        outcome = await self._kill()
        if RUNS_ON in outcome and run.task is not None:
            run.current.warning = outcome
            run.task.cancel()

    async def on_end(self, run: Run) -> None:  # noqa: ARG002 - the protocol's
        """Release the session."""
        await self.sessions.release(self.session)

    async def _kill(self) -> str:
        is_killed = await self.sessions.kill(self.session)
        outcome = "Its kernel was killed and replaced." if is_killed else RUNS_ON
        return f"The code ignored the interrupt. {outcome}"

    async def _enter(self) -> None:
        """Set the working directory, variables and `sys.path` for the next code.

        By a user expression: code would appear in the kernel's history.
        """
        kernel_id = self.session.kernel_id
        info = await self.kernels.info(kernel_id)
        variables = dict(self.variables)
        if not (info.sandboxed or info.remote):  # These reach neither the paths nor the bridge.
            artifacts = str(self.artifacts)
            variables |= {"ARTIFACTS": artifacts, "PI_ARTIFACTS_DIR": artifacts}
            variables |= self.sessions.bridge.variables(
                self.caller, kernel_id, self.session.id, self.session.key.folder, self.answer
            )
        request = ExecutionRequest("", silent=True, user_expressions={"_": _entering(variables)})
        async with aclosing(self.kernels.execute(kernel_id, request)) as events:
            async for event in events:
                if isinstance(event, Execution):
                    answer = event.user_expressions.get("_", {})
                    if event.status != "ok" or answer.get("status") != "ok":
                        why = answer.get("evalue") or event.message or event.status
                        raise ToolError(f"The kernel's environment could not be set up: {why}.")


RUNS_ON = "Its kernel is a notebook's, too, and runs on."


def _end(step: Step, execution: Execution) -> None:
    step.execution = execution
    step.status = execution.status


def reset_in_progress() -> KernelBusy:
    """Return the error for a second reset."""
    return KernelBusy(
        "Another reset of this session is in progress.", hint="Wait until it ends, then try again."
    )


@cache
def _client() -> str:
    """Return the source of the module `tool_bridge`."""
    return files("tk_ai_extension.workspace").joinpath("tool_bridge_client.py").read_text("utf-8")


def _entering(variables: Mapping[str, str]) -> str:
    """Return one expression that sets up the environment without adding names to the namespace.

    It creates the module `tool_bridge` if the kernel is new or was restarted.
    """
    return (
        "(lambda sys, source, variables: ('tool_bridge' in sys.modules or "
        "(lambda module: (exec(source, module.__dict__), "
        "setattr(module, 'here', module.CallEnvironment()), "
        "sys.modules.__setitem__('tool_bridge', module)))(type(sys)('tool_bridge')), "
        "sys.modules['tool_bridge'].here.enter(variables)) and None)"
        f"(__import__('sys'), {_client()!r}, {json.dumps(variables)!r})"
    )
