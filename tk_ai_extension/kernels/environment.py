"""The environment variables of kernels.

Jupyter gives a kernel the server's whole environment. This package removes the agent's secrets. Kernels
of ``nb`` and kernels in a sandbox get only the variables on an allowlist, so no exported key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from tk_ai_extension.model.agent_variables import SECRETS


def exclude_variables(environment: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return an environment without the variables with names that match a pattern (`fnmatch`)."""
    left_out = tuple(patterns)
    return {name: value for name, value in environment.items() if not matches(name, left_out)}


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

SECRET_WORDS = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSW*", "*CREDENTIAL*", "*_HEADERS")
"""Patterns (`fnmatch`) of names of variables that may hold a secret."""


def allowed(environment: Mapping[str, str], more: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of an environment that a kernel may have.

    Args:
        environment: All variables.
        more: Further names or patterns. Those of `ALLOWED` exclude names that suggest a secret.

    >>> allowed({"PATH": "/bin", "LC_TOKEN": "1", "DATA": "x"}, more=["DATA"])
    {'PATH': '/bin', 'DATA': 'x'}
    """
    named = tuple(more)
    return {
        name: value
        for name, value in environment.items()
        if matches(name, named) or (matches(name, ALLOWED) and not matches(name, SECRET_WORDS))
    }


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a variable matches one of these patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
