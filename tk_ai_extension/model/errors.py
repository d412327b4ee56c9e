"""Every error that a user of the tools can meet, in one tree.

An error has a stable ``code``, a sentence, whether trying again can help, and a ``hint`` that says
what to do next. Every face (MCP, REST, command line, chat) shows the same four things.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from tk_ai_extension.model.operations import Change


class ToolError(Exception):
    """Something the caller asked for that cannot be done, said so that the caller can go on.

    Args:
        message: One sentence that names the thing that is wrong.
        hint: What to do next; the class's own hint where left out.
        details: Facts for a program (JSON values), for example the present source in a `Conflict`.
    """

    code: ClassVar[str] = "tool_error"
    status: ClassVar[int] = 400
    """The HTTP status of the REST face."""
    retryable: ClassVar[bool] = False
    """Whether the same call can succeed later without anything being changed."""
    default_hint: ClassVar[str] = "Check the arguments and try again."

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.details = details

    def as_dict(self) -> dict[str, Any]:
        """The error as JSON: code, message, hint, retryable, and the details if there are any."""
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
        """The error as a person or a model reads it."""
        return f"Error [{self.code}]: {self.message}\n{self.hint}"


# --- the call itself


class InvalidArguments(ToolError):
    """An argument is missing, of the wrong type, or out of its range."""

    code = "invalid_arguments"
    default_hint = "See the tool's input schema for names, types and ranges."


class UnknownTool(ToolError):
    """No tool of that name in the chosen toolsets."""

    code = "unknown_tool"
    status = 404
    default_hint = "List the tools for the names that exist."


class LimitReached(ToolError):
    """A bound on a resource is reached (queue, artifacts, sessions)."""

    code = "limit_reached"
    status = 429
    retryable = True
    default_hint = "Wait until something ends, or let go of something, then try again."


class TooManyOpenFiles(ToolError):
    """The process, or the system, has as many files and sockets open as it may."""

    code = "too_many_open_files"
    status = 503
    retryable = True
    default_hint = (
        "Shut down kernels that nobody needs, or start the server with a higher `ulimit -n`."
    )


def is_out_of_files(error: BaseException | None) -> bool:
    """Whether this error, or what caused it, is the limit of open files of the process or the system."""
    while error is not None:
        number = getattr(error, "errno", None)
        if number in (errno.EMFILE, errno.ENFILE) or "Too many open files" in str(error):
            return True
        error = error.__cause__
    return False


class InternalError(ToolError):
    """A defect of ours; the server's log has the traceback."""

    code = "internal_error"
    status = 500
    default_hint = "This is a defect: the server's log has the traceback. Nothing more is known."


# --- notebooks and files


class NotebookRequired(ToolError):
    """A tool that needs a notebook was called without one, and the caller has no current one."""

    code = "notebook_required"
    status = 409
    default_hint = "Call use_notebook first, or name the notebook in the call (`notebook`)."


class NotebookNotFound(ToolError):
    """No notebook at that path or of that name."""

    code = "notebook_not_found"
    status = 404
    default_hint = "Call list_notebooks for those that exist, or create_notebook to make one."


class NotebookExists(ToolError):
    """A new notebook would overwrite an existing one."""

    code = "notebook_exists"
    status = 409
    default_hint = "Choose another path, or use_notebook to work in the existing one."


class NotANotebook(ToolError):
    """The path names a folder or a file that is not a notebook."""

    code = "not_a_notebook"
    default_hint = "Name a file that ends in .ipynb; read_file reads other text files."


class InvalidNotebook(ToolError):
    """The file is not a notebook that can be edited without loss; it is left untouched."""

    code = "invalid_notebook"
    status = 422
    default_hint = "Mend the file at the place named, or restore it from a checkpoint."


class CollaborationUnsupported(ToolError):
    """The notebook may have a room of a jupyter-collaboration that cannot be worked with."""

    code = "collaboration_unsupported"
    status = 409
    default_hint = "Close the notebook in every browser, or install a version that is supported."


class OpenElsewhere(ToolError):
    """Another Jupyter Server has the notebook (``details``: ``server``, and ``arguments`` for a call)."""

    code = "notebook_open_elsewhere"
    status = 409
    retryable = True
    default_hint = "Work on it through that server, or close it there first."


class UnsupportedFormat(ToolError):
    """The notebook's format can be read but not written (nbformat 1 to 3)."""

    code = "unsupported_format"
    status = 422
    default_hint = "Convert it first: jupyter nbconvert --to notebook --nbformat 4 FILE."


