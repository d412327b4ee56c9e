"""Going on from before an earlier message: where that is in the session that Claude's process keeps.

A session is a tree of entries, and the process goes on from the last one, or from one that it is
told of. Messages are sent under ids that their turns make, so that nothing has to be kept to find
them again.
"""

from __future__ import annotations

import glob
import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tk_ai_extension.agent.backend import History

_NAMES = uuid.UUID("6b1f2a52-5f2e-4c55-9a0e-6c3a1f0f7d11")


def prompt_id(turn: str) -> str:
    """The id under which a turn's message is sent."""
    return str(uuid.uuid5(_NAMES, turn))


def before(folder: Path, session: str, prompts: Sequence[str]) -> History:
    """Where a session was before the first of these messages that it has; reads the whole of it.

    Args:
        folder: Where the process keeps its sessions.
        session: The session.
        prompts: The ids of messages, in their order; some may never have reached it.
    """
    parents: dict[str, str | None] = {}
    for path in (folder / "projects").glob(f"*/{glob.escape(session)}.jsonl"):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                # Most lines are long, and none of these.
                if any(prompt in line for prompt in prompts):
                    entry = _entry(line)
                    if entry.get("type") == "user" and entry.get("uuid") in prompts:
                        parents[entry["uuid"]] = entry.get("parentUuid")
    for prompt in prompts:
        if prompt in parents:
            at = parents[prompt]
            return History(None) if at is None else History(session, at)
    return History(session)


def _entry(line: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(line)
    except ValueError:
        # The process was killed while it wrote.
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
