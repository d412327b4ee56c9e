"""Kernels that are kept for code alone: one for each session and folder, and only a few of them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from tk_ai_extension.kernels.base import KernelEvent, Kernels, Sessions
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    KernelBusy,
    KernelDied,
    KernelNotFound,
    KernelspecNotFound,
    KernelStartFailed,
    LimitReached,
    ToolError,
    is_out_of_files,
)
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.workspace.bridge import ToolBridge
from tk_ai_extension.workspace.notices import Notices

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""How often a kernel is started for which too many files are open."""
MAX_SESSIONS = 4
"""How many session kernels there are at most."""
MAX_SINGLE = 8
"""How many kernels there are at most that were started for one call each."""
IDLE_AFTER = 300.0
"""Seconds without use after which a session kernel is let go."""
SWEEP_EVERY = 30.0
"""Seconds between two looks for those."""
MAX_RESTARTS = 1
"""How often a session's kernel may crash and is replaced."""
CLOSE_WITHIN = 3.0
"""Seconds in which session kernels are shut down when all ends."""

HIDDEN = "."
"""How the name begins that a session's kernel is started for; no notebook's begins so."""
NO_FILES = "made room: too many files were open"
TOO_OFTEN = "Python kernel restarted too many times in this session"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """What a session kernel is found by.

    Attributes:
        user: Whose; another user's session of the same name is another one.
        name: The session: a caller's own, or one that several callers name.
        folder: Where its code runs, below the root; empty for the root.
    """

    user: str
    name: str
    folder: str = ""


