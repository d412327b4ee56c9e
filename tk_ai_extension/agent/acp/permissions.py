"""Permission requests of agents, for actions of their own: what will be done, where, and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
)

from tk_ai_extension.agent.acp.calls import ReportedCall
from tk_ai_extension.agent.turn import AgentAction
from tk_ai_extension.model.proposals import Proposal, ProposalStep, diff_lines
from tk_ai_extension.tools.registry import argument_proposal
from tk_ai_extension.workspace.permission_requests import Effect

EFFECTS: Mapping[str | None, Effect] = {
    "read": "READ",
    "search": "READ",
    "think": "READ",
    "edit": "WRITE",
}
"""The effect of a call by its kind; EXECUTE for every other kind."""

UNKNOWN = ""
"""A place that is not known: what concerns it counts as running a command."""


def action_of(call: ReportedCall, agent: str, own_folder: Path | None) -> AgentAction:
    """Return the action of a call that an agent asks about.

    Args:
        call: The call.
        agent: The agent's display name.
        own_folder: A folder that holds nothing of the person's; None without one.
    """
    said = f"{agent} wants to use its own tool: {call.name}"
    steps = [
        ProposalStep(
            "arguments", f"Write {each.path}", lines=diff_lines(each.old_text or "", each.new_text)
        )
        for each in call.diffs
    ]
    shown = {each.path for each in call.diffs}
    if not shown or not shown.issuperset(call.paths):
        files = {"files": call.paths} if call.paths else {}
        steps += argument_proposal(said, files | call.arguments).steps
    return AgentAction(
        call.report.tool_call_id,
        call.name,
        _effect(call),
        {"title": call.report.title, "kind": call.report.kind, "input": call.arguments},
        Proposal(said, tuple(steps)),
        _concerned_paths(call, own_folder),
    )


def writes_notebook(call: ReportedCall) -> bool:
    """Return whether a call would write a notebook as a file."""
    # Claude's own tool for notebooks has neither a kind nor a location.
    named = [str(call.input.get("notebook_path"))]
    paths = call.paths if _effect(call) == "WRITE" else named
    return any(path.lower().endswith(".ipynb") for path in paths)


def answer(options: Iterable[PermissionOption], *, is_allowed: bool) -> RequestPermissionResponse:
    """Return the response to a permission request: only this call is allowed or rejected.

    Lasting approvals are the policy's, not the agent's.

    Args:
        options: The options that the agent offers.
        is_allowed: Whether the call is allowed.
    """
    kind = "allow_once" if is_allowed else "reject_once"
    for option in options:
        if option.kind == kind:
            chosen = AllowedOutcome(option_id=option.option_id, outcome="selected")
            return RequestPermissionResponse(outcome=chosen)
    return cancelled()


def cancelled() -> RequestPermissionResponse:
    """Return the response to a permission request of a turn that was stopped or has ended."""
    return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))


def _effect(call: ReportedCall) -> Effect:
    effect: Effect = EFFECTS.get(call.report.kind, "EXECUTE")
    return "WRITE" if effect == "READ" and call.diffs else effect


def _concerned_paths(call: ReportedCall, own_folder: Path | None) -> tuple[str, ...]:
    """Return the absolute paths that a call concerns outside the agent's own folder, and `UNKNOWN`."""
    if _effect(call) == "EXECUTE" or (call.report.kind == "think" and not call.paths):
        return ()
    found: list[str] = []
    for path in call.paths or [UNKNOWN]:
        if not Path(path).is_absolute():
            found.append(UNKNOWN)
        elif own_folder is None or not Path(path).resolve().is_relative_to(own_folder.resolve()):
            found.append(path)
    return tuple(dict.fromkeys(found))
