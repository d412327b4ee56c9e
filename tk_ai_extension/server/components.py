"""Managers that a server's extension is built from, and its components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_server.serverapp import ServerApp
    from jupyter_server.services.contents.manager import ContentsManager
    from jupyter_server.services.kernels.kernelmanager import MappingKernelManager
    from jupyter_server.services.sessions.sessionmanager import SessionManager

    from tk_ai_extension.server.agents import AgentModels
    from tk_ai_extension.server.project import ProjectServices
    from tk_ai_extension.workspace.workspace import Workspace

CHATS = "chats.sqlite"
"""The file of the chats in `ServerComponents.state`."""


@dataclass(frozen=True, slots=True)
class Managers:
    """Jupyter Server's managers, as they are at the start."""

    contents: ContentsManager
    kernels: MappingKernelManager
    kernelspecs: Any
    sessions: SessionManager
    server: ServerApp


@dataclass(frozen=True, slots=True)
class ServerComponents:
    """Components of a server's extension: the workspace and related services.

    Attributes:
        backends: Names of the default notebook backend and executor.
        models: Finds the model for chats.
        state: The folder of the journal and the chats.
        project: Services of a project's own server; None in a person's.
    """

    workspace: Workspace
    backends: Mapping[str, str]
    models: AgentModels
    state: Path
    project: ProjectServices | None = None
