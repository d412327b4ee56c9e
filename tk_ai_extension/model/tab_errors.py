"""What can go wrong with a notebook that somebody has open in JupyterLab; part of the tree in `errors`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tk_ai_extension.model.errors import ToolError

if TYPE_CHECKING:
    from tk_ai_extension.model.operations import Change


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
