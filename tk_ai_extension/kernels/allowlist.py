"""The environment of kernels that get nothing but what is named: no key that somebody exported."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("TERM", "COLORTERM", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONHASHSEED", "PYTHONUTF8", "MPLBACKEND", "CUDA_*", "NVIDIA_*"),
    *("OMP_*", "OPENBLAS_*", "MKL_*", "R_HOME", "R_LIBS*", "JULIA_*", "JAVA_HOME"),
    *("JUPYTER_*PATH", "JUPYTER_*DIR", "IPYTHONDIR", "XDG_*", "JPY_*", "SSL_CERT_*"),
)
"""Names and patterns (`fnmatch`) of what programs need to find and show things."""

SECRET_WORDS = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSW*", "*CREDENTIAL*")
"""What is never allowed, whatever its name begins with."""


def allowed(environment: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """What of an environment a kernel may have.

    Args:
        environment: All variables.
        more: Names or patterns beside `ALLOWED`, which are what they say even if they sound secret.
    """
    named = tuple(more)
    return {
        name: value
        for name, value in environment.items()
        if _matches(name, named) or (_matches(name, ALLOWED) and not _matches(name, SECRET_WORDS))
    }


class AllowedEnvironment:
    """What this process's environment has of `ALLOWED`: a `KernelEnvironment`.

    Args:
        more: Further names or patterns to let through.
    """

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._more = tuple(more)

    def environment(self, kernel_name: str, path: str | None) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """All variables of the new kernel's process."""
        return allowed(os.environ, self._more)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
