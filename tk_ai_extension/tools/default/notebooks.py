"""Tools that list, create, connect and disconnect notebooks."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.kernels.kernel_info import find_kernelspec
from tk_ai_extension.model.cells import counted
from tk_ai_extension.model.errors import (
    InvalidArguments,
    InvalidNotebook,
    KernelNotFound,
    NotebookNotFound,
    ToolError,
)
from tk_ai_extension.tools.default.focus import PersonFocus, focus_in, person_focus
from tk_ai_extension.tools.edit_plans import CreationPlan
from tk_ai_extension.tools.parameter_types import CellKind, Notebook
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.files import FolderWalk
from tk_ai_extension.workspace.permission_requests import Effect
from tk_ai_extension.workspace.workspace import ConnectedNotebook

logger = logging.getLogger(__name__)


class NotebookEntry(BaseModel):
    """A notebook in a list."""

    notebook: str
    size: int | None = None
    cells: int | None = None
    kernel: str | None = None
    open_by: list[str] = Field(default_factory=list)
    in_jupyterlab: bool = False
    """Whether the caller's person has it open in JupyterLab."""


class NotebookList(Result):
    """The notebooks in a folder."""

    notebooks: list[NotebookEntry]
    more: int = 0
    focus: PersonFocus | None = None
    """What the person looks at; null if they have no notebook open."""

    def as_text(self) -> str:
        lines = [
            f"{n.notebook}  {_size(n.size)}"
            + (f", {counted(n.cells)}" if n.cells is not None else ", unreadable")
            + (f", kernel {n.kernel}" if n.kernel else "")
            + (f", used by {', '.join(n.open_by)}" if n.open_by else "")
            + (", open in JupyterLab" if n.in_jupyterlab else "")
            for n in self.notebooks
        ]
        if self.more:
            lines.append(f"[{self.more} more: use a larger limit or a narrower path]")
        lines = lines or ["No notebooks."]
        return "\n".join([*lines, self.focus.as_text()] if self.focus else lines)


def _size(size: int | None) -> str:
    if size is None:
        return "?"
    return f"{size:,} B" if size < 10_000 else f"{size / 1000:,.0f} kB"


@tool("READ", command="notebooks path")
async def list_notebooks(
    context: ToolContext,
    path: str = "",
    recursive: bool = True,
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
) -> NotebookList:
    """List notebooks in a folder: size, cells, kernel, users; and what the person looks at."""
    workspace = context.workspace
    walk = FolderWalk(workspace.files, path, recursive=recursive)
    found = [entry async for entry in walk if entry.kind == "notebook"]
    entries: list[NotebookEntry] = []
    opened = {tab.path for tab in workspace.store.pages.looked_at(context.caller.user)}
    for entry in found[:limit]:
        try:
            document = await workspace.store.open(entry.path)
            cells = len((await document.read()).cells)
        except ToolError:
            cells = None
        entries.append(
            NotebookEntry(
                notebook=entry.path,
                size=entry.size,
                cells=cells,
                kernel=await workspace.kernel_of(entry.path),
                open_by=sorted(
                    {
                        identity.split("\x1f")[0]
                        for identity in workspace.notebooks.users_of(entry.path)
                    }
                ),
                in_jupyterlab=entry.path in opened,
            )
        )
    focus = None
    with suppress(ToolError):
        focus = await person_focus(context)
    return NotebookList(
        notebooks=entries,
        more=max(len(found) - limit, 0),
        focus=focus,
        notices=walk.left_out,
    )


class NewCell(BaseModel):
    """A cell to create."""

    source: str
    cell_type: CellKind = "code"


class NotebookCreated(Result):
    """The notebook that was created."""

    notebook: str
    total_cells: int

    def as_text(self) -> str:
        return f"Created {self.notebook} with {counted(self.total_cells)}."


async def _create(context: ToolContext, plan: CreationPlan, tool: str) -> NotebookCreated:
    """Create the notebook."""
    created = await editing.create(
        context.workspace,
        context.caller,
        plan.path,
        plan.cells,
        tool=tool,
        kernelspec=plan.kernelspec,
    )
    return NotebookCreated(notebook=plan.path, total_cells=len(created.snapshot.cells))


@tool("WRITE", carry_out=_create, command="create notebook")
async def create_notebook(
    context: ToolContext,
    notebook: str,
    kernel_name: str | None = None,
    cells: list[NewCell] = [],  # noqa: B006 - the schema's default
) -> CreationPlan:
    """Create a notebook; fails if it exists."""
    new = tuple((cell.cell_type, cell.source) for cell in cells)
    return await _creation(context, context.workspace.contain(notebook), kernel_name, new)


