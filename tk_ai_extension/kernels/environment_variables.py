"""The environment variables of kernels.

Jupyter gives a kernel the server's whole environment. This package removes the variables of agents and
models; add those of a new agent here. Kernels of ``nb`` and kernels in a sandbox get only the variables on
an allowlist, so no exported key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

WITHHELD_FROM_KERNELS = (
    *(
        "ANTHROPIC_*",
        "CLAUDE_*",
        "CODEX_*",
        "COPILOT_*",
        "GOOSE_*",
        "KIRO_*",
        "OPENCODE_*",
        "VIBE_*",
    ),
    *("AWS_BEARER_TOKEN_BEDROCK", "JPY_API_TOKEN", "JUPYTER_TOKEN"),
)
"""Patterns (`fnmatch`) of variables that kernels do not get: those that only agents and models use, and
the tokens with which code could call the server as its user and approve its requests.
(``JPY_API_TOKEN`` is the Hub's token, by the name of old versions; ``JUPYTERHUB_API_TOKEN`` stays for
notebooks that call the Hub.) Keys of providers that notebooks use as well, such as ``OPENAI_API_KEY`` and
AWS's credentials, stay: ``kernel_env_exclude`` removes them."""


def exclude_variables(environment: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return an environment without the variables with names that match a pattern (`fnmatch`)."""
    left_out = tuple(patterns)
    return {name: value for name, value in environment.items() if not matches(name, left_out)}


def inherited_environment(secrets: Iterable[str] = ()) -> dict[str, str]:
    """Return this process's environment without the agent's secrets.

    Args:
        secrets: Further names or patterns (`fnmatch`) to remove: those of ``.secrets.env``.
    """
    return exclude_variables(os.environ, (*WITHHELD_FROM_KERNELS, *secrets))


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
