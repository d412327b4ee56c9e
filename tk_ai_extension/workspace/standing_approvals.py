"""Standing approvals: what a person has approved for more than one call."""

from __future__ import annotations

import builtins
import secrets
import time
from dataclasses import dataclass, field

from typing_extensions import TypedDict

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import PermissionNotFound
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.workspace.permission_requests import ApprovalScope, Effect

MAX_APPROVALS = 10_000
"""Maximum remembered approvals. The oldest is forgotten first; then the person is asked again."""


class StandingInfo(TypedDict):
    """A standing approval.

    Attributes:
        tool: The only tool that it applies to; None for all tools of the effect.
        notebook: The notebook that it applies to; None if it applies to a caller.
        caller: The key of the caller that it applies to, for a chat its id; None for a notebook.
        author: The display name of the caller that asked.
        interface: The interface of that caller.
        created: Seconds since the epoch.
    """

    id: str
    effect: Effect
    tool: str | None
    notebook: str | None
    caller: str | None
    author: str
    interface: str
    created: float


@dataclass(frozen=True, slots=True)
class _Key:
    """What an approval applies to: a caller (identity) or a user's notebook.

    Another tool may get the name of one with a reference.
    """

    user: str
    identity: str | None
    notebook: Notebook | None
    effect: Effect
    tool: str | None
    reference: str = ""


@dataclass(frozen=True, slots=True)
class _Given:
    caller: Caller
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    created: float = field(default_factory=time.time)


class StandingApprovals:
    """Approvals for a caller's session or for a notebook, kept in memory.

    Each applies to one effect, and to all tools or to one.

    Args:
        limit: Maximum number of approvals.
    """

    def __init__(self, limit: int = MAX_APPROVALS) -> None:
        self._limit = limit
        self._given: dict[_Key, _Given] = {}

    def __len__(self) -> int:
        return len(self._given)

    def add(
        self,
        caller: Caller,
        effect: Effect,
        *,
        notebook: Notebook | None,
        tool: str | None,
        reference: str = "",
    ) -> None:
        """Add an approval.

        Args:
            caller: The caller that asked.
            effect: The effect of the calls.
            notebook: The notebook that it applies to; None for the caller's session.
            tool: The only tool that it applies to; None for all.
            reference: What that tool is; see `Proposal.reference`.
        """
        identity = caller.identity if notebook is None else None
        key = _Key(caller.user, identity, notebook, effect, tool, reference if tool else "")
        self._given[key] = _Given(caller)
        while len(self._given) > self._limit:
            del self._given[next(iter(self._given))]

    def applies(
        self,
        caller: Caller,
        effect: Effect,
        *,
        notebook: Notebook | None,
        tool: str | None,
        scope: ApprovalScope,
        reference: str = "",
    ) -> bool:
        """Return whether a call is approved.

        Args:
            caller: The caller.
            effect: The effect of the call.
            notebook: The notebook that it concerns; None for none or several.
            tool: The tool; None if it is not known, so that no approval of one tool applies.
            scope: Which approvals count; see `PermissionRequest.scope`.
            reference: What the tool is; see `Proposal.reference`.
        """
        tools: list[str | None] = [None] if scope != "tool" else []
        if tool is not None and scope != "effect":
            tools.append(tool)
        places: list[tuple[str | None, Notebook | None]] = []
        if caller.key is not None:
            places.append((caller.identity, None))
        if notebook is not None:
            places.append((None, notebook))
        return any(
            _Key(caller.user, identity, place, effect, each, reference if each else "")
            in self._given
            for identity, place in places
            for each in tools
        )

    def list(self, user: str) -> builtins.list[StandingInfo]:
        """Return a user's approvals, oldest first."""
        return [
            {
                "id": given.id,
                "effect": key.effect,
                "tool": key.tool,
                "notebook": None if key.notebook is None else key.notebook.path,
                "caller": None if key.identity is None else given.caller.key,
                "author": given.caller.author,
                "interface": given.caller.interface,
                "created": given.created,
            }
            for key, given in self._given.items()
            if key.user == user and not (key.notebook is not None and key.notebook.is_deleted)
        ]

    def remove(self, user: str, approval_id: str) -> None:
        """Remove one of a user's approvals.

        Raises:
            PermissionNotFound: The user has no approval of that id.
        """
        for key, given in self._given.items():
            if key.user == user and given.id == approval_id:
                del self._given[key]
                return
        raise PermissionNotFound(f"You have no standing approval `{approval_id[:80]}`.")

    def forget(self, caller: Caller) -> None:
        """Remove the approvals for a caller whose session has ended."""
        for key in list(self._given):
            if key.identity == caller.identity:
                del self._given[key]

    def forget_notebook(self, notebook: Notebook) -> None:
        """Remove the approvals for a notebook."""
        for key in list(self._given):
            if key.notebook is notebook:
                del self._given[key]
