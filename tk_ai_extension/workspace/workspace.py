"""The workspace: the services of a server that tool calls use, and the notebooks that callers connect."""

from __future__ import annotations

import builtins
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from tk_ai_extension.kernels.jupyter_sessions import JupyterSessions
from tk_ai_extension.kernels.kernel_info import KernelEvent
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.model.background_tasks import BackgroundTasks, run_to_completion
from tk_ai_extension.model.callers import Caller, CallerNotices
from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import (
    InvalidArguments,
    KernelNotFound,
    LimitReached,
    NotebookNotFound,
    NotebookNotOpen,
)
from tk_ai_extension.notebooks.browser_pages import Tab
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook import (
    KernelIncarnation,
    KernelIncarnations,
    Notebook,
    Notebooks,
)
from tk_ai_extension.notebooks.notebook_store import NotebookStore
from tk_ai_extension.workspace.activity import ActivityPublisher
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.display_updates import DisplayRegistry, DisplayUpdates
from tk_ai_extension.workspace.execution_service import ExecutionService
from tk_ai_extension.workspace.files import Files
from tk_ai_extension.workspace.journal import ChangesInProgress, Journal
from tk_ai_extension.workspace.permissions import PermissionPolicy
from tk_ai_extension.workspace.python_sessions import PythonSessions
from tk_ai_extension.workspace.runs import FairQueue, KernelQueries

MAX_CALLERS = 1_000
"""Maximum callers that are remembered; the least recently active one is evicted first."""
MAX_NOTEBOOKS = 100
"""Maximum connected notebooks of one caller."""


@dataclass(frozen=True, slots=True)
class ConnectedNotebook:
    """A notebook that a caller has connected (use_notebook).

    Attributes:
        caller: The identity of the caller.
        name: The caller's name for it.
        path: The path relative to the root.
        kernel_id: Its current kernel; None if that has ended.
        current: Whether it is the caller's current notebook.
    """

    caller: str
    name: str
    path: str
    kernel_id: str | None
    current: bool = False


@dataclass
class _CallerNotebooks:
    """The notebooks of one caller, in the order of connection.

    Attributes:
        names: The caller's name for each; None if that is its path. Deleted ones stay if they have kernels,
            which the caller may want to shut down.
    """

    caller: str
    names: dict[Notebook, str | None] = field(default_factory=dict[Notebook, str | None])
    current: Notebook | None = None

    def present(self) -> list[Notebook]:
        """Return the notebooks that were not deleted."""
        return [notebook for notebook in self.names if not notebook.is_deleted]

    def name_of(self, notebook: Notebook) -> str:
        return self.names[notebook] or notebook.path

    def find(self, notebook: str) -> Notebook | None:
        """Return the notebook with this name or path, or None."""
        present = self.present()
        named = (each for each in present if self.name_of(each) == notebook)
        return next(named, next((each for each in present if each.path == notebook), None))

    def find_deleted(self, path: str) -> Notebook | None:
        """Return the deleted notebook that was at a path and has a kernel, or None."""
        deleted = (each for each in reversed(self.names) if each.is_deleted and each.path == path)
        return next((each for each in deleted if each.kernel_id is not None), None)

    def managed(self, notebook: Notebook) -> ConnectedNotebook:
        name = notebook.path if notebook.is_deleted else self.name_of(notebook)
        is_current = notebook is self.current and not notebook.is_deleted
        return ConnectedNotebook(
            self.caller, name, notebook.path, notebook.kernel_id, current=is_current
        )


