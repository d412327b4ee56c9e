"""What a server's extension is put together from, and into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tk_ai_extension.agent.models import ModelSource
    from tk_ai_extension.cli.ownership import Ownership
    from tk_ai_extension.cli.project_services import ProjectServices
    from tk_ai_extension.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Managers:
    """Jupyter Server's own managers, as they are registered at start."""

    contents: Any
    kernels: Any
    kernelspecs: Any
    sessions: Any
    server: Any


@dataclass(frozen=True, slots=True)
class ServerComponents:
    """The workspace over a server's managers, and what is needed of its parts besides.

    Attributes:
        backends: What holds notebooks and what runs code where nothing else is known of them.
        missing_parts: By library, what it does not have any more of what the extension uses.
        models: Finds the model that answers in chats.
        state: The folder of the journal and the chats.
        project: What a project's own server can do besides; None in a person's.
    """

    workspace: Workspace
    backends: Mapping[str, str]
    missing_parts: Callable[[], Mapping[str, list[str]]]
    models: ModelSource
    state: Path
    project: ProjectServices | None = None

    @property
    def ownership(self) -> Ownership | None:
        """Report which calls belong to another server; None where all belong to this one."""
        return None if self.project is None else self.project.ownership
