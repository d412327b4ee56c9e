"""The one object that every tool call gets: the managers of this server, put together."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from tk_ai_extension.kernels.base import KernelEvent, Kernels, Sessions
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import KernelNotFound, NotebookRequired
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.notebooks.base import NotebookDocument, NotebookStore
from tk_ai_extension.workspace.activity import ActivityFeed
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.asking import AskingKernels
from tk_ai_extension.workspace.displays import DisplayRegistry, DisplayUpdates
from tk_ai_extension.workspace.executions import Executions
from tk_ai_extension.workspace.files import Files
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.notebook_manager import ManagedNotebook, NotebookManager
from tk_ai_extension.workspace.notices import Notices
from tk_ai_extension.workspace.permissions import PermissionPolicy
from tk_ai_extension.workspace.python_sessions import PythonSessions
from tk_ai_extension.workspace.queue import FairQueue
from tk_ai_extension.workspace.revisions import Revisions
from tk_ai_extension.workspace.seen import Seen
from tk_ai_extension.workspace.staleness import RunRecords
from tk_ai_extension.workspace.turn_credentials import TurnCredentials


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one call may ask for.

    Attributes:
        answer_budget: Characters of output that an answer shows before it points to an artifact.
        max_source: Characters of source that one cell may have.
        max_wait: Seconds that one call may wait.
    """

    answer_budget: int = 8_000
    max_source: int = 4_000_000
    max_wait: float = 3_600.0