async def _creation(
    context: ToolContext,
    path: str,
    kernel_name: str | None,
    cells: tuple[tuple[CellKind, str], ...] = (),
) -> CreationPlan:
    """Return the plan of a new notebook for a kernelspec, by default the server's default one.

    Raises:
        InvalidArguments: No kernelspec of that name is installed.
    """
    specs = await context.workspace.kernels.kernelspecs()
    if kernel_name is not None:
        spec = find_kernelspec(specs, kernel_name)
    else:
        spec = next((spec for spec in specs if spec.default), None)
    kernelspec = None
    if spec is not None:
        kernelspec = {
            "name": spec.name,
            "display_name": spec.display_name,
            "language": spec.language,
        }
    return CreationPlan(path, cells, kernelspec)


class NotebookUsed(Result):
    """The notebook that is now the caller's current one."""

    notebook: str
    name: str
    kernel_id: str
    kernel_name: str
    language: str = ""
    kernel: Literal["joined", "started", "kept"]
    total_cells: int
    ready_after: float
    """Seconds until the kernel answered."""
    has_session: bool = True
    focus: PersonFocus | None = None
    """What the person looks at, if it is this notebook."""

    def as_text(self) -> str:
        text = (
            f"Using {self.notebook} ({counted(self.total_cells)}); kernel {self.kernel_name} "
            f"{self.kernel_id[:8]} {self.kernel}, ready after {self.ready_after:.1f} s."
        )
        if not self.has_session:
            text += " Your connection has no session: pass `notebook` in each call."
        return f"{text}\n{self.focus.as_text()}" if self.focus else text


@tool("EXECUTE", idempotent=True, command="open notebook")
async def use_notebook(
    context: ToolContext,
    notebook: str,
    mode: Literal["connect", "create"] = "connect",
    name: str | None = None,
    kernel_id: str | None = None,
    kernel_name: str | None = None,
) -> NotebookUsed:
    """Make a notebook the current one and connect its kernel, the running one or a new one (call this
    first). `active`: what the person looks at. Mode `create` creates a missing notebook.
    """
    workspace, caller = context.workspace, context.caller
    managed = workspace.notebooks.resolve(caller, notebook)
    path = managed.path if managed else workspace.contain(notebook)
    specs = await workspace.kernels.kernelspecs()
    if kernel_name is not None:
        kernel_name = find_kernelspec(specs, kernel_name).name
    if kernel_id is not None and kernel_id not in workspace.kernels.ids():
        raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
    workspace.notebooks.checked_name(caller, name, path)
    if not await workspace.store.exists(path):
        if mode != "create":
            raise NotebookNotFound(
                f"Notebook {path} does not exist.",
                hint="Use mode `create`, or call list_notebooks to see the existing ones.",
            )
        creation = await _creation(context, path, kernel_name)
        if creation.kernelspec is None:
            # Fail before the notebook is created: there is no kernel to run it.
            raise InvalidArguments(
                "The server's default kernelspec is not installed.",
                hint="Pass kernel_name (see list_kernels). For Python: `pip install ipykernel`.",
            )
        await _create(context, creation, "use_notebook")
    document = await workspace.store.open(path)
    snapshot = await workspace.read(document)
    if snapshot.nbformat[0] != 4:
        raise InvalidNotebook(
            f"{path} has nbformat {snapshot.nbformat[0]}, which cannot be run or edited.",
            hint="Read it with read_notebook, or convert it: `jupyter nbconvert --to notebook`.",
        )
    began = time.monotonic()
    found, started = await workspace.kernel_for(
        document.path, kernel_name=kernel_name, kernel_id=kernel_id
    )
    if not started:
        await workspace.kernels.wait_ready(found)
        bound = await workspace.kernel_of(document.path)
        if bound is not None and bound != found:  # another kernel has just been chosen for it
            await workspace.kernels.wait_ready(found := bound)
    ready_after = time.monotonic() - began
    logger.info("Kernel '%s' is ready (took %.1fs)", found, ready_after)
    info = await workspace.kernels.info(found)
    # The notebook may have been renamed while its kernel started.
    used = workspace.notebooks.add(
        caller, document.path if name == path else name, document.path, found
    )
    kept = managed is not None and managed.kernel_id == found and kernel_id is None
    tabs = workspace.store.pages.looked_at(caller.user)
    is_active = bool(tabs) and tabs[0].path == document.path
    return NotebookUsed(
        notebook=used.path,
        name=used.name,
        kernel_id=found,
        kernel_name=info.name,
        language=info.language,
        kernel="started" if started else "kept" if kept else "joined",
        total_cells=len(snapshot.cells),
        ready_after=round(ready_after, 3),
        has_session=caller.key is not None,
        focus=focus_in(context, tabs[0], snapshot) if is_active else None,
    )