@dataclass(eq=False)
class PythonSession:
    """A session and its kernel.

    Attributes:
        key: What it is found by; None for a kernel that is started for one call.
        folder: Where its code runs, below the root.
        id: Names it to the code that runs in it (``PI_TOOL_BRIDGE_SESSION``).
        kernel_id: Its kernel; empty until that is started.
        owners: Who has used it, by identity.
        died: Whether its kernel has crashed, and nothing was done about it yet.
        stopped: Whether somebody has shut its kernel down.
        restarts: How often its kernel crashed and was replaced.
        resetting: Whether a reset is in progress.
        apart: Whether its kernel runs in a sandbox or behind a gateway: neither the bridge nor the
            session's files are to be found there.
        using: How many runs use it or wait for it.
        used: When it was last used; seconds of the monotonic clock.
    """

    key: SessionKey | None
    folder: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    kernel_id: str = ""
    owners: dict[str, Caller] = field(default_factory=dict[str, Caller])
    died: bool = False
    stopped: bool = False
    restarts: int = 0
    resetting: bool = False
    apart: bool = False
    using: int = 0
    used: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class PythonSessions:
    """The session kernels of a workspace: started, found again, replaced, and let go in time.

    At the bound the one that was used least recently goes. One whose kernel somebody has bound to a
    notebook is that notebook's: it neither counts nor goes.

    Args:
        kernels: Starts and stops them.
        sessions: Says which kernels are notebooks'.
        notices: Where owners are told that variables are gone.
        max_sessions: The bound on session kernels.
        max_single: The bound on kernels for one call each.
        idle_after: Seconds without use after which one is let go.
        sweep_every: Seconds between two looks for those.
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
        """By which code in these kernels calls the tools."""
        self._kernels = kernels
        self._bindings = sessions
        self._notices = notices
        self._max = max_sessions
        self._max_single = max_single
        self._idle_after = idle_after
        self._sweep_every = sweep_every
        # The least recently used first.
        self._sessions: dict[SessionKey, PythonSession] = {}
        self._single: set[PythonSession] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._unsubscribe = kernels.subscribe(self._on_kernel_event)

    def __iter__(self) -> Iterator[PythonSession]:
        """The sessions, the least recently used first."""
        return iter(list(self._sessions.values()))

    # -- using

    async def acquire(self, key: SessionKey, caller: Caller) -> PythonSession:
        """A session with a kernel that runs, for one run; give it back with `release`.

        Raises:
            LimitReached: all session kernels run something.
            KernelspecNotFound, KernelStartFailed.
        """
        bound = {session for session in self if await self._is_bound(session)}
        session, victim = self._sessions.pop(key, None), None
        if session is None:
            session, victim = PythonSession(key, key.folder), self._victim(bound)
        self._sessions[key] = session
        session.owners[caller.identity] = caller
        session.using += 1
        try:
            if victim is not None:
                await self._let_go(victim, "made room for another session's")
            async with session.lock:
                if not session.kernel_id:
                    session.kernel_id = await self._start(session)
        except BaseException:
            self.release(session)
            if not session.kernel_id and not session.using:
                self._sessions.pop(key, None)
            raise
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep_now_and_then())
        return session

    def release(self, session: PythonSession) -> None:
        """A run that used it is over."""
        session.using -= 1
        session.used = time.monotonic()

    async def single(self, folder: str) -> PythonSession:
        """A kernel for one call; `discard` ends it.

        Raises:
            LimitReached, KernelspecNotFound, KernelStartFailed.
        """
        if len(self._single) >= self._max_single:
            raise LimitReached(f"{self._max_single} calls have a kernel of their own already.")
        session = PythonSession(None, folder)
        self._single.add(session)
        try:
            session.kernel_id = await self._start(session)
        except BaseException:
            self._single.discard(session)
            raise
        return session

    async def discard(self, session: PythonSession) -> None:
        """Shuts the kernel of one call down."""
        self._single.discard(session)
        self.bridge.forget(session.id)
        await self._stop(session.kernel_id)

    def resetting(self, key: SessionKey) -> bool:
        """Whether this session is being reset just now."""
        return key in self._sessions and self._sessions[key].resetting

    # -- what a session's kernel needs

    async def reset(self, session: PythonSession) -> None:
        """Gives the session a new kernel, whatever became of the one before.

        Raises:
            KernelBusy: another reset is in progress.
            KernelStartFailed.
        """
        if session.resetting:
            raise reset_in_progress()
        session.resetting = True
        try:
            await self._restart(session)
            session.restarts = 0
        finally:
            session.resetting = False

    async def revive(self, session: PythonSession) -> None:
        """Has a kernel that runs and answers, in place of one that crashed or was shut down.

        Raises:
            KernelDied: it crashed too often.
            KernelStartFailed.
        """
        if session.died:
            if session.restarts >= MAX_RESTARTS:
                raise too_often()
            session.restarts += 1
            self._tell(session, "crashed and was replaced")
        elif session.kernel_id in self._kernels.ids():
            return
        else:
            self._tell(session, "was shut down and is replaced")
        # jupyter_client starts a kernel that crashed again; where it does not, a new one is started.
        await self._answering(session)

    async def replace_stuck(self, session: PythonSession) -> None:
        """Kills a kernel that ignores an interrupt; there is a new one in its place."""
        if session.key is None:
            await self._stop(session.kernel_id)
            return
        await self._restart(session)
        self._tell(session, "ignored the interrupt, was killed and replaced")

    # -- starting and stopping

    async def _start(self, session: PythonSession) -> str:
        """Starts a Python kernel in the session's folder."""
        # A name that nothing has: the kernel's folder is the one that it would be in.
        path = f"{session.folder}/{HIDDEN}{session.id}".lstrip("/")
        kernel_id = await _start_python(
            self._kernels, path, make_room=partial(self._let_go_of_idle, NO_FILES)
        )
        session.died = session.stopped = False
        info = await self._kernels.info(kernel_id)
        session.apart = info.sandboxed or info.remote
        return kernel_id

    async def _restart(self, session: PythonSession) -> None:
        if session.kernel_id in self._kernels.ids():
            with suppress(KernelNotFound, KernelStartFailed, KernelDied, KernelBusy):
                await self._kernels.restart(session.kernel_id)
                session.died = session.stopped = False
                return
        await self._start_anew(session)

    async def _answering(self, session: PythonSession) -> None:
        with suppress(KernelNotFound, KernelStartFailed):
            await self._kernels.wait_ready(session.kernel_id)
            session.died = session.stopped = False
            return
        await self._start_anew(session)

    async def _start_anew(self, session: PythonSession) -> None:
        await self._stop(session.kernel_id)
        session.kernel_id = await self._start(session)

    async def _stop(self, kernel_id: str) -> None:
        self.bridge.revoke(kernel_id)
        with suppress(KernelNotFound):
            if kernel_id in self._kernels.ids():
                await self._kernels.shutdown(kernel_id)

    # -- letting go

    def _victim(self, bound: set[PythonSession]) -> PythonSession | None:
        """The session that goes so that there is room for one more; None where there is room.

        Raises:
            LimitReached: all run something.
        """
        counted = [session for session in self if session not in bound]
        if len(counted) < self._max:
            return None
        for session in counted:
            if not session.using:
                return session
        raise LimitReached(f"{self._max} session kernels run something already.")

    async def sweep(self) -> None:
        """Lets go of sessions that nobody has used for a while, and of those whose kernel is gone."""
        now = time.monotonic()
        for session in self:
            is_idle = now - session.used >= self._idle_after
            gone = session.kernel_id not in self._kernels.ids()
            if not session.using and (is_idle or gone) and not await self._is_bound(session):
                await self._let_go(session, "was let go, since nobody used it")

    async def _sweep_now_and_then(self) -> None:
        while self._sessions and not self._closing.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._sweep_every)
                return
            try:
                await self.sweep()
            except ToolError as error:
                logger.warning("A session kernel could not be let go: %s", error.message)

    async def _let_go_of_idle(self, why: str) -> None:
        for session in self:
            if not session.using and not await self._is_bound(session):
                await self._let_go(session, why)

    async def _let_go(self, session: PythonSession, why: str) -> None:
        if session.key is None or session.using:
            return
        self._sessions.pop(session.key, None)
        self.bridge.forget(session.id)
        await self._stop(session.kernel_id)
        self._tell(session, why)

    async def _is_bound(self, session: PythonSession) -> bool:
        return bool(session.kernel_id and await self._bindings.paths_of(session.kernel_id))

    def _tell(self, session: PythonSession, what: str) -> None:
        for owner in session.owners:
            self._notices.add(owner, Sentence("session_kernel", what=what))

    def _on_kernel_event(self, event: KernelEvent) -> None:
        if event.kind not in ("died", "restarted", "shutdown"):
            return
        for session in (*self._sessions.values(), *self._single):
            if session.kernel_id == event.kernel_id:
                session.died = session.died or event.kind == "died"
                session.stopped = event.kind == "shutdown"

    async def close(self) -> None:
        """Shuts the session kernels down: nobody would find them again."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._unsubscribe()
        if self._sweeping is not None:
            await asyncio.wait({self._sweeping})
        await self.bridge.close()
        kernel_ids = [session.kernel_id for session in (*self, *self._single) if session.kernel_id]
        stopping = [asyncio.ensure_future(self._stop(kernel_id)) for kernel_id in kernel_ids]
        if stopping:
            await asyncio.wait(stopping, timeout=CLOSE_WITHIN)
        for task in stopping:
            task.cancel()
        await asyncio.gather(*stopping, return_exceptions=True)


def names_session(path: str) -> bool:
    """Whether this is what a session's kernel was started for; not so where it was a notebook."""
    return path.rpartition("/")[2].startswith(HIDDEN)


