"""What the environment of a kernel holds when nobody says otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

SECRET_NAMES = ("ANTHROPIC_*", "CLAUDE_*")
"""Patterns of variables that are the agent's, and none of a kernel's business."""


def without(environment: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """An environment without the variables whose names match one of the patterns (`fnmatch`)."""
    left_out = tuple(patterns)
    return {
        name: value
        for name, value in environment.items()
        if not any(fnmatchcase(name, pattern) for pattern in left_out)
    }


class InheritedEnvironment:
    """This process's environment without the agent's secrets.

    Args:
        secrets: Further names or patterns (`fnmatch`) to leave out: those of ``.secrets.env``.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._left_out = (*SECRET_NAMES, *secrets)

    def environment(self, kernel_name: str, path: str | None) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """All variables of the new kernel's process."""
        return without(os.environ, self._left_out)
