"""Claude: one process of the CLI that the Claude Agent SDK brings, with our tools and no others.

The process reads nothing of the user's disk (no settings, no memory files, no commands in a
message's text) and talks to the model's server alone. Its environment holds the model's key; nothing
else does.
"""

from __future__ import annotations

import asyncio
import glob
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tk_ai_extension.agent.claude.branches import Origin
from tk_ai_extension.agent.claude.process import inherited, started_by_launcher, without
from tk_ai_extension.agent.claude.providers import Provider
from tk_ai_extension.agent.imports import import_sdk
from tk_ai_extension.model.agent_errors import AgentDied, AgentUnavailable
from tk_ai_extension.model.cells import Json

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message
    from mcp.server import Server

logger = logging.getLogger(__name__)

SERVER = "tk"
"""What the CLI calls our MCP server: tools are ``mcp__tk__name`` to the model."""

START = 60.0
"""Seconds in which the process has to answer."""
LEAVE = 5.0
"""Seconds that it gets to end."""


@dataclass(frozen=True, slots=True)
class ClaudeConfig:
    """What a process is started with, the same for each chat of a server.

    Attributes:
        folder: Where the CLI keeps its sessions; made with mode 0700.
        cli: The CLI's path; empty for the one that the SDK brings, else the first one in PATH.
        retries: How often the CLI asks again where the model's server fails; None: as the
            environment's ``CLAUDE_CODE_MAX_RETRIES`` says, 4 times without it.
        request_timeout: Seconds that one request to the model's server may take.
    """

    folder: Path
    cli: str = ""
    retries: int | None = None
    request_timeout: float = 600.0


class Claude:
    """A running process, and what it says.

    Made by `start`; belongs to one chat. What it says is read from the start to the end, also
    between turns, so that its end is known at once.
    """

    def __init__(
        self, client: ClaudeSDKClient, model: str, redact: Callable[[str], str] = str
    ) -> None:
        self.redact = redact
        """Takes the model's secrets out of a text: what the process says may hold some."""
        self._client = client
        self._model = model
        self._said: asyncio.Queue[Message | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read(), name="tk-ai what Claude says")
        self._why = ""
        self._deaf = False

    @classmethod
    async def start(
        cls,
        provider: Provider,
        model: str,
        config: ClaudeConfig,
        *,
        server: Server[Any],
        tools: Sequence[str],
        instructions: str,
        origin: Origin,
    ) -> Claude:
        """Starts a process.

        Args:
            provider: Where the model is.
            model: The model.
            config: What every process is started with.
            server: Our tools.
            tools: Their names: all that the model may call.
            instructions: The system prompt.
            origin: The history that it goes on with.

        Raises:
            AgentUnavailable: there is no CLI here, or it does not start.
            AgentDied: it ended while it started.
        """
        await asyncio.to_thread(import_sdk)
        import claude_agent_sdk as sdk

        options = _options(
            provider,
            model,
            config,
            server=server,
            tools=tools,
            instructions=instructions,
            origin=origin,
        )
        transport = await asyncio.to_thread(
            started_by_launcher,
            options,
            config.folder,
            {**inherited(os.environ), **_environment(provider, config)},
        )
        client = sdk.ClaudeSDKClient(options, transport=transport)
        try:
            async with asyncio.timeout(START):
                await client.connect()
        except TimeoutError:
            raise AgentUnavailable(f"Claude's process said nothing for {START:.0f} s.") from None
        except sdk.CLINotFoundError as error:
            raise AgentUnavailable(f"Claude's program is not there: {error}.") from error
        except sdk.ClaudeSDKError as error:
            said = provider.redact(str(error))
            raise AgentDied(f"Claude's process ended while it started: {said}.") from error
        return cls(client, model, provider.redact)

    @property
    def alive(self) -> bool:
        """Whether it still runs, as far as is known."""
        return not self._reading.done()

    async def ask(self, content: Sequence[Json], model: str, prompt: str) -> None:
        """Begins a turn with a user's message.

        Args:
            content: Its blocks.
            model: The model that answers.
            prompt: The id under which the session keeps it.

        Raises:
            AgentDied.
        """
        import claude_agent_sdk as sdk

        async def message() -> AsyncIterator[dict[str, Any]]:
            yield {
                "type": "user",
                "message": {"role": "user", "content": list(content)},
                "parent_tool_use_id": None,
                "uuid": prompt,
            }

        try:
            if model != self._model:
                await self._client.set_model(model)
                self._model = model
            await self._client.query(message())
        except sdk.ClaudeSDKError as error:
            said = self.redact(str(error))
            raise AgentDied(f"Claude's process has ended: {said}.") from error

    async def hear(self, seconds: float | None) -> Message:
        """What it says next.

        Raises:
            TimeoutError: nothing for so many seconds.
            AgentDied: it has ended.
        """
        async with asyncio.timeout(seconds):
            message = await self._said.get()
        if message is None:
            self._said.put_nowait(None)
            raise AgentDied(f"Claude's process has ended{self._why}.")
        return message

    async def interrupt(self) -> None:
        """Ends the turn that goes on; its result follows.

        Raises:
            AgentDied: it has ended, or does not listen.
        """
        try:
            async with asyncio.timeout(LEAVE):
                await self._client.interrupt()
        except Exception as error:
            self._deaf = True
            # The SDK has no class of its own for a request that the process refuses.
            said = self.redact(str(error))
            raise AgentDied(f"Claude did not respond to the interrupt: {said}.") from error

    async def close(self) -> None:
        """Ends the process."""
        # It would be given seconds to end by itself while it is in the middle of something.
        if self.alive and not self._deaf:
            try:
                await self.interrupt()
            except AgentDied as error:
                logger.debug("%s", error)
        await self._client.disconnect()
        self._reading.cancel()
        await asyncio.wait((self._reading,))

    async def _read(self) -> None:
        import claude_agent_sdk as sdk

        try:
            async for message in self._client.receive_messages():
                self._said.put_nowait(message)
        except sdk.ClaudeSDKError as error:
            self._why = f": {self.redact(str(error))}"
            logger.warning("Claude's process has ended%s", self._why)
        finally:
            self._said.put_nowait(None)