def too_often() -> KernelDied:
    """The refusal of a session whose kernel crashes again and again."""
    return KernelDied(
        f"{TOO_OFTEN}.",
        hint="A first cell with `reset` begins the session anew, with a new kernel.",
    )


def reset_in_progress() -> KernelBusy:
    """The refusal of a second reset."""
    return KernelBusy(
        "Another reset of this session is in progress.", hint="Wait until it is done, then run."
    )


async def _start_python(
    kernels: Kernels, path: str, *, make_room: Callable[[], Awaitable[None]]
) -> str:
    """Starts a Python kernel, and once more where too many files were open.

    Args:
        kernels: Starts it.
        path: What it is started for, below the root: it runs in the folder of that.
        make_room: Lets go of what has files open and is not needed.

    Raises:
        KernelspecNotFound: no Python kernel is installed.
        KernelStartFailed: the start failed for another reason, or twice.
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
            logger.warning("Too many open files: idle session kernels are let go")
            await make_room()
    raise AssertionError("the last attempt returns or raises")


async def _python_kernelspec(kernels: Kernels) -> str:
    """The default kernelspec, if it is Python's, else the first that is."""
    specs = await kernels.kernelspecs()
    for spec in specs:  # the default one first
        if spec.language == "python":
            return spec.name
    known = ", ".join(spec.name for spec in specs) or "none"
    raise KernelspecNotFound(f"No Python kernel is installed (there are: {known}).")
