"""Environment of Claude's process, and how it receives its keys."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tk_ai_extension.agent.claude import launch
from tk_ai_extension.agent.claude.providers import OAUTH
from tk_ai_extension.agent.environment import inherited
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.private_files import write_private

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, Transport

logger = logging.getLogger(__name__)

DESCRIPTORS: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
    OAUTH: "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
}
"""Keys that the CLI reads from a descriptor, by the variable that would hold them: other processes of
the same user can read a process's environment."""

_WRITING = threading.Lock()
"""Held while the launcher is written: a program that is open for writing cannot be started."""


def without(environment: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """Return empty values for all other variables: the SDK adds the server's environment."""
    return dict.fromkeys(environment.keys() - kept.keys(), "") | dict(kept)


def started_by_launcher(
    options: ClaudeAgentOptions, folder: Path, environment: Mapping[str, str]
) -> Transport | None:
    """Return a transport whose process has exactly this environment and gets keys by file descriptors.

    None on Windows, without the program, if the folder does not allow programs, or
    if the SDK has changed: the SDK then starts the program itself, with ``options.env``.

    Args:
        options: Options of the SDK; ``cli_path`` and ``env`` are changed.
        folder: Folder for the launcher.
        environment: The program's whole environment.
    """
    if os.name == "nt" or shutil.which(str(options.cli_path)) is None:
        return None
    try:
        from claude_agent_sdk._internal.transport.subprocess_cli import (
            SubprocessCLITransport,
        )
    except ImportError:
        logger.warning(
            "Unknown transport of claude-agent-sdk: keys are passed in the "
            "environment of Claude's process."
        )
        return None
    launcher = _launcher(folder)
    if launcher is None:
        return None
    keys = {DESCRIPTORS[n]: v for n, v in environment.items() if n in DESCRIPTORS and v}
    said = json.dumps(
        {
            "program": str(options.cli_path),
            "environment": {n: v for n, v in environment.items() if n not in DESCRIPTORS},
            "descriptors": keys,
        }
    )

    class LaunchedTransport(SubprocessCLITransport):
        """The SDK's transport; it first writes what to start to the launcher."""

        async def connect(self) -> None:
            await super().connect()
            await self.write(f"{len(said):0{launch.DIGITS}}{said}")

    options.cli_path = launcher
    options.env = without(os.environ, inherited(os.environ))
    return LaunchedTransport(_nothing(), options)


def _launcher(folder: Path) -> Path | None:
    """Return the launcher, written if missing; None if programs cannot run there."""
    path = folder / "launch"
    words = shlex.join([sys.executable, "-I", "-S", str(Path(launch.__file__).resolve())])
    text = f'#!/bin/sh\nexec {words} "$@"\n'
    try:
        with _WRITING:
            if path.is_symlink() or not path.exists() or path.read_text(encoding="utf-8") != text:
                write_private(path, text, mode=0o700)
    except OSError as error:
        logger.warning("Cannot write Claude's launcher: %s", error.strerror)
        return None
    return path if os.access(path, os.X_OK) else None


async def _nothing() -> AsyncIterator[Json]:
    for each in ():
        yield each
