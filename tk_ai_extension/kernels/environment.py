"""The environment variables of kernels.

Jupyter gives a kernel the server's whole environment. This package removes the agent's secrets. Kernels
of ``nb`` and kernels in a sandbox get only the variables on an allowlist, so no exported key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import List, Unicode

from tk_ai_extension.model.agent_variables import SECRETS

if TYPE_CHECKING:
    from jupyter_client.multikernelmanager import MultiKernelManager


def exclude_variables(environment: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return an environment without the variables whose names match a pattern (`fnmatch`)."""
    left_out = tuple(patterns)
    return {name: value for name, value in environment.items() if not _matches(name, left_out)}


def inherited_environment(secrets: Iterable[str] = ()) -> dict[str, str]:
    """Return this process's environment without the agent's secrets.

    Args:
        secrets: Further names or patterns (`fnmatch`) to remove: those of ``.secrets.env``.
    """
    return exclude_variables(os.environ, (*SECRETS, *secrets))


ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("TERM", "COLORTERM", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONHASHSEED", "PYTHONUTF8", "MPLBACKEND", "CUDA_*", "NVIDIA_*"),
    *("OMP_*", "OPENBLAS_*", "MKL_*", "R_HOME", "R_LIBS*", "JULIA_*", "JAVA_HOME"),
    *("JUPYTER_*PATH", "JUPYTER_*DIR", "IPYTHONDIR", "XDG_*", "JPY_*", "SSL_CERT_*"),
)
"""Names and patterns (`fnmatch`) of variables that programs need to find and show things."""

SECRET_WORDS = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSW*", "*CREDENTIAL*")
"""Patterns (`fnmatch`) of names that are never allowed, even if `ALLOWED` matches."""


def allowed(environment: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of an environment that a kernel may have.

    Args:
        environment: All variables.
        more: Names or patterns in addition to `ALLOWED`; `SECRET_WORDS` does not apply to them.

    >>> allowed({"PATH": "/bin", "LC_TOKEN": "1", "DATA": "x"}, more=["DATA"])
    {'PATH': '/bin', 'DATA': 'x'}
    """
    named = tuple(more)
    return {
        name: value
        for name, value in environment.items()
        if _matches(name, named) or (_matches(name, ALLOWED) and not _matches(name, SECRET_WORDS))
    }


def allowed_environment() -> dict[str, str]:
    """Return the `ALLOWED` variables of this process's environment."""
    return allowed(os.environ)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class FilteringProvisioner(LocalProvisioner):
    """Jupyter's local provisioner, which removes variables from the kernel's environment.

    It filters at every launch, whatever starts the kernel: Jupyter's session manager restores the
    server's whole environment when a notebook is renamed. What a kernelspec sets (its ``env``) is
    meant for the kernel and stays.
    """

    kernel_id: Any

    left_out = List(
        Unicode(), help="Names or patterns of environment variables that are hidden from kernels."
    )

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Filter the environment. Called by the kernel manager before each launch of the process."""
        environment = exclude_variables(kwargs.pop("env", os.environ), self.left_out)
        return await super().pre_launch(env=environment, **kwargs)


def keep_secrets_from_kernels(manager: MultiKernelManager, secrets: Iterable[str] = ()) -> None:
    """Remove secrets from the environment of the kernels that a multi-kernel manager starts from now on.

    Another default provisioner that an administrator configured, or one that a kernelspec names, is
    not replaced.

    Args:
        manager: The multi-kernel manager. It alone is patched: jupyter_client's provisioner factory is
            shared by all managers of the process.
        secrets: Names or patterns in addition to `SECRETS`.
    """
    left_out = [*SECRETS, *secrets]
    prepare = manager.pre_start_kernel

    def pre_start_kernel(kernel_name: str | None, kwargs: Any) -> tuple[Any, str, str]:
        kernel, name, kernel_id = prepare(kernel_name, kwargs)
        if kernel.provisioner is None and _is_local(manager, kernel):
            kernel.provisioner = FilteringProvisioner(
                kernel_id=kernel_id,
                kernel_spec=kernel.kernel_spec,
                parent=kernel,
                left_out=left_out,
            )
        return kernel, name, kernel_id

    manager.pre_start_kernel = pre_start_kernel  # pyrefly: ignore[method-assign]


def _is_local(manager: MultiKernelManager, kernel: Any) -> bool:
    """Return whether a new kernel would get jupyter_client's own local provisioner by default."""
    try:
        named = "kernel_provisioner" in kernel.kernel_spec.metadata
    except NoSuchKernel:
        return False  # starting it raises the error
    factory: Any = KernelProvisionerFactory.instance(parent=manager)
    return not named and factory.default_provisioner_name == "local-provisioner"
