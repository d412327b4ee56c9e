"""Session kernels of the `python` tool: one for each session and folder, up to a limit for each user."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from tk_ai_extension.kernels.base import NO_NOTEBOOK, KernelEvent, Kernels, Sessions
from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelspecNotFound,
    KernelStartFailed,
    LimitReached,
    SaveFailed,
    ToolError,
    is_out_of_files,
)
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.workspace.notices import Notices
from tk_ai_extension.workspace.tool_bridge import ToolBridge

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""Maximum attempts to start a kernel while too many files are open."""
MAX_SESSIONS = 4
"""Maximum session kernels of a user."""
MAX_SINGLE = 8
"""Maximum kernels of a user for one call each."""
IDLE_AFTER = 300.0
"""Seconds without use after which a session kernel is shut down."""
SWEEP_EVERY = 30.0
"""Seconds between two checks for idle sessions."""
MAX_RESTARTS = 1
"""Maximum crashes of a session's kernel after which it is replaced."""
CLOSE_WITHIN = 3.0
"""Seconds to shut down the session kernels when the server stops."""

NO_FILES = "was shut down because too many files were open"
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
        user: Its user.
        key: The key; None for a kernel of one call.
        folder: The folder that its code runs in, relative to the root.
        id: The id for the code that runs in it (``PI_TOOL_BRIDGE_SESSION``).
        kernel_id: Its kernel; empty until that is started.
        owners: The callers that have used it, by identity.
        died: Whether its kernel has crashed and was not replaced yet.
        stopped: Whether somebody has shut down its kernel.
        restarts: The number of crashes after which its kernel was replaced.
        resetting: Whether a reset is in progress.
        is_isolated: Whether its kernel runs in a sandbox or behind a gateway, where neither the bridge
            nor the session's files can be reached.
        using: The number of runs that use it or wait for it.
        used: The time of its last use, in seconds of the monotonic clock.
    """

    user: str
    key: SessionKey | None
    folder: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    kernel_id: str = ""
    owners: dict[str, Caller] = field(default_factory=dict[str, Caller])
    died: bool = False
    stopped: bool = False
    restarts: int = 0
    resetting: bool = False
    is_isolated: bool = False
    using: int = 0
    used: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class PythonSessions:
    """The session kernels of a workspace: started, reused, replaced, and shut down when idle.

    At a user's limit, that user's least recently used session is closed. A session whose kernel is bound
    to a notebook is not counted and not closed, and such a kernel is never stopped or restarted here: a
    session that ends or needs another kernel leaves it to the notebook.

    Args:
        kernels: Starts and stops kernels.
        sessions: Knows which kernels belong to notebooks.
        notices: Notifies owners that variables are lost.
        max_sessions: Maximum session kernels of a user.
        max_single: Maximum kernels of a user for one call each.
        idle_after: Seconds without use after which a session is closed.
        sweep_every: Seconds between two checks for idle sessions.
    """

    def __init__(
        self,
        kernels: Kernels,
        sessions: Sessions,
        notices: Notices,
        *,
        max_sessions: int = MAX_SESSIONS,
        max_single: int = MAX_SINGLE,
        idle_after: float = IDLE_AFTER,
        sweep_every: float = SWEEP_EVERY,
    ) -> None:
        self.bridge = ToolBridge(kernels)
        """The bridge through which code in these kernels calls tools."""
        self._kernels = kernels
        self._bindings = sessions
        self._notices = notices
        self._max = max_sessions
        self._max_single = max_single
        self._idle_after = idle_after
        self._sweep_every = sweep_every
        # Least recently used first.
        self._sessions: dict[SessionKey, PythonSession] = {}
        self._single: set[PythonSession] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._unsubscribe = kernels.subscribe(self._on_kernel_event)

    def __iter__(self) -> Iterator[PythonSession]:
        """Iterate over the sessions, least recently used first."""
        return iter(list(self._sessions.values()))

    # -- using

    async def acquire(self, key: SessionKey, caller: Caller) -> PythonSession:
        """Return a session with a running kernel for one run. Call `release` afterwards.

        Raises:
            LimitReached: All session kernels of the user are in use.
            KernelspecNotFound: No Python kernel is installed.
            KernelStartFailed: The kernel did not start.
        """
        bound = {session for session in self if await self._is_bound(session.kernel_id)}
        session, victim = self._sessions.pop(key, None), None
        if session is None:
            victim = self._session_to_evict(key.user, bound)
            session = PythonSession(key.user, key, key.folder)
        self._sessions[key] = session
        session.owners[caller.identity] = caller
        session.using += 1
        try:
            if victim is not None:
                await self._close_session(victim, "was shut down to make room for another session")
            async with session.lock:
                if not session.kernel_id:
                    session.kernel_id = await self._start(session)
        except BaseException:
            self.release(session)
            if not session.kernel_id and not session.using:
                self._remove(session)
            raise
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep_periodically())
        return session

    def release(self, session: PythonSession) -> None:
        """Release a session after a run."""
        session.using -= 1
        session.used = time.monotonic()

    async def single(self, user: str, folder: str) -> PythonSession:
        """Start a kernel for one call. Call `discard` afterwards.

        Raises:
            LimitReached: Too many of the user's calls have their own kernel.
            KernelspecNotFound: No Python kernel is installed.
            KernelStartFailed: The kernel did not start.
        """
        if sum(each.user == user for each in self._single) >= self._max_single:
            raise LimitReached(f"{self._max_single} of your calls already have their own kernel.")
        session = PythonSession(user, None, folder)
        self._single.add(session)
        try:
            session.kernel_id = await self._start(session)
        except BaseException:
            self._single.discard(session)
            raise
        return session

    async def discard(self, session: PythonSession) -> None:
        """Shut down the kernel of one call, unless it is a notebook's."""
        self._single.discard(session)
        self.bridge.forget(session.id)
        await self._stop(session.kernel_id)

    def resetting(self, key: SessionKey) -> bool:
        """Return whether a reset of this session is in progress."""
        return key in self._sessions and self._sessions[key].resetting

    # -- replacing kernels

    async def reset(self, session: PythonSession) -> None:
        """Give the session a new kernel; one that is a notebook's is kept for it.

        Raises:
            KernelBusy: Another reset is in progress.
            KernelStartFailed: The kernel did not start.
        """
        if session.resetting:
            raise reset_in_progress()
        session.resetting = True
        try:
            async with session.lock:
                await self._restart(session)
            session.restarts = 0
        finally:
            session.resetting = False

    async def revive(self, session: PythonSession) -> None:
        """Ensure that the session has a responsive kernel; replace one that crashed or was shut down.

        Raises:
            KernelDied: The kernel crashed too often.
            KernelStartFailed: The kernel did not start.
        """
        async with session.lock:
            await self._revive(session)

    async def _revive(self, session: PythonSession) -> None:
        if session.died:
            if session.restarts >= MAX_RESTARTS:
                raise too_often()
            session.restarts += 1
            self._notify_owners(session, "crashed and was replaced")
        elif session.kernel_id in self._kernels.ids():
            return
        else:
            self._notify_owners(session, "was shut down and is being replaced")
        # jupyter_client restarts a crashed kernel. If it does not, a new one is started.
        await self._answering(session)

    async def replace_stuck(self, session: PythonSession) -> bool:
        """Replace a kernel that ignores an interrupt; return whether it was killed.

        A kernel that is a notebook's runs on.
        """
        session.using += 1  # Its run may end meanwhile, and the session would be closed.
        try:
            async with session.lock:
                if session.key is None:
                    return await self._stop(session.kernel_id)
                is_killed = await self._restart(session)
        finally:
            self.release(session)
        if is_killed:
            self._notify_owners(session, "ignored the interrupt, was killed and replaced")
        else:
            for owner in session.owners:
                self._notices.add(owner, Sentence("session_kernel_kept"))
        return is_killed

    # -- starting and stopping

    async def _start(self, session: PythonSession) -> str:
        """Start a Python kernel in the session's folder."""
        # The kernel runs in the folder of this path, which is not a notebook's.
        path = f"{session.folder}/{NO_NOTEBOOK}{session.id}".lstrip("/")
        kernel_id = await _start_python(
            self._kernels, path, make_room=partial(self._close_idle, session.user)
        )
        session.died = session.stopped = False
        try:
            info = await self._kernels.info(kernel_id)
        except BaseException:
            await self._stop(kernel_id)  # Nobody knows it yet.
            raise
        session.is_isolated = info.sandboxed or info.remote
        return kernel_id

    async def _restart(self, session: PythonSession) -> bool:
        """Restart or replace the session's kernel; return whether the present one was ended."""
        is_running = session.kernel_id in self._kernels.ids()
        if is_running and not await self._is_bound(session.kernel_id):
            with suppress(KernelNotFound, KernelStartFailed, KernelDied, KernelBusy):
                await self._kernels.restart(session.kernel_id)
                session.died = session.stopped = False
                return True
        return await self._start_again(session)

    async def _answering(self, session: PythonSession) -> None:
        with suppress(KernelNotFound, KernelStartFailed):
            await self._kernels.wait_ready(session.kernel_id)
            session.died = session.stopped = False
            return
        await self._start_again(session)

    async def _start_again(self, session: PythonSession) -> bool:
        has_ended = await self._stop(session.kernel_id)
        session.kernel_id = await self._start(session)
        return has_ended

    async def _stop(self, kernel_id: str) -> bool:
        """Shut a kernel down, unless it is a notebook's; its tokens are not valid any more.

        This is carried through if the caller is cancelled: nobody else may know the kernel.

        Returns:
            Whether it has ended.
        """
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

    # -- closing sessions

    def _session_to_evict(self, user: str, bound: set[PythonSession]) -> PythonSession | None:
        """Return the user's session to close before adding one; None if the limit is not reached.

        Raises:
            LimitReached: All sessions of the user are in use.
        """
        counted = [each for each in self if each.user == user and each not in bound]
        if len(counted) < self._max:
            return None
        for session in counted:
            if not session.using:
                return session
        raise LimitReached(f"All {self._max} of your session kernels are in use.")

    async def sweep(self) -> None:
        """Close idle sessions, and those whose kernel has ended."""
        now = time.monotonic()
        for session in self:
            is_idle = now - session.used >= self._idle_after
            has_ended = session.kernel_id not in self._kernels.ids()
            if session.using or not (is_idle or has_ended):
                continue
            if not await self._is_bound(session.kernel_id):
                await self._close_session(session, "was shut down because it was idle")

    async def _sweep_periodically(self) -> None:
        while self._sessions and not self._closing.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._sweep_every)
                return
            try:
                await self.sweep()
            except ToolError as error:
                logger.warning("A session kernel could not be shut down: %s", error.message)

    async def _close_idle(self, user: str) -> None:
        """Close the idle sessions of a user who needs files; without any, of the user with the most."""
        unused = [session for session in self if not session.using]
        idle = [each for each in unused if not await self._is_bound(each.kernel_id)]
        counts = Counter(session.user for session in idle)
        most = max(counts, key=lambda each: (each == user, counts[each]), default=user)
        for session in idle:
            if session.user == most:
                await self._close_session(session, NO_FILES)

    async def _close_session(self, session: PythonSession, event: str) -> None:
        if session.using or not self._remove(session):
            return
        # At once: the caller, who may be another one, may be cancelled.
        self._notify_owners(session, event)
        self.bridge.forget(session.id)
        await self._stop(session.kernel_id)

    def _remove(self, session: PythonSession) -> bool:
        """Remove a session; return False if it was removed before: its key may have another one."""
        if session.key is None or self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        return True

    async def _is_bound(self, kernel_id: str) -> bool:
        return bool(kernel_id and await self._bindings.paths_of(kernel_id))

    def _notify_owners(self, session: PythonSession, event: str) -> None:
        for owner in session.owners:
            self._notices.add(owner, Sentence("session_kernel", what=event))

    def _on_kernel_event(self, event: KernelEvent) -> None:
        if event.kind not in ("died", "restarted", "shutdown"):
            return
        for session in (*self._sessions.values(), *self._single):
            if session.kernel_id == event.kernel_id:
                session.died = session.died or event.kind == "died"
                session.stopped = event.kind == "shutdown"

    async def close(self) -> None:
        """Shut down the session kernels, which could not be found again after a restart.

        Those that are notebooks', too, are found by these.
        """
        if self._closing.is_set():
            return
        self._closing.set()
        self._unsubscribe()
        if self._sweeping is not None:
            await asyncio.wait({self._sweeping})
        await self.bridge.close()
        kernel_ids = [session.kernel_id for session in (*self, *self._single) if session.kernel_id]
        stopping = [asyncio.ensure_future(self._shut_down(kernel_id)) for kernel_id in kernel_ids]
        if stopping:
            await asyncio.wait(stopping, timeout=CLOSE_WITHIN)
        for task in stopping:
            task.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)