class ConnectedNotebooks:
    """Names and the current notebook of each caller.

    Names belong to one caller. A notebook's kernel is the same for all callers, so a replaced kernel
    is replaced for all callers. A caller without a key has no current notebook and no names, because
    sessions of the same user cannot be distinguished.

    Args:
        notebooks: The notebooks by path.
    """

    def __init__(self, notebooks: Notebooks) -> None:
        self._notebooks = notebooks
        self._callers: OrderedDict[str, _CallerNotebooks] = OrderedDict()

    def add(
        self, caller: Caller, name: str | None, path: str, kernel_id: str | None
    ) -> ConnectedNotebook:
        """Connect a notebook and make it the current one. Idempotent.

        Args:
            caller: The caller.
            name: The caller's name for it; None for its existing name, else the path.
            path: The path relative to the root.
            kernel_id: The notebook's kernel, which applies to every caller.

        Raises:
            InvalidArguments: Another notebook has the name, or it looks like a path.
            LimitReached: The caller has too many notebooks with a kernel. Otherwise, the oldest
                notebook without a kernel is disconnected.
        """
        name = self.checked_name(caller, name, path)
        connected = self._callers.get(caller.identity) or _CallerNotebooks(caller.identity)
        notebook = self._notebooks.at(path)
        if notebook not in connected.names:
            self._make_room(connected, path)
        connected.names[notebook] = None if name == path else name
        if caller.key is not None:
            connected.current = notebook
        notebook.kernel_id = kernel_id
        self._callers[caller.identity] = connected
        self._callers.move_to_end(caller.identity)
        while len(self._callers) > MAX_CALLERS:
            self._callers.popitem(last=False)
        return connected.managed(notebook)

    def checked_name(self, caller: Caller, name: str | None, path: str) -> str:
        """Return the name under which `add` would connect a notebook, without connecting it.

        Raises:
            InvalidArguments, LimitReached: See `add`.
        """
        connected = self._callers.get(caller.identity) or _CallerNotebooks(caller.identity)
        present = connected.present()
        known = next((each for each in present if each.path == path), None)
        if name is None and known is not None:
            name = connected.name_of(known)
        name = path if caller.key is None else name or path
        if name != path and ("/" in name or name.endswith(".ipynb")):
            raise InvalidArguments(
                f"`{name}` looks like a path.", hint=f"Choose a name for {path} without slashes."
            )
        taken = next((each for each in present if connected.name_of(each) == name), None)
        if taken is not None and taken is not known:
            raise InvalidArguments(
                f"`{name}` is already the name of {taken.path}.", hint="Choose another name."
            )
        if known is None and len(present) >= MAX_NOTEBOOKS and self._idle(connected) is None:
            raise LimitReached(
                f"You already have {len(present)} notebooks with kernels.",
                hint="Disconnect some: call unuse_notebook with shutdown_kernel.",
            )
        return name

    def current(self, caller: Caller) -> ConnectedNotebook | None:
        """Return the caller's current notebook, or None."""
        connected = self._notebooks_of(caller)
        if connected is None or connected.current is None or connected.current.is_deleted:
            return None
        return connected.managed(connected.current)

    def remove(self, caller: Caller, notebook: str) -> ConnectedNotebook:
        """Disconnect a notebook by name or path. If it was the current one, there is none afterwards.

        Raises:
            NotebookNotFound: The caller has not connected it.
        """
        connected = self._notebooks_of(caller)
        found = None
        names = ""
        if connected is not None:
            found = connected.find(notebook) or connected.find_deleted(notebook)
            names = ", ".join(map(connected.name_of, connected.present()))
        if connected is None or found is None:
            raise NotebookNotFound(
                f"You have not connected a notebook `{notebook}`.",
                hint=f"Connected: {names}." if names else "Connect it with use_notebook.",
            )
        managed = connected.managed(found)
        del connected.names[found]
        if connected.current is found:
            connected.current = None
        if not connected.names:
            del self._callers[caller.identity]
        return managed

    def list(self, caller: Caller) -> builtins.list[ConnectedNotebook]:
        """Return the caller's notebooks, in the order of connection."""
        connected = self._notebooks_of(caller)
        return [] if connected is None else [*map(connected.managed, connected.present())]

    def resolve(self, caller: Caller, notebook: str | None) -> ConnectedNotebook | None:
        """Return the connected notebook of this name or path, or None; for None, the current one.

        The path of a deleted notebook leads to its kernel until another notebook is connected there.
        """
        if notebook is None:
            return self.current(caller)
        connected = self._notebooks_of(caller)
        if connected is None:
            return None
        found = connected.find(notebook) or connected.find_deleted(notebook)
        return None if found is None else connected.managed(found)

    def connections(self, notebook: Notebook) -> builtins.list[ConnectedNotebook]:
        """Return the connections of all callers to a notebook, which may have been deleted."""
        return [
            connected.managed(notebook)
            for connected in self._callers.values()
            if notebook in connected.names
        ]

    def with_kernel(self, kernel_id: str) -> builtins.list[ConnectedNotebook]:
        """Return the notebooks of all callers that use a kernel."""
        return [
            connected.managed(notebook)
            for connected in self._callers.values()
            for notebook in connected.present()
            if notebook.kernel_id == kernel_id
        ]

    def users_of(self, path: str) -> set[str]:
        """Return the identities of the callers that have connected a notebook."""
        notebook = self._notebooks.find(path)
        return set() if notebook is None else {each.caller for each in self.connections(notebook)}

    def replace_kernel(self, old: str, new: str | None) -> set[str]:
        """Replace a kernel for all notebooks that use it.

        Args:
            old: The kernel that has ended.
            new: The new kernel; None if there is none.

        Returns:
            The identities of the affected callers.
        """
        concerned = {managed.caller for managed in self.with_kernel(old)}
        for notebook in self._notebooks:
            if notebook.kernel_id == old:
                notebook.kernel_id = new
        return concerned

    def forget(self, caller: Caller) -> None:
        """Disconnect all notebooks of a caller after its session has ended."""
        self._callers.pop(caller.identity, None)

    def _notebooks_of(self, caller: Caller) -> _CallerNotebooks | None:
        connected = self._callers.get(caller.identity)
        if connected is not None:
            self._callers.move_to_end(caller.identity)
        return connected

    def _idle(self, connected: _CallerNotebooks) -> Notebook | None:
        """Return the oldest notebook that can be evicted: not current, and without a kernel."""
        present = (each for each in connected.present() if each is not connected.current)
        return next((each for each in present if each.kernel_id is None), None)

    def _make_room(self, connected: _CallerNotebooks, path: str) -> None:
        """Disconnect the oldest idle notebook if the caller has too many, and deleted ones of a path."""
        if len(connected.present()) >= MAX_NOTEBOOKS:
            idle = self._idle(connected)
            assert idle is not None, "checked by `checked_name`"
            del connected.names[idle]
        deleted = [each for each in connected.names if each.is_deleted]
        for position, each in enumerate(reversed(deleted)):
            if each.path == path or each.kernel_id is None or position >= MAX_NOTEBOOKS:
                del connected.names[each]


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of one call.

    Attributes:
        answer_budget: Maximum characters of output in a result; longer output becomes an artifact.
        max_source: Maximum characters of a cell's source.
        max_wait: Maximum seconds that a call may wait.
    """

    answer_budget: int = 8_000
    max_source: int = 4_000_000
    max_wait: float = 3_600.0


@dataclass
class Workspace:
    """The services of one server, and operations that need several of them.

    A composition root builds it (the server extension or the headless server). Tools access
    everything through it.
    """

    store: NotebookStore
    kernels: KernelService
    sessions: JupyterSessions
    files: Files
    journal: Journal
    artifacts: Artifacts
    contain: Callable[[str], str]
    """Returns the path of a notebook relative to the root; raises PathRefused or InvalidArguments."""
    policy: PermissionPolicy = field(default_factory=PermissionPolicy)
    queue: FairQueue = field(default_factory=FairQueue)
    queries: KernelQueries = field(default_factory=KernelQueries)
    commits: ChangesInProgress = field(default_factory=ChangesInProgress)
    incarnations: KernelIncarnations = field(default_factory=KernelIncarnations)
    notices: CallerNotices = field(default_factory=CallerNotices)
    activity: ActivityPublisher = field(default_factory=ActivityPublisher)
    displays: DisplayRegistry = field(default_factory=DisplayRegistry)
    limits: CallLimits = CallLimits()
    notebooks: ConnectedNotebooks = field(init=False)
    executions: ExecutionService = field(init=False)
    python: PythonSessions = field(init=False)

    def __post_init__(self) -> None:
        self.notebooks = ConnectedNotebooks(self.by_path)
        self.executions = ExecutionService(
            self.kernels,
            self.queue,
            self.journal,
            self.by_path,
            self.activity,
            incarnations=self.incarnations,
            displays=self.displays,
            open_document=self.store.open,
            file_of=self.store.file_of,
        )
        self.python = PythonSessions(self.kernels, self.sessions, self.notices)
        self._unsubscribe = self.kernels.subscribe(self._on_kernel_event)
        self._tasks = BackgroundTasks(logging.getLogger(__name__))
        # For each kernel: updates by other clients' code to displays of cells that tools ran.
        self._foreign_updates: dict[str, DisplayUpdates] = {}
        self.on_forget: list[Callable[[Caller], None]] = []
        """Functions that are called with each caller after its session has ended."""

    # --- notebooks

    @property
    def by_path(self) -> Notebooks:
        """The notebooks by path."""
        return self.store.notebooks

    def path(self, caller: Caller, notebook: str | None, *, tool: str = "this tool") -> str:
        """Return the path of a notebook, given by name or path; None for the current one.

        Args:
            caller: The caller.
            notebook: A connected notebook's name, a path, or None.
            tool: The tool's name, for the error message.

        Raises:
            InvalidArguments: None is given, and the caller has no current notebook.
            PathRefused: The path is outside the root or hidden.
            InvalidArguments: The path does not end in ``.ipynb``.
        """
        managed = self.notebooks.resolve(caller, notebook)
        if managed is not None:
            return managed.path
        if notebook is None:
            raise InvalidArguments(
                f"No notebook connected. Use use_notebook first, or give `notebook` to {tool}.",
                hint="Call use_notebook first, or pass `notebook` in the call.",
            )
        return self.contain(notebook)

    async def open(
        self, caller: Caller, notebook: str | None, *, tool: str = "this tool"
    ) -> NotebookDocument:
        """Open a notebook, given as for `path`."""
        return await self.store.open(self.path(caller, notebook, tool=tool))

    def active_tab(self, caller: Caller) -> Tab:
        """Return the tab that the caller's user is looking at.

        Raises:
            NotebookNotOpen: No page of theirs has a notebook open.
        """
        tabs = self.store.pages.looked_at(caller.user)
        if not tabs:
            raise NotebookNotOpen("The person has no notebook open in JupyterLab.")
        return tabs[0]

    async def read(self, document: NotebookDocument) -> Snapshot:
        """Read a snapshot, and remember it so that an edited text can be merged against it."""
        snapshot = await document.read()
        self.by_path.at(document.path).revisions.remember(snapshot)
        return snapshot

    # --- kernels

    async def kernel_of(self, path: str) -> str | None:
        """Return the running kernel of a notebook, from its Jupyter session, or None."""
        running = set(self.kernels.ids())
        kernel_id = await self.sessions.kernel_of(path)
        return kernel_id if kernel_id in running else None

    async def kernel_for(
        self,
        path: str,
        *,
        kernel_name: str | None = None,
        kernel_id: str | None = None,
    ) -> tuple[str, bool]:
        """Return the notebook's kernel, and whether it was started by this call.

        Args:
            path: The notebook.
            kernel_name: The kernelspec of a new kernel; None for the notebook's.
            kernel_id: A running kernel to bind to the notebook.

        Raises:
            KernelNotFound: No kernel ``kernel_id`` is running.
            InvalidArguments: The kernelspec is not installed.
            KernelStartFailed: The kernel did not start.
            NotebookNotFound: There is no notebook, or it was deleted while its kernel started.
        """
        # The notebook may be renamed at any await: its path is read again for each use.
        notebook = self.by_path.at(path)
        async with notebook.starting:
            present = await self.kernel_of(notebook.path)
            if kernel_id is not None:
                if kernel_id not in self.kernels.ids():
                    raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
                if kernel_id != present:
                    await self.sessions.bind(notebook.path, kernel_id, replace=True)
                return kernel_id, False
            if present is not None:
                return present, False
            gone = notebook.kernel_id
            document = await self.store.open(notebook.path)
            name = kernel_name or (await document.read()).kernel_name
            started = await self.kernels.start(name, path=notebook.path)
            # Even if the caller is cancelled: the kernel has no other owner.
            bound = await run_to_completion(self._bind_started(notebook, started))
            if gone is not None:
                self._report_new_kernel(notebook, gone, bound)
            return bound, bound == started

    async def _bind_started(self, notebook: Notebook, started: str) -> str:
        """Bind a kernel that was started for a notebook; return the notebook's kernel."""
        if notebook.is_deleted:
            await self.kernels.shutdown(started)
            raise NotebookNotFound(f"{notebook.path} was deleted.")
        # A page may have started one in the meantime.
        bound = await self.sessions.bind(notebook.path, started)
        if bound != started:
            with suppress(KernelNotFound):
                await self.kernels.shutdown(started)
        return bound

    def _report_new_kernel(self, notebook: Notebook, gone: str, new: str) -> None:
        """Record that a notebook has another kernel, and notify the callers that have connected it."""
        if gone in self.kernels.ids():  # For example, it moved with the notebook to another name.
            notebook.kernel_id = new
            concerned = {each.caller for each in self.notebooks.connections(notebook)}
            what = "has a new kernel. Its former one belongs to another notebook."
            notice = f"{notebook.path} {what}"
        else:
            concerned = self.notebooks.replace_kernel(gone, new)
            what = "had died and was replaced. Its variables are lost."
            notice = f"The kernel of {notebook.path} {what}"
        for caller in concerned:
            self.notices.add(caller, notice)

    async def kernel_id(
        self, caller: Caller, notebook: str | None, kernel_id: str | None, *, tool: str
    ) -> str:
        """Return the id of a running kernel, given by id or by its notebook.

        Raises:
            KernelNotFound: No kernel of that id is running, or the notebook has no kernel.
            InvalidArguments: Neither is given, and the caller has no current notebook.
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

    async def renamed(self, old: str, new: str) -> None:
        """Follow the rename of a notebook or a folder; a former notebook at the new path is gone."""
        # No await in between: the next cell of a run finds the document at the new path.
        renamed, deleted = self.by_path.rename(old, new)
        await self._detach(deleted)
        for former, notebook in renamed.items():
            await self.sessions.move(former, notebook.path)
        await self.journal.renamed(old, new)

    async def deleted(self, path: str) -> None:
        """Follow the deletion of a notebook or a folder.

        Another notebook may get its name: pending work of this one is then not done there.
        """
        await self._detach(self.by_path.delete(path))
        await self.journal.deleted(path)

    async def replaced(self, path: str) -> None:
        """Forget the state about the content of a notebook that was replaced by another one.

        Callers that have connected the notebook keep it, and its kernel.
        """
        notebook = self.by_path.at(path)
        notebook.forget_content()
        self.policy.standing.forget_notebook(notebook)
        await self.journal.deleted(path)

    async def _detach(self, deleted: Sequence[Notebook]) -> None:
        """Withdraw requests about former paths, and notify callers that have connected deleted notebooks."""
        self.policy.withdraw_outdated()
        for managed in chain.from_iterable(map(self.notebooks.connections, deleted)):
            runs = managed.kernel_id in self.kernels.ids()
            ended = " Its kernel continues to run." if runs else ""
            self.notices.add(
                managed.caller, f"{managed.path} was deleted and is not connected any more.{ended}"
            )
        for notebook in deleted:
            await self.sessions.detach(notebook.path)

    def forget(self, caller: Caller) -> None:
        """Forget a caller after its session has ended. Its runs continue."""
        self.notebooks.forget(caller)
        for notebook in self.by_path:
            notebook.seen.forget(caller)
        self.policy.forget(caller)
        self.notices.forget(caller)
        for notify in self.on_forget:
            notify(caller)

    def _on_kernel_event(self, event: KernelEvent) -> None:
        if event.kind == "ran" and not event.ours:
            self._tasks.spawn(
                self._record_foreign_run(event, self.incarnations.of(event.kernel_id)),
                f"Finding the cell that ran in {event.kernel_id}",
            )
        elif event.kind == "display":
            updates = self._foreign_updates.get(event.kernel_id)
            if updates is None:
                updates = DisplayUpdates(self.displays, event.kernel_id, self.store.open)
                self._foreign_updates[event.kernel_id] = updates
            updates.add(event.display)
        elif event.kind in ("restarted", "died", "shutdown"):
            self._foreign_updates.pop(event.kernel_id, None)
            self.incarnations.end(event.kernel_id)
            self.displays.forget_kernel(event.kernel_id)
            self.python.on_kernel_end(event)
            happened = {
                "restarted": "was restarted",
                "died": "died",
                "shutdown": "was shut down",
            }[event.kind]
            for managed in self.notebooks.with_kernel(event.kernel_id):
                self.notices.add(
                    managed.caller,
                    f"The kernel of {managed.path} {happened}. Its variables are lost.",
                )
            if event.kind == "shutdown":
                # The callers were notified: the next kernel does not replace a dead one.
                self.notebooks.replace_kernel(event.kernel_id, None)

    async def _record_foreign_run(self, event: KernelEvent, incarnation: KernelIncarnation) -> None:
        """Find the cell that a person ran in a shared kernel, to update its state."""
        for path in await self.sessions.paths_of(event.kernel_id):
            snapshot = await (await self.store.open(path)).read()
            last_runs = self.by_path.at(path).last_runs
            last_runs.record_foreign(incarnation, snapshot, event.code)

    async def close(self) -> None:
        """Close all services. Kernels keep running; their owner shuts them down."""
        self._unsubscribe()
        for updates in self._foreign_updates.values():
            await updates.finish()
        await self._tasks.close()
        await self.executions.close()
        await self.python.close()
        await self.kernels.close()
        await self.store.close()
        await self.journal.close()
