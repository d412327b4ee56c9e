"""The environment of all kernels of a server, where their processes begin: no secrets, but a pass each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Protocol

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Callable, List, Unicode
from traitlets.config import Config

from tk_ai_extension.kernels.environment import SECRET_NAMES, without

NAME = "tk-ai-local-provisioner"
"""The provisioner's name in a kernelspec's metadata, too."""


class Passes(Protocol):
    """Gives each kernel what its code may show to its server: good for that kernel, until it ends."""

    async def issue(self, kernel_id: str) -> Mapping[str, str]:
        """Variables for the environment of a kernel whose process is about to be launched."""
        ...

    def revoke(self, kernel_id: str) -> None:
        """The kernel has ended."""
        ...


class FilteringProvisioner(LocalProvisioner):
    """Jupyter's local provisioner, with an environment from which variables are left out.

    Whoever starts the kernel, and however often it is started again: Jupyter's session manager puts
    the server's whole environment back when a notebook is renamed. What a kernelspec sets itself
    (its ``env``) is meant for the kernel, and stays.
    """

    kernel_id: Any

    left_out = List(
        Unicode(),
        config=True,
        help="Names or patterns of environment variables that kernels do not get.",
    )

    passes = Callable(
        None,
        allow_none=True,
        config=True,
        help="Gives the `Passes` of kernels; none where left out.",
    )

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Called by the kernel manager before each launch of the process."""
        environment = without(kwargs.pop("env", os.environ), self.left_out)
        if self.passes is not None:
            environment.update(await self.passes().issue(self.kernel_id))
        return await super().pre_launch(env=environment, **kwargs)

    async def cleanup(self, restart: bool = False) -> None:
        """Called by the kernel manager when the process has ended."""
        if self.passes is not None and not restart:
            self.passes().revoke(self.kernel_id)
        await super().cleanup(restart=restart)


def keep_secrets_from_kernels(
    manager: Any, secrets: Iterable[str] = (), passes: Passes | None = None
) -> None:
    """Has all kernels that a multi-kernel manager starts from now on do without the secrets.

    Where an administrator has chosen another default provisioner, it is left alone.

    Args:
        manager: The multi-kernel manager: of each, only its own kernels are concerned.
        secrets: Names or patterns beside `SECRET_NAMES`.
        passes: Gives each kernel a pass; None for none.
    """
    factory: Any = KernelProvisionerFactory.instance(parent=manager)
    if factory.default_provisioner_name not in {"local-provisioner", NAME}:
        return
    entry = f"{FilteringProvisioner.__module__}:{FilteringProvisioner.__qualname__}"
    factory.provisioners[NAME] = EntryPoint(NAME, entry, factory.GROUP_NAME)
    factory.default_provisioner_name = NAME
    names = [*SECRET_NAMES, *secrets]
    settings: dict[str, Any] = {"left_out": names}
    if passes is not None:
        # A function, since traitlets copies every other value that it is configured with.
        settings["passes"] = lambda: passes
    manager.update_config(Config({FilteringProvisioner.__name__: settings}))