def names_session(path: str) -> bool:
    """Return whether a kernel that was started for this path is a session kernel."""
    return path.rpartition("/")[2].startswith(NO_NOTEBOOK)


def too_often() -> KernelDied:
    """Return the error for a session whose kernel crashes repeatedly."""
    return KernelDied(f"{TOO_OFTEN}.", hint="Set `reset` in the first cell to start a new kernel.")


def reset_in_progress() -> KernelBusy:
    """Return the error for a second reset."""
    return KernelBusy(
        "Another reset of this session is in progress.", hint="Wait until it ends, then try again."
    )


async def _start_python(
    kernels: Kernels, path: str, *, make_room: Callable[[], Awaitable[None]]
) -> str:
    """Start a Python kernel; retry once if too many files are open.

    Args:
        kernels: Starts the kernel.
        path: The path that the kernel is started for, relative to the root. It runs in its folder.
        make_room: Closes idle sessions, which have files open.

    Raises:
        KernelspecNotFound: No Python kernel is installed.
        KernelStartFailed: The start failed for another reason, or twice.
    """
    name = await _python_kernelspec(kernels)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await kernels.start(name, path=path)
        except (KernelStartFailed, OSError) as error:
            if not is_out_of_files(error):
                raise
            if attempt == ATTEMPTS:
                raise KernelStartFailed(f"The kernel could not be started: {error}") from error
            logger.warning("Too many open files: shutting down idle session kernels")
            await make_room()
    raise AssertionError("the last attempt returns or raises")


async def _python_kernelspec(kernels: Kernels) -> str:
    """Return the default kernelspec if its language is Python, else the first one that is."""
    specs = await kernels.kernelspecs()
    for spec in specs:  # The default one is first.
        if spec.language == "python":
            return spec.name
    known = ", ".join(spec.name for spec in specs) or "none"
    raise KernelspecNotFound(
        f"No Python kernel is installed (installed: {known}).", hint="Run `pip install ipykernel`."
    )
