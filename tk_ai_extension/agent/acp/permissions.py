"""Permission requests of agents, for actions of their own: what will be done, and the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tk_ai_extension.agent.acp.calls import ReportedCall, mapping
from tk_ai_extension.agent.acp.paths import AgentFolder, concerned_paths, named_paths
from tk_ai_extension.agent.turn import AgentAction, FileEdit
from tk_ai_extension.model.proposals import Proposal, ProposalStep, diff_lines, marked
from tk_ai_extension.workspace.permission_requests import Effect

EFFECTS: Mapping[str, Effect] = {
    "read": "READ",
    "search": "READ",
    "think": "READ",
    "edit": "WRITE",
    "delete": "WRITE",
    "move": "WRITE",
}
"""The effect of a call by its kind; EXECUTE for every other kind."""

MODE = "switch_mode"
"""Kind of a call that changes the agent's own mode, which only the person does."""


def action_of(call: ReportedCall, agent: str, folder: AgentFolder) -> AgentAction:
    """Return the action of a call that an agent asks about.

    Args:
        call: The call.
        agent: The agent's display name.
        folder: The agent's working directory.
    """
    title = " ".join(call.title.split())[:200] or call.kind
    said = f"{agent} wants to use its own tool: {title}"
    steps = [
        ProposalStep("arguments", f"Write {path}", lines=diff_lines(before or "", after))
        for path, before, after in call.diffs
    ]
    shown = {path for path, _, _ in call.diffs}
    if not steps or not shown.issuperset(named_paths(call)):
        steps.append(ProposalStep("arguments", said, lines=_lines(call)))
    effect = _effect(call)
    return AgentAction(
        call.id,
        title,
        effect,
        {"title": call.title, "kind": call.kind, "input": call.raw},
        Proposal(said, tuple(steps)),
        concerned_paths(call, folder, writes=effect == "WRITE"),
        writes=tuple(FileEdit(*diff) for diff in call.diffs),
    )


def notebooks_of(call: ReportedCall) -> list[str]:
    """Return the notebooks that a call would write as files."""
    paths: list[str] = []
    match _effect(call):
        case "WRITE":
            paths = named_paths(call)
        case "EXECUTE":
            # Claude's own tool for notebooks has no kind.
            paths = [str(mapping(call.raw).get("notebook_path") or "")]
        case "READ":
            pass
    return [path for path in paths if path.lower().endswith(".ipynb")]


def _effect(call: ReportedCall) -> Effect:
    effect: Effect = EFFECTS.get(call.kind, "EXECUTE")
    return "WRITE" if effect == "READ" and call.diffs else effect


def outcome(
    options: Iterable[Mapping[str, Any]], *, allowed: bool, lasting: bool = False
) -> dict[str, Any]:
    """Return the response to a permission request: only this call is allowed or rejected.

    Lasting approvals are the policy's, not the agent's: what can only be allowed for ever is cancelled.

    Args:
        options: The options that the agent offers.
        allowed: Whether the call is allowed.
        lasting: Whether the agent may remember it, because the policy is asked again.
    """
    kinds = ["allow_once" if allowed else "reject_once"]
    if lasting or not allowed:
        kinds.append("allow_always" if allowed else "reject_always")
    found = {
        str(option.get("kind")): str(option.get("optionId")) for option in reversed([*options])
    }
    for kind in kinds:
        if kind in found:
            return {"outcome": {"outcome": "selected", "optionId": found[kind]}}
    return cancelled()


def cancelled() -> dict[str, Any]:
    """Return the response to a permission request of a turn that was stopped or has ended."""
    return {"outcome": {"outcome": "cancelled"}}


def _lines(call: ReportedCall) -> Any:
    """Return the whole input of a call, one line for each argument or line of it, and its locations."""
    given = mapping(call.raw)
    lines: list[str] = [] if given else [call.title]
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += [f"{name}: {text}"] if "\n" not in text else [f"{name}:", *text.split("\n")]
    lines += [f"location: {path}" for path in call.locations if path not in given.values()]
    return marked(" ", "\n".join(lines))