class NotebookDisconnected(Result):
    """The notebook that was disconnected."""

    notebook: str
    kernel: Literal["left running", "shut down", "none"]
    current: str | None = None

    def as_text(self) -> str:
        now = f" The current notebook is {self.current}." if self.current else ""
        return f"Disconnected {self.notebook}; kernel {self.kernel}.{now}"


def _disconnect_effect(arguments: BaseModel) -> Effect:
    return "EXECUTE" if getattr(arguments, "shutdown_kernel", False) else "WRITE"


@tool("WRITE", idempotent=True, effect_of=_disconnect_effect, command="unuse notebook")
async def unuse_notebook(
    context: ToolContext, notebook: Notebook = None, shutdown_kernel: bool = False
) -> NotebookDisconnected:
    """Disconnect a notebook. Its kernel keeps running unless `shutdown_kernel`."""
    workspace, caller = context.workspace, context.caller
    path = workspace.path(caller, notebook, tool="unuse_notebook")
    # Resolve the relative path: `notebook` may be absolute.
    managed = workspace.notebooks.resolve(caller, path)
    kernel: Literal["left running", "shut down", "none"] = "none"
    kernel_id = await workspace.kernel_of(path)
    if kernel_id is None and managed is not None:
        kernel_id = await _kernel_left_by(context, managed)
    # Callers without a key have no connected notebooks, but may shut down a kernel by its notebook.
    if managed is None and (kernel_id is None or (caller.key and not shutdown_kernel)):
        raise NotebookNotFound(
            f"You have not connected {path}.", hint="list_managed_notebooks shows those you have."
        )
    if kernel_id is not None:
        kernel = "left running"
        if shutdown_kernel:
            await workspace.kernels.shutdown(kernel_id)
            kernel = "shut down"
    if managed is not None:
        workspace.notebooks.remove(caller, managed.name)
    current = workspace.notebooks.current(caller)
    return NotebookDisconnected(
        notebook=path, kernel=kernel, current=current.path if current else None
    )


async def _kernel_left_by(context: ToolContext, managed: ConnectedNotebook) -> str | None:
    """Return the running kernel of a notebook that was deleted, unless another notebook has it."""
    sessions, kernel_id = context.workspace.sessions, managed.kernel_id
    if kernel_id not in context.workspace.kernels.ids() or await sessions.paths_of(kernel_id):
        return None
    return kernel_id


class ConnectedNotebookEntry(BaseModel):
    """A connected notebook."""

    name: str
    notebook: str
    kernel_id: str
    kernel_state: str
    current: bool


class ConnectedNotebookList(Result):
    """The caller's connected notebooks."""

    notebooks: list[ConnectedNotebookEntry]

    def as_text(self) -> str:
        return (
            "\n".join(
                f"{'*' if n.current else ' '} {n.notebook}"
                + (f" as {n.name}" if n.name != n.notebook else "")
                + f", kernel {n.kernel_id[:8]} {n.kernel_state}"
                for n in self.notebooks
            )
            or "No notebook connected. Use use_notebook first."
        )


@tool("READ", command="managed")
async def list_managed_notebooks(context: ToolContext) -> ConnectedNotebookList:
    """List the notebooks you connected and their kernels' states; `*` marks the current one."""
    workspace, caller = context.workspace, context.caller
    current = workspace.notebooks.current(caller)
    managed = workspace.notebooks.list(caller)
    states = await asyncio.gather(*(kernel_state(context, entry.kernel_id) for entry in managed))
    return ConnectedNotebookList(
        notebooks=[
            ConnectedNotebookEntry(
                name=entry.name,
                notebook=entry.path,
                kernel_id=entry.kernel_id or "",
                kernel_state=state,
                current=current is not None and current.name == entry.name,
            )
            for entry, state in zip(managed, states, strict=True)
        ]
    )


async def kernel_state(context: ToolContext, kernel_id: str | None) -> str:
    """Return a kernel's state in one word; ``gone`` if it no longer runs."""
    if kernel_id is None or kernel_id not in context.workspace.kernels.ids():
        return "gone"
    return (await context.workspace.kernels.info(kernel_id)).state