def forget(config: ClaudeConfig, session: str) -> None:
    """Removes what the CLI keeps of one of its sessions; looks into folders."""
    for path in (config.folder / "projects").glob(f"*/{glob.escape(session)}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _options(
    provider: Provider,
    model: str,
    config: ClaudeConfig,
    *,
    server: Server[Any],
    tools: Sequence[str],
    instructions: str,
    origin: Origin,
) -> ClaudeAgentOptions:
    import claude_agent_sdk as sdk

    work = config.folder / "work"
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    config.folder.chmod(0o700)
    environment = inherited(os.environ) | _environment(provider, config)
    return sdk.ClaudeAgentOptions(
        # Only our tools exist for it, and of those it is asked nothing: who may call what is
        # settled where the tool runs.
        tools=[],
        mcp_servers={SERVER: {"type": "sdk", "name": SERVER, "instance": server}},
        strict_mcp_config=True,
        allowed_tools=[f"mcp__{SERVER}__{tool}" for tool in tools],
        permission_mode="dontAsk",
        setting_sources=[],
        system_prompt={"type": "custom", "prompt": instructions, "snapshot": False},
        verbatim_prompts=True,
        include_partial_messages=True,
        model=model,
        thinking=None if provider.thinking else {"type": "disabled"},
        resume=origin.session,
        resume_session_at=origin.at,
        cwd=work,
        # Named, or the SDK leaves a thread behind that keeps the server from ending.
        cli_path=config.cli or _cli(Path(sdk.__file__).parent),
        env=without(os.environ, environment),
        stderr=lambda line: logger.debug("claude: %s", provider.redact(line)),
        max_buffer_size=64 << 20,
    )


def _environment(provider: Provider, config: ClaudeConfig) -> dict[str, str]:
    """What the process has besides what it inherits; what is set holds over the environment."""
    retries = config.retries
    return {
        "CLAUDE_CODE_MAX_RETRIES": "4",
        **provider.environment,
        **({} if retries is None else {"CLAUDE_CODE_MAX_RETRIES": str(retries)}),
        "CLAUDE_CONFIG_DIR": str(config.folder),
        # Its logs, which are for everybody to read in the user's own folder.
        "XDG_CACHE_HOME": str(config.folder / "cache"),
        # Without it the CLI dials out besides, whatever the model's address is.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Every tool is offered at once, and nothing is offered that stands for those to be found.
        "ENABLE_TOOL_SEARCH": "false",
        "API_TIMEOUT_MS": str(int(config.request_timeout * 1000)),
    }


def _cli(package: Path) -> str:
    """The CLI that the SDK brings for this platform, else the first one in PATH.

    Raises:
        AgentUnavailable: there is none.
    """
    bundled = package / "_bundled" / "claude"
    found = str(bundled) if bundled.is_file() else shutil.which("claude")
    if found is None:
        raise AgentUnavailable(
            "The installed claude-agent-sdk brings no `claude` for this platform."
        )
    return found
