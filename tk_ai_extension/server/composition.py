"""Composition root: builds the extension's components in a Jupyter Server."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.agent.acp.backend import known_agents
from tk_ai_extension.agent.claude.providers import ProviderSettings
from tk_ai_extension.agent.claude.user_connection import ProviderSelector
from tk_ai_extension.kernels.environment_variables import allowed, inherited_environment
from tk_ai_extension.kernels.gateway import kernels_of
from tk_ai_extension.kernels.jupyter_sessions import JupyterSessions
from tk_ai_extension.kernels.kernel_service import find_execution_stack
from tk_ai_extension.model.callers import CallerNotices, Mode
from tk_ai_extension.model.paths import contain, folder_path, notebook_path
from tk_ai_extension.notebooks.browser_pages import BrowserPages
from tk_ai_extension.notebooks.jupyter_saves import SaveHooks, is_on_files
from tk_ai_extension.notebooks.notebook_store import NotebookStore
from tk_ai_extension.server.contents_files import ContentsFiles
from tk_ai_extension.server.services import (
    ChatModels,
    JupyterManagers,
    ServerComponents,
    emit_event,
)
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.data_folder import root_data_folder, root_data_path
from tk_ai_extension.workspace.files import Files, FolderFiles
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.permissions import PermissionPolicy
from tk_ai_extension.workspace.workspace import CallLimits, Workspace

if TYPE_CHECKING:
    from tk_ai_extension.server.project_settings import ProjectServices
    from tk_ai_extension.server.settings import ExtensionSettings

logger = logging.getLogger(__name__)

APPROVE = "with `nb approve {id}` in the project's folder"
"""Where people answer permission requests of a project's server, for the agent."""


def build_components(
    app: ExtensionSettings,
    managers: JupyterManagers,
    tabs: BrowserPages,
    project: ProjectServices | None,
) -> ServerComponents:
    """Build the components, as configured by the app's traits."""
    root = root_of(managers.contents)
    state = state_of(app.data_dir, root)
    hidden = bool(getattr(managers.contents, "allow_hidden", False))
    linked = [Path(folder) for folder in app.linked_folders]
    contain_notebook = partial(notebook_path, root, allow_hidden=hidden, linked=linked)
    stack = None
    if app.executor == "auto":
        stack = find_execution_stack(managers.server.extension_manager)
    notices = CallerNotices()
    store = NotebookStore(
        root or Path(),
        contain_notebook,
        linked=linked,
        contents_manager=managers.contents,
        tabs=tabs,
        warn=notices.add_for_anybody,
    )
    files: Files
    if root is not None and is_on_files(managers.contents):
        files = FolderFiles(
            root,
            allow_hidden=hidden,
            linked=linked,
            hooks=SaveHooks(managers.contents),
            shown=managers.contents.should_list,
        )
    else:
        files = ContentsFiles(
            managers.contents,
            partial(contain, root, allow_hidden=hidden, linked=linked),
            partial(folder_path, root, allow_hidden=hidden, linked=linked),
        )
    kernels = kernels_of(
        managers.kernels,
        managers.kernelspecs,
        environment=partial(inherited_environment, app.kernel_env_exclude)
        if project is None
        else partial(allowed, os.environ),
        ready_timeout=app.kernel_start_timeout,
        max_output_bytes=app.max_output,
        stack=stack,
    )
    workspace = Workspace(
        store=store,
        notices=notices,
        kernels=kernels,
        sessions=JupyterSessions(
            managers.sessions,
            lambda path: store.notebooks.at(path).starting,
            None if project is None else partial(project.bound, kernels),
        ),
        files=files,
        journal=Journal(
            state / "journal.sqlite",
            keep_days=app.history_keep_days,
            max_bytes=app.history_max_bytes,
        ),
        artifacts=Artifacts(
            state / "artifacts",
            max_bytes_total=app.artifact_total_bytes,
            max_bytes_each=app.artifact_max_bytes,
            keep_seconds=app.artifact_keep,
        ),
        contain=store.contain,
        policy=PermissionPolicy(
            cast("Mode", app.mode_cap),
            notebooks=store.notebooks,
            keep_seconds=app.permission_keep,
            where="in the panel" if project is None else APPROVE,
        ),
        limits=CallLimits(app.answer_budget, app.max_source, app.max_wait),
    )
    workspace.journal.emit = workspace.policy.emit = partial(emit_event, managers.server)
    backends = {"documents": store.backend, "executor": kernels.backend}
    claude = ProviderSelector(
        ProviderSettings(
            base_url=app.chat_base_url,
            model=app.chat_model,
            models=tuple(app.chat_models),
            secrets_file=app.chat_secrets,
            connect=app.chat_connect,
        ),
        root or Path(),
    )
    models = ChatModels(claude, partial(known_agents, app.acp_agents))
    return ServerComponents(workspace, backends, models, state, project)


def state_of(data_dir: str, root: Path | None) -> Path:
    """Return the folder of the journal and the chats, created if possible.

    If it cannot be created, changes fail with `StateUnavailable`, and reading still works.
    """
    try:
        return root_data_folder(Path(data_dir), root)
    except OSError as error:
        logger.warning(
            "%s cannot be used (%s): changes and chats are refused until it can. "
            "TkAIExtensionApp.data_dir names another folder.",
            data_dir,
            error.strerror,
        )
        return root_data_path(Path(data_dir), root)


def root_of(contents: Any) -> Path | None:
    """Return the root folder; None for a contents manager without files."""
    root = getattr(contents, "root_dir", "")
    return Path(root) if root and Path(root).is_dir() else None
