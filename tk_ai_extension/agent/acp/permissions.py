"""Permission requests of agents, for actions of their own: what will be done, where, and the answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tk_ai_extension.agent.acp.calls import ReportedCall, mapping
from tk_ai_extension.agent.turn import AgentAction
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

UNKNOWN = ""
"""A place that is not known: what concerns it counts as running a command."""

_PATH_KEY = re.compile(r"(?i).*(path|file|filename|dir|directory|folder|cwd|root|uri|url)s?")
"""Matches the name of an argument that has a path."""
_CONTENT_KEY = re.compile(r"(?i).*(content|text|string|str|code|diff|patch|title|description)s?")
"""Matches the name of an argument of an editor that has a text."""
_LEADS_ELSEWHERE = re.compile(r"/|~|\.\.")
"""Matches a text that may be a path or a pattern of paths."""
_PLAIN = re.compile(r"[^\x00-\x1f{}()|*?,$`~:]+")
"""Matches a path that no program expands."""


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """The working directory of an agent.

    Attributes:
        path: The directory.
        own: Whether it is the agent's own, which holds nothing of the person's.
    """

    path: Path
    own: bool

    def concerned(self, path: str) -> str | None:
        """Return an absolute path that a call concerns; None if it leads into the agent's own folder."""
        if not _PLAIN.fullmatch(path):
            return UNKNOWN
        absolute = os.path.join(self.path, path)  # noqa: PTH118 - `..` is kept
        inside = Path(os.path.realpath(absolute)).is_relative_to(os.path.realpath(self.path))
        return None if self.own and inside else absolute


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
    if not steps or not {path for path, _, _ in call.diffs}.issuperset(_named_paths(call)):
        steps.append(ProposalStep("arguments", said, lines=_lines(call)))
    effect = _effect(call)
    return AgentAction(
        call.id,
        title,
        effect,
        {"title": call.title, "kind": call.kind, "input": call.raw},
        Proposal(said, tuple(steps)),
        _concerned_paths(call, folder, effect),
    )


def notebooks_of(call: ReportedCall) -> list[str]:
    """Return the notebooks that a call would write as files."""
    paths: list[str] = []
    match _effect(call):
        case "WRITE":
            paths = _named_paths(call)
        case "EXECUTE":
            # Claude's own tool for notebooks has no kind.
            paths = [str(mapping(call.raw).get("notebook_path") or "")]
        case "READ":
            pass
    return [path for path in paths if path.lower().endswith(".ipynb")]


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


def _effect(call: ReportedCall) -> Effect:
    effect: Effect = EFFECTS.get(call.kind, "EXECUTE")
    return "WRITE" if effect == "READ" and call.diffs else effect


def _concerned_paths(call: ReportedCall, folder: AgentFolder, effect: Effect) -> tuple[str, ...]:
    """Return the absolute paths that a call concerns outside the agent's own folder, and `UNKNOWN`."""
    if effect == "EXECUTE" or (call.kind == "think" and effect == "READ"):
        return ()
    named = _named_paths(call)
    others = [(key, text) for key, text in _texts(call.raw) if text not in named]
    if not named:
        # A search that names no path searches its working directory.
        named = [str(folder.path) if call.kind == "search" else UNKNOWN]
    elif effect == "WRITE":
        named += [t for key, t in others if call.kind != "edit" or not _CONTENT_KEY.fullmatch(key)]
    if effect == "READ":
        named += [text for _, text in others if _LEADS_ELSEWHERE.search(text)]
    found = (folder.concerned(path) for path in named)
    return tuple(dict.fromkeys(path for path in found if path is not None))


def _named_paths(call: ReportedCall) -> list[str]:
    """Return the paths that a call names as such, as it names them."""
    return [
        *(path for path, _, _ in call.diffs),
        *call.locations,
        *(text for key, text in _texts(call.raw) if _PATH_KEY.fullmatch(key)),
    ]


def _texts(raw: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in an input, and the name of its argument."""
    if isinstance(raw, str):
        yield key, raw
    elif isinstance(raw, Mapping):
        for name, value in mapping(raw).items():
            if _LEADS_ELSEWHERE.search(name):
                # The keys of an object may be paths.
                yield "path", name
            yield from _texts(value, name)
    elif isinstance(raw, list):
        for value in cast("list[Any]", raw):
            yield from _texts(value, key)


def _lines(call: ReportedCall) -> Any:
    """Return the whole input of a call, one line for each argument or line of it, and its locations."""
    given = mapping(call.raw)
    lines: list[str] = [] if given else [call.title]
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += [f"{name}: {text}"] if "\n" not in text else [f"{name}:", *text.split("\n")]
    lines += [f"location: {path}" for path in call.locations if path not in given.values()]
    return marked(" ", "\n".join(lines))
