"""The environment of all kernels of a server, kept free of secrets where their processes begin."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import List, Unicode
from traitlets.config import Config

from tk_ai_extension.kernels.environment import SECRET_NAMES, without

NAME = "tk-ai-local-provisioner"
"""The provisioner's name in a kernelspec's metadata, too."""


class FilteringProvisioner(LocalProvisioner):
    """Jupyter's local provisioner, with an environment from which variables are left out.

    Whoever starts the kernel, and however often it is started again: Jupyter's session manager puts
    the server's whole environment back when a notebook is renamed. What a kernelspec sets itself
    (its ``env``) is meant for the kernel, and stays.
    """

    left_out = List(
        Unicode(),
        config=True,
        help="Names or patterns of environment variables that kernels do not get.",
    )

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Called by the kernel manager before each launch of the process."""
        environment = without(kwargs.pop("env", os.environ), self.left_out)
        return await super().pre_launch(env=environment, **kwargs)


def keep_secrets_from_kernels(manager: Any, secrets: Iterable[str] = ()) -> None:
    """Has all kernels that a multi-kernel manager starts from now on do without the secrets.

    Where an administrator has chosen another default provisioner, it is left alone.

    Args:
        manager: The multi-kernel manager: of each, only its own kernels are concerned.
        secrets: Names or patterns beside `SECRET_NAMES`.
    """
    factory: Any = KernelProvisionerFactory.instance(parent=manager)
    if factory.default_provisioner_name not in {"local-provisioner", NAME}:
        return
    entry = f"{FilteringProvisioner.__module__}:{FilteringProvisioner.__qualname__}"
    factory.provisioners[NAME] = EntryPoint(NAME, entry, factory.GROUP_NAME)
    factory.default_provisioner_name = NAME
    names = [*SECRET_NAMES, *secrets]
    manager.update_config(Config({FilteringProvisioner.__name__: {"left_out": names}}))