class PathRefused(ToolError):
    """A path leaves the root, is hidden, or is no path."""

    code = "path_refused"
    status = 403
    default_hint = "Use a path below the server's root, without hidden parts."


class FileMissing(ToolError):
    """No file at that path."""

    code = "file_not_found"
    status = 404
    default_hint = "Call list_files for those that exist."


class NotReadable(ToolError):
    """The file is a folder, is binary, or is not text."""

    code = "not_readable"
    default_hint = "Only text files are read; list_files shows what is in a folder."


class ReadOnly(ToolError):
    """The file or its folder may not be written."""

    code = "read_only"
    status = 403
    default_hint = "Change its permissions, or work in a copy."


class DiskFull(ToolError):
    """There is no room to save; the old content is intact."""

    code = "disk_full"
    status = 507
    default_hint = "Free some space, then try again. Nothing was changed."


class SaveFailed(ToolError):
    """Saving failed for another reason; the old content is intact."""

    code = "save_failed"
    status = 500
    retryable = True
    default_hint = "Nothing was changed on disk; the message says why."


class StateUnavailable(ToolError):
    """The folder of the journal and the chats cannot be used: not writable, or without file locks."""

    code = "state_unavailable"
    status = 503
    default_hint = (
        "Make that folder writable and put it on a file system with locks, or name another one: "
        "TkAIExtensionApp.data_dir for a server, JUPYTER_DATA_DIR for nb. Reading goes on meanwhile."
    )


class StateTooNew(ToolError):
    """The journal or the chats were written by a newer version, which this one does not read."""

    code = "state_too_new"
    status = 409
    default_hint = (
        "Upgrade tk-ai-extension here too, or name another folder for this version: "
        "TkAIExtensionApp.data_dir for a server, JUPYTER_DATA_DIR for nb. The file was not changed."
    )


class CellNotFound(ToolError):
    """No cell at that address."""

    code = "cell_not_found"
    status = 404
    default_hint = "Call list_cells for the cells and their ids."


class AmbiguousCell(ToolError):
    """A prefix names more than one cell."""

    code = "ambiguous_cell"
    status = 409
    default_hint = "Give more characters of the id, or the index."


class Conflict(ToolError):
    """The cell is not as the caller saw it, or was never seen. Nothing was changed.

    Details: ``cells``, each with ``cell``, ``address`` (versioned) and ``source`` as they are now
    (None where others deleted it). Where a text was written back, ``yours`` is the source in it
    (None where it leaves the cell out).
    """

    code = "conflict"
    status = 409
    default_hint = (
        "Nothing was changed. The present source is given here and counts as seen: "
        "decide on it, then try again."
    )

    def as_text(self) -> str:
        """The error with the present source of each cell concerned, and the caller's beside it."""
        return "\n".join([super().as_text(), *map(_both, self.details.get("cells", ()))])


def _both(cell: dict[str, Any]) -> str:
    """A cell as it is now and, where a text was written back, as the text has it."""
    now = f"# %% @{cell['address']}\n{cell['source']}"
    if cell["source"] is None:
        now = f"# %% {cell['cell']} was deleted"
    if "yours" not in cell:
        return now
    return f"{now}\n# yours: " + (f"\n{cell['yours']}" if cell["yours"] is not None else "deleted")


class InvalidText(ToolError):
    """The cell-marked text cannot be read."""

    code = "invalid_text"
    default_hint = "The text starts with a marker line such as `# %% [code]`; see read_notebook."


class NothingToUndo(ToolError):
    """The caller has made no change that can be taken back."""

    code = "nothing_to_undo"
    status = 409
    default_hint = "notebook_history shows who changed what."


class ArtifactNotFound(ToolError):
    """No such artifact for this user."""

    code = "artifact_not_found"
    status = 404
    default_hint = "Artifacts are kept for a limited time; run the cell again to make it anew."


class OpenTwice(ToolError):
    """Two tabs of JupyterLab have unsaved changes of one notebook: neither is the truth."""

    code = "open_twice"
    status = 409
    default_hint = "Save or close the notebook in one of the tabs, then try again."


class TabOffline(ToolError):
    """A tab of JupyterLab with unsaved changes of the notebook cannot be reached; nothing was changed."""

    code = "tab_offline"
    status = 503
    retryable = True
    default_hint = (
        "Try again when the tab is back. If it is gone for good, what it held is lost: its person opens "
        "the notebook in JupyterLab, or sends `DELETE /api/tk-ai/tabs/lost?notebook=PATH` to say so."
    )


