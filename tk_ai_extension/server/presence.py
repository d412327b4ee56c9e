"""Agents at work, shown to the people who have the notebook open."""

from __future__ import annotations

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.workspace.activity import Activity, ActivityFeed


def show_agents(feed: ActivityFeed, store: NotebookRouter) -> None:
    """Shows who changes and runs what as collaborators, where jupyter-collaboration is on."""

    def heard(path: str, caller: Caller, activity: Activity) -> None:
        presence = store.presence
        if presence is None:
            return
        match activity.kind:
            case "changed":
                presence.worked(path, caller, activity.cells)
            case "running":
                presence.began(path, caller, activity.cells)
            case "ran":
                presence.ended(path, caller, activity.cells)
            case _:
                # What is taken back is a person's doing.
                pass

    feed.listen(heard)
