"""A project's own server: a Jupyter Server with only this extension, on a socket in ``.nb``.

A command starts it with ``python -m tk_ai_extension.server.headless ROOT``. It writes to its standard
output that it listens, or why it cannot. It stops, with its kernels, on SIGTERM or ``nb shutdown``. Until
something is opened for longer it is temporary: it stops with its last user.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.serverapp import ServerApp
from tornado.netutil import bind_sockets
from traitlets import Unicode
from traitlets.config import Config

from tk_ai_extension.cli.launch import LISTENS
from tk_ai_extension.cli.project import HOST_LOCK, KERNELS, SERVER, SOCKET, Project, Refused
from tk_ai_extension.cli.project_services import LabMissing, ProjectServices, private_folder
from tk_ai_extension.kernels.sandbox.provisioner import ConfiningKernelManager
from tk_ai_extension.model import file_locks
from tk_ai_extension.model.masking import MaskingFormatter, masked
from tk_ai_extension.server.app import TkAIExtensionApp
from tk_ai_extension.server.handlers.handler import SETTINGS_KEY
from tk_ai_extension.server.listening import RefusingListener

if TYPE_CHECKING:
    from tk_ai_extension.server.services import Services

logger = logging.getLogger(__name__)

REFUSED = 2
"""Exit status if the server cannot be started."""

FIRST_USE = 5.0
"""Seconds in which the first command has to connect to a server. The one that started it may be killed."""

INTERVAL = 1.0
"""Interval at which a temporary server checks for its last user, in seconds.

The last command stops it at once. Kernels, runs, pages and sessions of MCP also end without a command.
"""


class ProjectKernelManager(ConfiningKernelManager):
    """Kernel manager of a project, with connection files in its ``.nb``."""

    kernels_dir: Any = Unicode(help="Folder of the connection files, of mode 0700.").tag(
        config=True
    )

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        # Jupyter Server passes its runtime folder, which all servers of a user share.
        self.connection_dir = self.kernels_dir
        for left in Path(self.kernels_dir).glob("kernel-*.json"):
            left.unlink()  # of a server that was killed, with its kernels


class ProjectServerApp(ServerApp):
    """A Jupyter Server for one project.

    The user's configuration of Jupyter Server and of the extension applies, except the address,
    the authentication and the root folder.
    """

    name = "jupyter-server"
    project: Project
    project_services: ProjectServices
    _lab_url = ""

    def find_server_extensions(self) -> None:
        """Load only this extension: those for JupyterLab take time and memory."""
        self.jpserver_extensions = {"tk_ai_extension": True}

    def init_configurables(self) -> None:
        """Create the managers, and the project's services before them."""
        points: Any = self.extension_manager.extension_points
        extension: TkAIExtensionApp = points["tk_ai_extension"].app
        state = private_folder(Path(self.project.root), Path(extension.data_dir))
        extension.project = self.project_services = ProjectServices(
            self.project,
            state,
            open_lab=self.open_lab,
            stop_listening=self._stop_listening,
        )
        super().init_configurables()

    def _bind_http_server(self) -> None:
        if hasattr(socket, "AF_UNIX"):
            listener = RefusingListener(self.project.bind())
            listener.listen(128)
            listener.setblocking(False)
            self.http_server.add_socket(listener)
        else:
            super()._bind_http_server()

    def write_server_info_file(self) -> None:
        """Write the token to ``.nb``.

        Jupyter's list of running servers includes it only once it listens on a port: a private socket
        is of no use to others.
        """
        file = Path(self.project.folder, SERVER)
        file.unlink(missing_ok=True)
        known = {"pid": os.getpid(), "token": cast("Any", self.identity_provider).token}
        fd = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as opened:
            json.dump(known, opened)
        if not hasattr(socket, "AF_UNIX"):
            super().write_server_info_file()

    def remove_server_info_file(self) -> None:
        """Remove the token at the end."""
        for name in (SERVER, SOCKET):
            Path(self.project.folder, name).unlink(missing_ok=True)
        super().remove_server_info_file()

    def _stop_listening(self) -> None:
        self.http_server.stop()

    def open_lab(self) -> str:
        """Load JupyterLab and all enabled server extensions, and listen on a port.

        Returns:
            The address to open in a browser, with the token.

        Raises:
            LabMissing: JupyterLab is not installed in this environment, or not enabled.
        """
        if self._lab_url:
            return self._lab_url
        super().find_server_extensions()
        if not self.jpserver_extensions.get("jupyterlab"):
            raise LabMissing("JupyterLab is not installed in nb's environment.")
        manager: Any = self.extension_manager
        extensions: dict[str, bool] = self.jpserver_extensions
        for name, is_enabled in sorted(extensions.items()):
            if name not in manager.extensions and manager.add_extension(name, is_enabled):
                manager.link_extension(name)
                manager.load_extension(name)
        listeners = bind_sockets(0, "127.0.0.1")
        self.http_server.add_sockets(listeners)
        self.port = listeners[0].getsockname()[1]
        # From now on other programs can find it.
        super().write_server_info_file()
        token = cast("Any", self.identity_provider).token
        self._lab_url = f"http://127.0.0.1:{self.port}/lab?token={token}"
        return self._lab_url

    def write_browser_open_files(self) -> None:
        """Do nothing: a browser cannot open a socket."""

    async def _post_start(self) -> None:
        await super()._post_start()
        with suppress(BrokenPipeError):  # the command that started it was killed
            sys.stdout.write(f"{LISTENS}\n")
            sys.stdout.flush()
        # The command that started it has read this and closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        logger.info("Server %s of %s listens", os.getpid(), self.project.root)
        self.io_loop.call_later(FIRST_USE, self._check_use)

    def _check_use(self) -> None:
        """Stop a temporary server that nothing uses, else check again later."""
        project = self.project_services
        if project.stopping or not project.is_temporary:
            return
        services: Services = self.web_app.settings[SETTINGS_KEY]
        if services.is_unused():
            project.stop_unused()
            self.stop()
        else:
            self.io_loop.call_later(INTERVAL, self._check_use)


