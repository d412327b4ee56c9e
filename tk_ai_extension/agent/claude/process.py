"""How Claude's process receives its keys: by file descriptors, through a small launcher."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tk_ai_extension.agent.claude import launch
from tk_ai_extension.agent.claude.providers import OAUTH
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


def started_by_launcher(options: ClaudeAgentOptions, folder: Path) -> Transport | None:
    """Return a transport that passes the keys in ``options.env`` by file descriptors.

    None on Windows, without the program, if the folder does not allow programs, or if the SDK has
    changed: the SDK then starts the program itself, with the keys in its environment.

    Args:
        options: Options of the SDK.
        folder: Folder for the launcher.
    """
    if os.name == "nt" or shutil.which(str(options.cli_path)) is None:
        return None
    try:
        from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport
    except ImportError:
        logger.warning("Unknown transport of claude-agent-sdk: keys are passed by the environment.")
        return None
    launcher = _launcher(folder, str(options.cli_path))
    if launcher is None:
        return None
    keys = {DESCRIPTORS[name]: options.env.get(name) for name in DESCRIPTORS}
    line = json.dumps({name: key for name, key in keys.items() if key})

    class LaunchedTransport(SubprocessCLITransport):
        """The SDK's transport; it first writes the keys to the launcher."""

        async def connect(self) -> None:
            await super().connect()
            await self.write(f"{line}\n")

    launched = replace(
        options,
        cli_path=launcher,
        env=options.env | dict.fromkeys(DESCRIPTORS, ""),
        # As the SDK does with a transport of its own.
        permission_prompt_tool_name="stdio" if options.can_use_tool else None,
    )
    return LaunchedTransport(_nothing(), launched)


def _launcher(folder: Path, program: str) -> Path | None:
    """Return the launcher, written if missing; None if programs cannot run there."""
    path = folder / "launch"
    words = [sys.executable, "-I", "-S", str(Path(launch.__file__).resolve()), program]
    text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
    try:
        with _WRITING:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                write_private(path, text, mode=0o700)
    except OSError as error:
        logger.warning("Cannot write Claude's launcher: %s", error.strerror)
        return None
    return path if os.access(path, os.X_OK) else None


async def _nothing() -> AsyncIterator[Json]:
    for each in ():
        yield each