@dataclass
class Workspace:
    """The managers of one server, and what needs several of them at once.

    A composition root builds it (the server extension, or the headless server); tools reach
    everything through it.
    """

    store: NotebookStore
    kernels: Kernels
    sessions: Sessions
    files: Files
    journal: Journal
    artifacts: Artifacts
    contain: Callable[[str], str]
    """The path below the root of what a caller named; raises PathRefused or NotANotebook."""
    policy: PermissionPolicy = field(default_factory=PermissionPolicy)
    notebooks: NotebookManager = field(default_factory=NotebookManager)
    queue: FairQueue = field(default_factory=FairQueue)
    seen: Seen = field(default_factory=Seen)
    revisions: Revisions = field(default_factory=Revisions)
    runs: RunRecords = field(default_factory=RunRecords)
    notices: Notices = field(default_factory=Notices)
    activity: ActivityFeed = field(default_factory=ActivityFeed)
    displays: DisplayRegistry = field(default_factory=DisplayRegistry)
    asking: AskingKernels = field(default_factory=AskingKernels)
    turns: TurnCredentials = field(default_factory=TurnCredentials)
    limits: Limits = Limits()
    executions: Executions = field(init=False)
    python: PythonSessions = field(init=False)

    def __post_init__(self) -> None:
        self.executions = Executions(
            self.kernels,
            self.queue,
            self.journal,
            self.runs,
            self.activity,
            displays=self.displays,
            open_document=self.store.open,
            asking=self.asking,
        )
        self.python = PythonSessions(self.kernels, self.sessions, self.notices)
        # Held by those who start a kernel just now, and by nobody afterwards.
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unsubscribe = self.kernels.subscribe(self._on_kernel_event)
        self._tasks = BackgroundTasks(logging.getLogger(__name__))
        # By kernel, the updates that others' code makes to displays of our cells.
        self._foreign_updates: dict[str, DisplayUpdates] = {}
        self.on_forget: list[Callable[[Caller], None]] = []
        """Called with each caller whose session is over."""

    # --- notebooks

    def path(self, caller: Caller, notebook: str | None, *, tool: str = "this tool") -> str:
        """The path of the notebook meant: a managed name, a path, or the current notebook.

        Raises:
            NotebookRequired: none was named and the caller has no current one.
            PathRefused, NotANotebook.
        """
        managed = self.notebooks.resolve(caller, notebook)
        if managed is not None:
            return managed.path
        if notebook is None:
            raise NotebookRequired(
                f"No notebook connected. Use use_notebook first, or give `notebook` to {tool}."
            )
        return self.contain(notebook)

    async def open(
        self, caller: Caller, notebook: str | None, *, tool: str = "this tool"
    ) -> NotebookDocument:
        """The document of the notebook meant, as `path` says it."""
        return await self.store.open(self.path(caller, notebook, tool=tool))

    async def read(self, document: NotebookDocument) -> Snapshot:
        """A snapshot, remembered so that a later write can be merged against it."""
        snapshot = await document.read()
        self.revisions.remember(snapshot)
        return snapshot

    # --- kernels

    async def kernel_of(self, path: str) -> str | None:
        """The running kernel of a notebook: of its Jupyter session, else the one bound here."""
        running = set(self.kernels.ids())
        kernel_id = await self.sessions.kernel_of(path)
        if kernel_id in running:
            return kernel_id
        kernel_id = self.notebooks.kernel_of(path)
        return kernel_id if kernel_id in running else None

    async def kernel_for(
        self,
        document: NotebookDocument,
        *,
        kernel_name: str | None = None,
        kernel_id: str | None = None,
    ) -> tuple[str, bool]:
        """The notebook's kernel, joined where it runs and else started; and whether it was started.

        Raises:
            KernelNotFound: ``kernel_id`` names none that runs.
            KernelspecNotFound, KernelStartFailed.
        """
        path = document.path
        async with self._starting.setdefault(path, asyncio.Lock()):
            present = await self.kernel_of(path)
            if kernel_id is not None:
                if kernel_id not in self.kernels.ids():
                    raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
                if kernel_id != present:
                    await self.sessions.bind(path, kernel_id)
                return kernel_id, False
            if present is not None:
                return present, False
            gone = self.notebooks.kernel_of(path)
            name = kernel_name or (await document.read()).kernel_name
            started = await self.kernels.start(name, path=path)
            await self.sessions.bind(path, started)
            if gone is not None:
                for caller in self.notebooks.replace_kernel(gone, started):
                    self.notices.add(
                        caller,
                        Sentence("kernel_replaced", path=path),
                    )
            return started, True

    async def kernel_id(
        self, caller: Caller, notebook: str | None, kernel_id: str | None, *, tool: str
    ) -> str:
        """The running kernel that a caller means, by its id or by a notebook.

        Raises:
            KernelNotFound: none of that id, or the notebook has none.
            NotebookRequired.
        """
        if kernel_id is not None:
            if kernel_id not in self.kernels.ids():
                raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
            return kernel_id
        path = self.path(caller, notebook, tool=tool)
        found = await self.kernel_of(path)
        if found is None:
            raise KernelNotFound(f"{path} has no running kernel.", hint="use_notebook starts one.")
        return found

    async def note_lost_run(self, caller: Caller, path: str) -> str | None:
        """Tell a caller where a server was stopped in the last run of a notebook.

        Its kernel goes on alone: nobody receives what it prints.

        Returns:
            The cell that the kernel still runs as far as is known; None for none.
        """
        if self.runs.of(path) or self.executions.active(path=path):
            return None  # something ran since
        kernel_id = await self.kernel_of(path)
        entries = await self.journal.history(path, 1, caller.user) if kernel_id else []
        if kernel_id is None or not entries:
            return None
        (last,) = entries
        if (last.kind, last.state) != ("run", "interrupted"):
            return None
        is_busy = (await self.kernels.info(kernel_id)).state == "busy"
        self.notices.add(
            caller,
            Sentence(
                "server_stopped_busy" if is_busy else "server_stopped",
                what=last.summary,
                path=path,
            ),
        )
        cells = re.findall(r"@([^\s,]+)", last.summary)
        return cells[0] if is_busy and len(cells) == 1 else None

    async def renamed(self, old: str, new: str) -> None:
        """A notebook (or a folder above some) has another path: all that is known of it follows."""
        self.notebooks.renamed(old, new)
        self.seen.renamed(old, new)
        self.revisions.renamed(old, new)
        self.runs.renamed(old, new)
        self.displays.renamed(old, new)
        self.policy.renamed(old, new)
        self.executions.renamed(old, new)
        self.activity.renamed(old, new)
        await self.journal.renamed(old, new)

    def forget(self, caller: Caller) -> None:
        """The caller's session is over: what concerns nobody else goes. Runs go on."""
        self.notebooks.forget(caller)
        self.seen.forget(caller)
        self.policy.forget(caller)
        self.notices.forget(caller)
        self.executions.forget(caller)
        for notify in self.on_forget:
            notify(caller)

    def _on_kernel_event(self, event: KernelEvent) -> None:
        if event.kind == "ran" and not event.ours:
            self._tasks.spawn(
                self._record_foreign_run(event), f"Finding the cell that ran in {event.kernel_id}"
            )
        elif event.kind == "display":
            updates = self._foreign_updates.get(event.kernel_id)
            if updates is None:
                updates = DisplayUpdates(self.displays, event.kernel_id, self.store.open)
                self._foreign_updates[event.kernel_id] = updates
            updates.add(event.display)
        elif event.kind in ("restarted", "died", "shutdown"):
            self._foreign_updates.pop(event.kernel_id, None)
            self.runs.forget_kernel(event.kernel_id)
            self.displays.forget_kernel(event.kernel_id)
            happened = {
                "restarted": "kernel_restarted",
                "died": "kernel_died",
                "shutdown": "kernel_shut_down",
            }[event.kind]
            for managed in self.notebooks.with_kernel(event.kernel_id):
                self.notices.add(
                    managed.caller,
                    Sentence(happened, path=managed.path),
                )
            if event.kind == "shutdown":
                # It was told: the next one is a new kernel, and takes no dead one's place.
                self.notebooks.replace_kernel(event.kernel_id, None)

    async def _record_foreign_run(self, event: KernelEvent) -> None:
        """A person ran something in a shared kernel: find the cell, so that its state is known."""
        for path in await self.sessions.paths_of(event.kernel_id):
            snapshot = await (await self.store.open(path)).read()
            self.runs.ran_elsewhere(event.kernel_id, snapshot, event.code)

    async def close(self) -> None:
        """Ends what runs here, and lets go of notebooks; kernels are left to their owner."""
        self._unsubscribe()
        for updates in self._foreign_updates.values():
            await updates.finish()
        await self._tasks.close()
        await self.executions.close()
        await self.python.close()
        await self.kernels.close()
        await self.store.close()
        await self.journal.close()


__all__ = ["Limits", "ManagedNotebook", "Workspace"]
