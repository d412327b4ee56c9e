"""All errors that tools raise, in one class hierarchy.

An error has a stable ``code``, a message, a ``hint`` that says what to do next, and a flag that says
whether a retry can succeed. Every interface (MCP, REST, command line, chat) shows the same four.
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


class ToolError(Exception):
    """Base class: a call failed, and the message and the hint say how to continue.

    >>> print(ToolError("The table has 5,000,000 rows.", hint="Select fewer.", rows=5_000_000).as_text())
    Error [tool_error]: The table has 5,000,000 rows.
    Select fewer.

    Args:
        message: One sentence that says what happened.
        hint: What to do next; by default the hint of the class.
        details: JSON values for programs, for example the current source in a `Conflict`.
    """

    code: ClassVar[str] = "tool_error"
    status: ClassVar[int] = 400
    """The HTTP status of a REST response."""
    retryable: ClassVar[bool] = False
    """Whether the same call can succeed later."""
    default_hint: ClassVar[str] = "Check the arguments and try again."

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.details = details

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON: code, message, hint, retryable, and details if there are any."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }
        if self.details:
            error["details"] = self.details
        return error

    def as_text(self) -> str:
        """Return the error as text for a person or a model."""
        return f"Error [{self.code}]: {self.message}\n{self.hint}"


# --- the call itself


class InvalidArguments(ToolError):
    """An argument is missing, of the wrong type, or out of its range."""

    code = "invalid_arguments"
    default_hint = "See the tool's input schema for names, types and ranges."


class UnknownTool(ToolError):
    """The chosen toolsets have no tool of that name."""

    code = "unknown_tool"
    status = 404
    default_hint = "List the tools to see their names."


class NotFound(ToolError):
    """The user has no execution, artifact, permission request or variable of that name or id."""

    code = "not_found"
    status = 404
    default_hint = "It may have expired. List what there is, or create it again."


class LimitReached(ToolError):
    """The limit of a resource is reached (queue, artifacts, sessions)."""

    code = "limit_reached"
    status = 429
    retryable = True
    default_hint = "Wait, or close something that you no longer need, then try again."


def is_out_of_files(error: BaseException | None) -> bool:
    """Return whether an error or one of its causes is the limit of open files (EMFILE or ENFILE)."""
    while error is not None:
        number = getattr(error, "errno", None)
        if number in (errno.EMFILE, errno.ENFILE) or "Too many open files" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


class InternalError(ToolError):
    """A bug in this package. The server's log has the traceback."""

    code = "internal_error"
    status = 500
    default_hint = "This is a bug: report it with the traceback in the server's log."


# --- notebooks and files


class NotebookNotFound(ToolError):
    """There is no notebook at that path or of that name."""

    code = "notebook_not_found"
    status = 404
    default_hint = "Call list_notebooks to find it, or create_notebook to create it."


class NotebookExists(ToolError):
    """A new notebook would overwrite an existing one."""

    code = "notebook_exists"
    status = 409
    default_hint = "Choose another path, or call use_notebook to work in the existing one."


class InvalidNotebook(ToolError):
    """The file is not a notebook that can be edited without loss. It was not changed."""

    code = "invalid_notebook"
    status = 422
    default_hint = "Fix the file at the location given, or restore it from a checkpoint."


class PathRefused(ToolError):
    """A path is outside the root, hidden, or invalid."""

    code = "path_refused"
    status = 403
    default_hint = "Use a path inside the server's root, without hidden files or folders."


class FileMissing(ToolError):
    """There is no file at that path."""

    code = "file_not_found"
    status = 404
    default_hint = "Call list_files to find it."


class NotReadable(ToolError):
    """The path is a folder or a file that is not text."""

    code = "not_readable"
    default_hint = "Only text files can be read. To list a folder, call list_files."


class ReadOnly(ToolError):
    """The file or its folder is read-only."""

    code = "read_only"
    status = 403
    default_hint = "Change its permissions, or work in a copy."


class DiskFull(ToolError):
    """The disk is full. The old content is intact."""

    code = "disk_full"
    status = 507
    default_hint = "Nothing was changed. Free some disk space, then try again."


class SaveFailed(ToolError):
    """Saving failed for another reason. The old content is intact."""

    code = "save_failed"
    status = 500
    retryable = True
    default_hint = "Nothing was changed on disk. Fix the cause in the message, then try again."


class StateUnavailable(ToolError):
    """The folder of the journal and the chats is not writable, or its file system has no locks."""

    code = "state_unavailable"
    status = 503
    default_hint = (
        "Make that folder writable, on a file system with locks, or set another one: "
        "TkAIExtensionApp.data_dir for a server, JUPYTER_DATA_DIR for nb. Reading still works."
    )


