"""The Jupyter Server extension: its settings, start and stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.extension.application import ExtensionApp

from tk_ai_extension._version import __version__
from tk_ai_extension.kernels.environment_variables import WITHHELD_FROM_KERNELS
from tk_ai_extension.kernels.provisioner import provision_kernels
from tk_ai_extension.model.masking import mask_failed_requests
from tk_ai_extension.notebooks.browser_pages import BrowserPages
from tk_ai_extension.server.handlers.base_handler import SETTINGS_KEY
from tk_ai_extension.server.handlers.page_websocket import CHANNELS_KEY, SOCKETS, TABS_KEY
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.server.page_runs import CONNECTION, PageRunKeeper, followed
from tk_ai_extension.server.process_privacy import hide_process
from tk_ai_extension.server.services import (
    JupyterManagers,
    LastActivityReporter,
    PathChangeListener,
    ServerComponents,
    Services,
)
from tk_ai_extension.server.settings import ExtensionSettings

if TYPE_CHECKING:
    from tk_ai_extension.agent.chats import Chats
    from tk_ai_extension.server.project_settings import ProjectServices
    from tk_ai_extension.tools.registry import Registry
    from tk_ai_extension.workspace.workspace import Workspace


class TkAIExtensionApp(ExtensionSettings, ExtensionApp):
    """One set of notebook tools for people and agents, over MCP and REST."""

    name = "tk_ai_extension"
    version = __version__
    description = __doc__
    load_other_extensions = True

    project: ProjectServices | None = None
    """Services of a project's own server (`server.project_server`); None in a person's."""

    services: Services

    @property
    def workspace(self) -> Workspace:
        """What the tools work on."""
        return self.services.workspace

    # -- start and stop

    def initialize_settings(self) -> None:
        """Create the services over the server's managers.

        The workspace is built after the start (`Services.ready`). Only what must not miss an event
        begins here: removing secrets from kernels, and following renamed notebooks.
        """
        if self.hide_process:
            hide_process()
        mask_failed_requests()
        server: Any = self.serverapp
        managers = JupyterManagers(
            contents=server.contents_manager,
            kernels=server.kernel_manager,
            kernelspecs=server.kernel_spec_manager,
            sessions=server.session_manager,
            server=server,
        )
        self.services = Services(
            managers,
            partial(self._build_components, managers),
            partial(self._build_chats, managers),
            _describe,
            self,
        )
        left_out = (
            [*WITHHELD_FROM_KERNELS, *self.kernel_env_exclude] if self.filter_all_kernels else []
        )
        provision_kernels(managers.kernels, left_out)
        if server.event_logger.handlers:
            server.event_logger.register_event_schema(Path(__file__).with_name("events.yaml"))
        self._path_events = PathChangeListener(
            server.event_logger, self.services.renamed, self.services.deleted
        )
        root = getattr(managers.contents, "root_dir", "")
        self._tabs = self.settings[TABS_KEY] = BrowserPages(Path(root) if root else None)
        self.settings[CHANNELS_KEY] = set()
        self.settings[SETTINGS_KEY] = self.services
        self._page_runs = PageRunKeeper(self.services, self._tabs)
        if self.keep_page_runs:
            self.settings[CONNECTION] = followed(self.settings[CONNECTION], self._page_runs)
        self._activity = LastActivityReporter(
            server.web_app.settings,
            managers.kernels,
            self.services.working,
            self.services.kernels_in_use,
        )

    def initialize_handlers(self) -> None:
        """Add the routes."""
        handlers = cast("list[Any]", self.handlers)
        if self.project is not None:
            from tk_ai_extension.server.handlers.project_settings import PROJECT_ROUTES

            handlers.extend(PROJECT_ROUTES)
        handlers.extend([*SOCKETS, *ROUTES])

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:  # noqa: ARG002
        """Prepare slow imports after the server has started."""
        self._stop_on_interrupt()
        self._activity.start()
        self.services.prepare()

    def current_activity(self) -> int | None:  # pyrefly: ignore[bad-override]
        """Return the number of running calls, executions and turns; if any, Jupyter does not stop as idle."""
        return self.services.working() or None

    async def stop_extension(self) -> None:
        """Stop the extension."""
        self._path_events.close()
        self._activity.stop()
        await self._page_runs.close()
        await self.services.close()
        self._tabs.close()

    def _build_components(self, managers: JupyterManagers) -> ServerComponents:
        # Its imports take as long as the rest of the extension's start.
        from tk_ai_extension.server.composition import build_components

        return build_components(self, managers, self._tabs, self.project)

    def _build_chats(
        self, managers: JupyterManagers, components: ServerComponents, registry: Registry
    ) -> Chats:
        from tk_ai_extension.server.chat_composition import build_chats

        return build_chats(self, managers, components, registry, self.services.owner)

    def _stop_on_interrupt(self) -> None:
        """Let SIGINT stop the server as SIGTERM does, where Jupyter leaves it to Python.

        With a terminal Jupyter asks for confirmation. Without one it would leave its event loop at
        once: no extension would be stopped, and running cells and saves would be interrupted.
        """
        server: Any = self.serverapp
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, lambda _number, _frame: server.stop(from_signal=True))


def _describe(registry: Registry, base_url: str) -> Mapping[str, Any]:
    from tk_ai_extension.server.openapi import describe

    return describe(registry, base_url)
