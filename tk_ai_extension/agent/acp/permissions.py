"""Permission requests of agents, for actions of their own: what will be done, and the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tk_ai_extension.agent.acp.calls import ReportedCall, mapping
from tk_ai_extension.agent.actions import AgentAction
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


def action_of(call: ReportedCall, agent: str) -> AgentAction:
    """Return the action of a call that an agent asks about.

    Args:
        call: The call.
        agent: The agent's display name.
    """
    title = " ".join(call.title.split())[:200] or call.kind
    said = f"{agent} wants to use its own tool: {title}"
    steps = [
        ProposalStep("arguments", f"Write {path}", lines=diff_lines(before or "", after))
        for path, before, after in call.diffs
    ]
    if not steps:
        steps.append(ProposalStep("arguments", said, lines=_lines(call)))
    effect: Effect = EFFECTS.get(call.kind, "EXECUTE")
    paths = call.locations if effect == "WRITE" and not call.diffs else []
    return AgentAction(
        call.id,
        title,
        effect,
        {"title": call.title, "kind": call.kind, "input": call.raw},
        Proposal(said, tuple(steps)),
        (*((path, after) for path, _, after in call.diffs), *((path, None) for path in paths)),
    )


def notebooks_of(call: ReportedCall) -> list[str]:
    """Return the notebooks that a call would write as files."""
    if EFFECTS.get(call.kind) != "WRITE":
        return []
    paths = [*(path for path, _, _ in call.diffs), *call.locations]
    return [path for path in paths if path.lower().endswith(".ipynb")]


def outcome(options: Iterable[Mapping[str, Any]], *, allowed: bool) -> dict[str, Any]:
    """Return the response to a permission request: only this call is allowed or rejected.

    Lasting approvals are the policy's, not the agent's.
    """
    kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
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
    """Return the whole input of a call, one line for each argument or line of it."""
    given = mapping(call.raw)
    if not given:
        return marked(" ", call.title)
    lines: list[str] = []
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += [f"{name}: {text}"] if "\n" not in text else [f"{name}:", *text.split("\n")]
    return marked(" ", "\n".join(lines))