class CellNotFound(ToolError):
    """The notebook has no cell at that address."""

    code = "cell_not_found"
    status = 404
    default_hint = "Call list_cells to see the cells and their ids."


class Conflict(ToolError):
    """The cell changed since the caller read it, or the caller never read it. Nothing was changed.

    Details: ``cells``, each with ``cell``, versioned ``address`` and current ``source`` (None if it was
    deleted). If a text was written back, ``yours`` is the source in it (None if it omits the cell).
    """

    code = "conflict"
    status = 409
    default_hint = (
        "Nothing was changed. The current source is below and counts as read. "
        "Review it, then try again."
    )

    def as_text(self) -> str:
        """Return the error with the current and, if known, the caller's source of each cell."""
        return "\n".join([super().as_text(), *map(_versions, self.details.get("cells", ()))])


def _versions(cell: dict[str, Any]) -> str:
    """Return the current source of a cell and, if a text was written back, the source in the text."""
    now = f"# %% @{cell['address']}\n{cell['source']}"
    if cell["source"] is None:
        now = f"# %% {cell['cell']} was deleted"
    if "yours" not in cell:
        return now
    return f"{now}\n# yours: " + (f"\n{cell['yours']}" if cell["yours"] is not None else "deleted")


class NothingToUndo(ToolError):
    """The caller has made no change that can be undone."""

    code = "nothing_to_undo"
    status = 409
    default_hint = "Call notebook_history to see who changed what."


class ConflictingTabs(ToolError):
    """Two tabs of JupyterLab have conflicting unsaved changes of one notebook."""

    code = "open_twice"
    status = 409
    default_hint = "Save or close the notebook in one of the tabs, then try again."


class NotebookNotOpen(ToolError):
    """The person has no notebook open in JupyterLab, or not this one."""

    code = "not_open"
    status = 409
    default_hint = "Ask them to open a notebook there, or name one: list_notebooks lists them."


class TabOffline(ToolError):
    """A JupyterLab tab with the notebook keeps disconnecting, or does not answer. Nothing was changed."""

    code = "tab_offline"
    status = 503
    retryable = True
    default_hint = "Try again in a few seconds."


# --- kernels and executions


class KernelNotFound(ToolError):
    """No kernel of that id is running, or the notebook has no kernel."""

    code = "kernel_not_found"
    status = 404
    default_hint = "Call list_running_kernels, or use_notebook to start one."


class KernelStartFailed(ToolError):
    """The kernel did not start in time and was shut down, unless the hint says that it still runs."""

    code = "kernel_start_failed"
    status = 502
    retryable = True
    default_hint = "The message has the kernel's error output. Fix the cause, then try again."


class KernelBusy(ToolError):
    """The kernel is running code, and the tool does not wait for it."""

    code = "kernel_busy"
    status = 409
    retryable = True
    default_hint = "Wait for the running cell (wait_execution), or interrupt it (interrupt_kernel)."


class KernelDied(ToolError):
    """The kernel died during the call."""

    code = "kernel_died"
    status = 502
    default_hint = "Its variables are lost. Run the cells again from the top."


class KernelUnsupported(ToolError):
    """The tool is not for this kernel's language, or no sandbox can hold the kernel."""

    code = "kernel_unsupported"
    status = 501
    default_hint = "Use a Python kernel, or start the kernel without a sandbox."


class GatewayUnavailable(ToolError):
    """The gateway that runs this server's kernels does not answer, or rejects the request."""

    code = "gateway_unavailable"
    status = 502
    retryable = True
    default_hint = (
        "Nothing was run. Check that the gateway is running and that GatewayClient.url is its "
        "address, then try again."
    )


# --- permission


class PermissionDenied(ToolError):
    """The permission mode does not allow this call, or a person denied it."""

    code = "permission_denied"
    status = 403
    default_hint = "Continue without it, or ask the user to change the permission mode."


class PermissionRequired(ToolError):
    """A person must approve the call first; ``details["permission_id"]`` names the request."""

    code = "permission_required"
    status = 403
    default_hint = "Ask the user to answer the request in the panel, then call again unchanged."


class ApprovalOutdated(ToolError):
    """The proposal changed after each approval, before it could be executed."""

    code = "approval_outdated"
    status = 409
    retryable = True
    default_hint = "Nothing was changed. Repeat the call, which asks the user again."


def save_error(error: OSError, path: str) -> ToolError:
    """Return the typed error for a failure to write ``path``."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFull(f"{path} cannot be saved: {reason}.")
    if error.errno in _REFUSED:
        return ReadOnly(f"{path} cannot be written: {reason}.")
    if error.errno == errno.ENOENT:
        return NotebookNotFound(f"{path} is gone.")
    return SaveFailed(f"{path} cannot be saved: {reason}.")