def configuration(project: Project) -> Config:
    """Return the configuration of a project's server that overrides the user's."""
    kernels = Path(project.folder, KERNELS)
    return Config(
        {
            "ServerApp": {
                "allow_root": True,
                "base_url": "/",
                "certfile": "",
                "client_ca": "",
                "custom_display_url": "",
                "default_url": "/",
                "ip": "127.0.0.1",
                "kernel_manager_class": ProjectKernelManager,
                "keyfile": "",
                "log_level": logging.WARNING,
                "open_browser": False,
                "port": 0,
                "root_dir": project.root,
                "sock": "",
                "terminals_enabled": False,
            },
            "IdentityProvider": {"token": secrets.token_hex(24)},
            "PasswordIdentityProvider": {"hashed_password": "", "password_required": False},
            "ProjectKernelManager": {"kernels_dir": str(kernels)},
        }
    )


def serve(project: Project) -> bool:
    """Run the server of a project until it is stopped.

    Returns:
        Whether to remove its files.
    """
    Path(project.folder, KERNELS).mkdir(mode=0o700, exist_ok=True)
    app = ProjectServerApp.instance(config=configuration(project))
    app.project = project
    app.initialize(argv=[])
    app.start()
    return app.project_services.cleans


def main() -> int:
    """Run the server; return the exit status."""
    project = Project(sys.argv[1])
    said = logging.StreamHandler()
    said.setFormatter(MaskingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[said])
    logger.setLevel(logging.INFO)
    lock = os.open(Path(project.folder, HOST_LOCK), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        file_locks.lock(lock, wait=False)
    except BlockingIOError:
        sys.stdout.write("another server of this project is stopping; try again.\n")
        return REFUSED
    try:
        cleans = serve(project)
    except Refused as problem:
        sys.stdout.write(f"{problem}\n")
        return REFUSED
    except Exception as problem:
        logger.exception("The server ended")
        sys.stdout.write(f"the server ended: {masked(str(problem))}; {project.log} has more.\n")
        return REFUSED
    if cleans:
        project.clean()
    return 0


if __name__ == "__main__":
    sys.exit(main())
