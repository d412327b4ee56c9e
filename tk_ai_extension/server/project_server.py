"""A project's server: a Jupyter Server with only this extension, which `nb` starts.

It listens on a free port of 127.0.0.1 with a token, as a person's server does, and is in Jupyter's list of
running servers. It writes to its standard output that it listens, or why it cannot listen. It stops, with its
kernels, on SIGTERM or ``nb shutdown``.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.serverapp import ServerApp
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets import Unicode
from traitlets.config import Config

from tk_ai_extension.cli.project_folder import KERNELS, CommandError, Project
from tk_ai_extension.cli.servers import LISTENS
from tk_ai_extension.kernels.sandbox.provisioner import confine, private_folder
from tk_ai_extension.model.masking import MaskingFormatter, masked
from tk_ai_extension.model.private_files import make_private
from tk_ai_extension.server.project_settings import LabMissing, ProjectServices
from tk_ai_extension.workspace.data_folder import root_data_folder

if TYPE_CHECKING:
    from tk_ai_extension.server.app import TkAIExtensionApp

logger = logging.getLogger(__name__)

REFUSED = 2
"""Exit status if the server cannot be started."""


class ProjectKernelManager(AsyncMappingKernelManager):
    """Kernel manager of a project: connection files are in its ``.nb``, kernels in its sandbox."""

    kernels_dir: Any = Unicode(help="Folder of the connection files, of mode 0700.").tag(
        config=True
    )
    services: ProjectServices

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        # Jupyter Server passes its runtime folder, which all servers of a user share.
        self.connection_dir = self.kernels_dir
        for left in Path(self.kernels_dir).glob("kernel-*.json"):
            # Files of a server that was killed, with its kernels.
            left.unlink()
            shutil.rmtree(private_folder(left.stem.partition("-")[2]), ignore_errors=True)

    async def start_kernel(self, **options: Any) -> str:
        """Start a kernel; the project may have been cloned again, without the folder of connection files.

        Raises:
            KernelUnsupported: no sandbox works, or none for this kernelspec.
        """
        # jupyter_client asks for the working directory, which does not exist after a new clone.
        os.chdir(self.root_dir)
        make_private(Path(self.kernels_dir))
        confinement = await self.services.confinement()
        return await super().start_kernel(confinement=confinement, **options)

    def pre_start_kernel(self, kernel_name: str | None, kwargs: Any) -> tuple[Any, str, str]:
        """Confine a new kernel. Called with the arguments of `start_kernel`."""
        confinement = kwargs.pop("confinement")
        manager, name, kernel_id = cast("Any", super()).pre_start_kernel(kernel_name, kwargs)
        if confinement is not None:
            confine(manager, kernel_id, confinement)
        return manager, name, kernel_id


class ProjectServerApp(ServerApp):
    """A Jupyter Server for one project.

    The user's configuration of Jupyter Server and of the extension applies, except the address,
    the authentication and the root folder.
    """

    name = "jupyter-server"
    project: Project
    _url = ""

    def find_server_extensions(self) -> None:
        """Load only this extension: those for JupyterLab take time and memory."""
        self.jpserver_extensions = {"tk_ai_extension": True}

    def init_configurables(self) -> None:
        """Create the managers, and the project's services before them."""
        points: Any = self.extension_manager.extension_points
        extension: TkAIExtensionApp = points["tk_ai_extension"].app
        data = Path(extension.data_dir)
        try:
            root_data_folder(data, Path(self.project.root))
        except OSError as error:
            raise CommandError(
                f"{data} cannot be written ({error.strerror}); it stores the history of changes. "
                "Set JUPYTER_DATA_DIR to another folder."
            ) from None
        extension.project = ProjectServices(self.project, self.open_lab)
        super().init_configurables()
        kernels = cast("ProjectKernelManager", self.kernel_manager)
        kernels.services = extension.project

    def server_info(self) -> dict[str, Any]:
        """Return Jupyter's description of the server, marked as one that `nb` has started."""
        return {**super().server_info(), "nb": True}

    def open_lab(self) -> str:
        """Load JupyterLab and all enabled server extensions.

        Returns:
            The address to open in a browser, with the token.

        Raises:
            LabMissing: JupyterLab is not installed in this environment, or not enabled.
        """
        manager: Any = self.extension_manager
        if "jupyterlab" not in manager.extensions:
            super().find_server_extensions()
            if not self.jpserver_extensions.get("jupyterlab"):
                raise LabMissing("JupyterLab is not installed in nb's environment.")
            extensions: dict[str, bool] = self.jpserver_extensions
            for name, is_enabled in sorted(extensions.items()):
                if name not in manager.extensions and manager.add_extension(name, is_enabled):
                    manager.link_extension(name)
                    manager.load_extension(name)
        token = cast("Any", self.identity_provider).token
        return f"{self._url}lab?token={token}"

    async def _post_start(self) -> None:
        await super()._post_start()
        self._url = self.connection_url  # Loading an extension resets the port.
        with suppress(BrokenPipeError):  # the command that started it was killed
            sys.stdout.write(f"{LISTENS}\n")
            sys.stdout.flush()
        # The command that started it has read this and closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        logger.info("Server %s of %s listens", os.getpid(), self.project.root)


def configuration(project: Project) -> Config:
    """Return the configuration of a project's server that overrides the user's."""
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
            "ProjectKernelManager": {"kernels_dir": str(Path(project.folder, KERNELS))},
        }
    )


def main() -> int:
    """Run the server until it is stopped; return the exit status."""
    project = Project(sys.argv[1])
    said = logging.StreamHandler()
    said.setFormatter(MaskingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[said])
    logger.setLevel(logging.INFO)
    try:
        Path(project.folder, KERNELS).mkdir(mode=0o700, exist_ok=True)
        app = ProjectServerApp.instance(config=configuration(project))
        app.project = project
        app.initialize(argv=[])
        app.start()
    except CommandError as problem:
        sys.stdout.write(f"{problem}\n")
        return REFUSED
    except Exception as problem:
        logger.exception("The server ended")
        sys.stdout.write(f"the server ended: {masked(str(problem))}; {project.log} has more.\n")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
