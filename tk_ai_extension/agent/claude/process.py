"""How Claude's process receives its keys: by file descriptors, through a small launcher."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tk_ai_extension.agent.claude import launch
from tk_ai_extension.agent.claude.providers import OAUTH
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, Transport

logger = logging.getLogger(__name__)

DESCRIPTORS: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
    OAUTH: "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
}
"""Keys that the CLI reads from a descriptor, by the variable that would hold them: other processes of
the same user can read a process's environment."""


def started_by_launcher(options: ClaudeAgentOptions) -> Transport | None:
    """Return a transport that passes the keys in ``options.env`` by file descriptors.

    None on Windows, without the program, or if the SDK has changed: the SDK then starts the program
    itself, with the keys in its environment.
    """
    if os.name == "nt" or shutil.which(str(options.cli_path)) is None:
        return None
    try:
        from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

        build_command = SubprocessCLITransport._build_command  # noqa: SLF001
    except (ImportError, AttributeError):
        logger.warning("Unknown transport of claude-agent-sdk: keys are passed by the environment.")
        return None
    keys = {DESCRIPTORS[name]: options.env.get(name) for name in DESCRIPTORS}
    line = json.dumps({name: key for name, key in keys.items() if key})

    class LaunchedTransport(SubprocessCLITransport):
        """The SDK's transport; it starts the launcher, and first writes the keys to it."""

        def _build_command(self) -> list[str]:
            return [sys.executable, "-I", "-S", launch.__file__, *build_command(self)]

        async def connect(self) -> None:
            await super().connect()
            await self.write(f"{line}\n")

    launched = replace(
        options,
        env=options.env | dict.fromkeys(DESCRIPTORS, ""),
        # As the SDK does with a transport of its own.
        permission_prompt_tool_name="stdio" if options.can_use_tool else None,
    )
    return LaunchedTransport(_nothing(), launched)


async def _nothing() -> AsyncIterator[Json]:
    for each in ():
        yield each