class OutcomeUnknown(ToolError):
    """A tab was lost after it was asked for a change: it may or may not have been made.

    Details: ``op_id``, by which the tab is asked when it returns.
    """

    code = "outcome_unknown"
    status = 504
    default_hint = (
        "Do not repeat it. notebook_history says what came of it once the tab is back; "
        "or read the notebook then."
    )

    settle: Callable[[tuple[Change, ...] | None], Awaitable[None]] | None = None
    """Told what was changed once that is known, None where nothing was; set by who keeps the journal."""


# --- kernels and executions


class KernelNotFound(ToolError):
    """No running kernel of that id, or none for that notebook."""

    code = "kernel_not_found"
    status = 404
    default_hint = "Call list_running_kernels, or use_notebook to start one."


class KernelspecNotFound(ToolError):
    """No kernelspec of that name is installed."""

    code = "kernelspec_not_found"
    status = 404
    default_hint = "Call list_kernels for those that are installed."


class KernelStartFailed(ToolError):
    """The kernel did not start or did not answer in time; nothing of it is left running.

    Only a gateway that fails may leave one behind: the hint then says so.
    """

    code = "kernel_start_failed"
    status = 502
    retryable = True
    default_hint = "The kernel's own error output is in the message."


class SandboxUnavailable(ToolError):
    """This machine has no sandbox that works, or none that would hide anything; nothing was run."""

    code = "sandbox_unavailable"
    status = 501
    default_hint = (
        "Install bubblewrap or podman (`apt install bubblewrap`), allow user namespaces, "
        "or start the kernel without a sandbox; `nb doctor` says what this machine can do."
    )


class KernelBusy(ToolError):
    """The kernel is running something, and the tool does not wait for it."""

    code = "kernel_busy"
    status = 409
    retryable = True
    default_hint = "Wait for the running cell (wait_execution), or interrupt_kernel."


class KernelDied(ToolError):
    """The kernel died while it answered."""

    code = "kernel_died"
    status = 502
    default_hint = "Its variables are gone. Run the cells again from the top."


class KernelUnsupported(ToolError):
    """The kernel is another's to stop, or lives where this server does not reach it."""

    code = "kernel_unsupported"
    status = 501
    default_hint = "Use a kernel that this Jupyter Server has started itself."


class GatewayUnavailable(ToolError):
    """The gateway that runs this server's kernels does not answer, or refuses what it is asked."""

    code = "gateway_unavailable"
    status = 502
    retryable = True
    default_hint = (
        "Nothing was run. See that the gateway is up and that GatewayClient.url is its address, "
        "then try again."
    )


class LanguageUnsupported(ToolError):
    """The tool needs a kernel of another language."""

    code = "language_unsupported"
    default_hint = (
        "This works with Python kernels; use execute_ipython with the language's own means."
    )


class VariableNotFound(ToolError):
    """No such variable in the kernel."""

    code = "variable_not_found"
    status = 404
    default_hint = "Call list_variables for those that exist."


class ModuleMissing(ToolError):
    """The kernel's environment has no such module."""

    code = "module_not_found"
    status = 404
    default_hint = "list_modules shows those that it has; another has to be installed there first."


class ExecutionNotFound(ToolError):
    """No such execution for this user."""

    code = "execution_not_found"
    status = 404
    default_hint = "Executions are kept for a limited time; outputs are in the notebook."


# --- permission


class PermissionDenied(ToolError):
    """The permission mode does not allow this tool, or a person said no."""

    code = "permission_denied"
    status = 403
    default_hint = "Go on without it, or ask the user to change the permission mode."


class PermissionRequired(ToolError):
    """A person has to allow this first; ``details["permission_id"]`` names the request."""

    code = "permission_required"
    status = 403
    default_hint = "Ask the user to answer the request in the panel, then call again unchanged."


class ApprovalOutdated(ToolError):
    """What an approval was given for changed again and again before it could be done."""

    code = "approval_outdated"
    status = 409
    retryable = True
    default_hint = "Nothing was done. Call again, which asks the user again."


class PermissionNotFound(ToolError):
    """No permission request of that id waits for this user's answer."""

    code = "permission_not_found"
    status = 404
    default_hint = "It was answered already, has expired, or was withdrawn with its call."
