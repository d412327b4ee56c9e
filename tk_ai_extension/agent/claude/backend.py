"""The Claude Agent SDK as an `AgentBackend`: one CLI process per chat, with our tools and its own for files.

The process reads no settings or memory files of the user, runs no commands in a message's text, and
connects only to the provider. Only it gets the provider's key: by a file descriptor, from a launcher.
"""

from __future__ import annotations

import asyncio
import glob
import json
import logging
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.agent.backend import (
    SERVER,
    STOP_TIMEOUT,
    AgentEvent,
    AgentSession,
    AgentTurnEnded,
    ContentBlock,
    Heartbeat,
    HistoryMissing,
    SessionConfig,
    TextBlock,
    build_tool_server,
    result_of_agent,
)
from tk_ai_extension.agent.chat_events import (
    BlocksDiscarded,
    NoticeAdded,
    Question,
    QuestionAsked,
    QuestionOption,
    RequestRetried,
    TextDelta,
    ThinkingDelta,
    ToolAnswered,
    ToolCalled,
    UsageReported,
)
from tk_ai_extension.agent.chat_store import HistoryPosition
from tk_ai_extension.agent.claude import key_launcher
from tk_ai_extension.agent.claude.providers import OAUTH, ClaudeProvider
from tk_ai_extension.agent.claude.user_connection import provider_error
from tk_ai_extension.agent.launch_settings import INHERITED, gc_paused, make_work_folder, matching
from tk_ai_extension.agent.tour_agent import TourSession
from tk_ai_extension.agent.turn import ActionRequest
from tk_ai_extension.kernels.environment_variables import SECRET_WORDS
from tk_ai_extension.model.agent_errors import AgentDied, AgentUnavailable, NoModel
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.private_files import write_private
from tk_ai_extension.model.proposals import Proposal, ProposalLine, ProposalStep, diff_lines, marked
from tk_ai_extension.tools.registry import Registry, argument_proposal
from tk_ai_extension.workspace.files import Files, locate_text, read_if_exists
from tk_ai_extension.workspace.permission_requests import Effect

if TYPE_CHECKING:
    from claude_agent_sdk import (
        CanUseTool,
        ClaudeAgentOptions,
        ClaudeSDKClient,
        Message,
        ResultMessage,
        ToolResultBlock,
        Transport,
    )
    from mcp.server import Server

logger = logging.getLogger(__name__)

PREFIX = f"mcp__{SERVER}__"

FILE_TOOLS: Mapping[str, Effect] = {"Read": "READ", "Edit": "WRITE", "Write": "WRITE"}
"""The CLI's own tools that Claude gets if the root is a folder, with their effects. Its search tools would
find hidden files. Edit and Write refuse a file that changed since Claude read it."""

ASK = "AskUserQuestion"
"""The CLI's own tool that asks the person questions. The permission for its call has the answers."""

DOUBLE = "read_file"
"""Our tool that Claude does not get with `FILE_TOOLS`: the CLI edits only what its own tool has read."""

_FILES = """
Read, Edit and Write are for text files below {folder}, by absolute path, never for notebooks. Your \
working directory is empty."""

DESCRIPTORS: Mapping[str, str] = {
    "ANTHROPIC_API_KEY": "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
    OAUTH: "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
}
"""For the variable of each key: the variable with the file descriptor from which the CLI reads the key
instead. Other processes of the same user can read a process's environment."""


class ClaudeBackend:
    """Claude as an `AgentBackend`; without a model, the tour answers.

    The tour has no sessions: a chat resumes Claude's session once a model is connected again.

    Args:
        folder: Where the CLI stores its sessions; created with mode 0700.
        provider: Returns the current provider.
        cli: The CLI's path; empty for the SDK's bundled one, else the first one in PATH.
    """

    name = "Claude"

    def __init__(
        self, folder: Path, provider: Callable[[], Awaitable[ClaudeProvider]], cli: str = ""
    ) -> None:
        self._folder = folder
        self._provider = provider
        self._cli = cli

    async def provider(self) -> ClaudeProvider:
        """Return the current provider."""
        return (await self._provider()).require_ready()

    async def start(self, config: SessionConfig) -> AgentSession:
        """Start a process of the CLI, or the tour."""
        provider = cast("ClaudeProvider", config.provider)
        if provider.name == "tour":
            return TourSession(config.call)
        await asyncio.to_thread(_import_sdk)
        import claude_agent_sdk as sdk

        if _folder(config) is not None:
            registry = Registry(tool for tool in config.registry if tool.name != DOUBLE)
            config = replace(config, registry=registry)
        server = build_tool_server(config.registry, config.call)
        options = await asyncio.to_thread(_options, provider, self._folder, config, server)
        options.cli_path = self._cli or _cli(Path(sdk.__file__).parent / "_bundled" / "claude")
        transport = await asyncio.to_thread(started_by_launcher, options)
        client = sdk.ClaudeSDKClient(options, transport=transport)
        try:
            await client.connect()
        except sdk.CLINotFoundError as error:
            raise AgentUnavailable(f"Claude's program was not found: {error!s}.") from error
        except Exception as error:
            # The SDK has no exception class for a request that the process refuses.
            said = f"Claude's process ended while starting: {provider.redact(str(error))}."
            if await asyncio.to_thread(_is_missing, self._folder, config.history):
                raise HistoryMissing(said) from error
            raise AgentDied(said) from error
        return ClaudeSession(client, config, provider.redact)

    async def forget(self, session: str) -> None:
        """Remove the CLI's data of a session."""
        await asyncio.to_thread(_forget, self._folder, session)


class ClaudeSession:
    """A running process of the CLI, as an `AgentSession`.

    Its messages are always read, also between turns, so that the end of the process is noticed at once.

    Args:
        client: The connected client of the SDK.
        config: Settings of the session.
        redact: Removes the provider's secrets from a text of the process.
    """

    def __init__(
        self,
        client: ClaudeSDKClient,
        config: SessionConfig,
        redact: Callable[[str], str],
    ) -> None:
        self._client = client
        self._model = config.model
        self._redact = redact
        self._translator = ClaudeEventTranslator(redact)
        self._events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read(), name="tk-ai messages of Claude")
        self._ended = "Claude's process has ended."
        self._unresponsive = False

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return not self._reading.done()

    async def send(
        self, content: Sequence[ContentBlock], *, model: str, options: Mapping[str, str]
    ) -> None:
        """Begin a turn."""
        del options
        self._translator = ClaudeEventTranslator(self._redact)
        try:
            if model != self._model:
                await self._client.set_model(model)
                self._model = model
            await self._client.query(_message(content))
        except Exception as error:
            # See `interrupt`.
            said = self._redact(str(error))
            raise AgentDied(f"Claude's process has ended: {said}.") from error

    async def receive(self) -> AgentEvent:
        """Return the next event."""
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)
            raise AgentDied(self._ended)
        return event

    async def interrupt(self) -> None:
        """End the running turn; its result follows."""
        self._translator.interrupted = True
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._client.interrupt()
        except Exception as error:
            self._unresponsive = True
            # The SDK has no exception class for a request that the process refuses.
            said = self._redact(str(error))
            raise AgentDied(f"Claude did not respond to the interrupt: {said}.") from error

    async def close(self) -> None:
        """End the process."""
        # Without an interrupt the SDK waits some seconds for a busy process to end.
        if not self._reading.done() and not self._unresponsive:
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
                for event in self._translator.translate(message):
                    self._events.put_nowait(event)
                if self._translator.refused is not None and not self._translator.interrupted:
                    await self._client.interrupt()
                    self._translator.interrupted = True
        except sdk.ClaudeSDKError as error:
            self._ended = f"Claude's process has ended: {self._redact(str(error))}."
            logger.warning("%s", self._ended)
        except Exception:
            self._ended = "Claude's process has ended: one of its messages could not be read."
            logger.exception("A message of Claude's process could not be read")
        finally:
            self._events.put_nowait(None)


class ClaudeEventTranslator:
    """Translates the messages of one turn into events.

    Args:
        redact: Removes secrets from a text: an API may repeat the key that it refuses.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self.interrupted = False
        """Whether the turn was interrupted."""
        self.refused: ToolError | None = None
        """The error of a key that the provider refused: no retry makes it valid."""
        # Tool names of the calls so far, by call id.
        self._called: dict[str, str] = {}
        # The session's last entry, for forking it (`resume_session_at`).
        self._position: str | None = None
        self._blocks = 0
        # Number in the turn of the first block of the message that is being streamed.
        self._first: int | None = None

    def translate(self, message: Message) -> list[AgentEvent]:
        """Return the events of a message, at least one."""
        return list(self._events(message)) or [Heartbeat()]

    def _events(self, message: Message) -> Iterator[AgentEvent]:  # noqa: C901, PLR0912 (a kind each)
        import claude_agent_sdk as sdk

        match message:
            case sdk.StreamEvent():
                if message.parent_tool_use_id is None:
                    yield from self._streamed(message.event)
            case sdk.AssistantMessage():
                self._position = message.uuid or self._position
                for block in message.content:
                    if isinstance(block, sdk.ToolUseBlock):
                        # A tool of a user's MCP server keeps the server's name as a prefix.
                        tool = block.name.removeprefix(PREFIX).removeprefix("mcp__")
                        self._called[block.id] = tool
                        yield ToolCalled(block.id, tool, dict(block.input))
            case sdk.UserMessage(content=list(blocks)):
                self._position = message.uuid or self._position
                for block in blocks:
                    if isinstance(block, sdk.ToolResultBlock):
                        yield self._answered(block)
            case sdk.UserMessage():
                # The CLI's text about a command; its last entry in the history.
                self._position = message.uuid or self._position
            case sdk.ResultMessage():
                yield _used(message)
                yield HistoryPosition(message.session_id, self._position)
                yield AgentTurnEnded(self.refused or failure(message, self._redact))
            case sdk.SystemMessage(subtype="compact_boundary"):
                yield NoticeAdded("Claude has replaced the earlier messages by a summary.")
            case sdk.SystemMessage(subtype="api_retry", data={"error_status": 401}):
                self.refused = provider_error(401, "")
            case sdk.SystemMessage():
                yield from _system(message.subtype, message.data)
            case _:
                pass

    def _streamed(self, event: Mapping[str, Any]) -> Iterator[AgentEvent]:
        match event.get("type"):
            case "message_start":
                if self._first is not None:
                    # The previous stream was interrupted: its content is sent again.
                    self._blocks = self._first
                    yield BlocksDiscarded(self._first)
                self._first = self._blocks
            case "content_block_start":
                self._blocks += 1
            case "content_block_delta" if self._first is not None:
                block = self._first + int(event["index"])
                match event["delta"]:
                    case {"type": "text_delta", "text": str(piece)} if piece:
                        yield TextDelta(block, piece)
                    case {"type": "thinking_delta", "thinking": str(piece)} if piece:
                        yield ThinkingDelta(block, piece)
                    case _:
                        pass
            case "message_delta" if event["delta"].get("stop_reason"):
                # An interrupted stream stops as well, but without a stop reason.
                self._first = None
            case _:
                return

    def _answered(self, block: ToolResultBlock) -> ToolAnswered:
        """Return the result of a call that never reached this server; `Turn` ignores the others."""
        call, text = str(block.tool_use_id), _plain(block.content)
        return result_of_agent(call, self._called.get(call, ""), text, ok=not block.is_error)


def _used(result: ResultMessage) -> UsageReported:
    """Return the usage of the turn that ends with this result; its cost covers the session.

    The CLI knows the prices of Claude's models only, and applies them to any other model.
    """
    usage = result.usage or {}
    is_priced = all("claude" in model.lower() for model in result.model_usage or ())
    return UsageReported(
        input_tokens=int(usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("output_tokens") or 0),
        cache_read_tokens=int(usage.get("cache_read_input_tokens") or 0),
        cache_write_tokens=int(usage.get("cache_creation_input_tokens") or 0),
        session_cost_usd=result.total_cost_usd if is_priced else None,
        seconds=round(result.duration_ms / 1000, 3),
    )


def _system(subtype: str, data: Mapping[str, Any]) -> Iterator[AgentEvent]:
    if subtype == "init" and data.get("session_id"):
        yield HistoryPosition(str(data["session_id"]))
        for server in data.get("mcp_servers") or ():
            if server.get("status") == "failed":
                yield NoticeAdded(f"The MCP server {server.get('name')} did not start.")
    elif subtype == "api_retry":
        yield RequestRetried(
            attempt=int(data.get("attempt") or 1),
            attempts=int(data.get("max_retries") or 0),
            reason=str(data.get("error") or "no response").replace("_", " "),
        )


def failure(result: ResultMessage, redact: Callable[[str], str]) -> ToolError | None:
    """Return the error of a turn, or None; failures of the provider arrive as results.

    Args:
        result: The last message of the turn.
        redact: Removes secrets from the provider's message: some repeat the key that they refuse.
    """
    if not result.is_error:
        return None
    status = result.api_error_status
    said = (result.result or "; ".join(result.errors or ()) or result.subtype).strip()
    said = redact(said.removeprefix("API Error: ")).rstrip(".")[:500]
    if status is None and ("not logged in" in said.lower() or "/login" in said.lower()):
        return NoModel("No model is connected: there is no key.")
    return provider_error(status, said)


def _plain(content: str | list[Json] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = (cast("str", part.get("text", "")) for part in content if part.get("type") == "text")
    return "\n".join(parts)


def _import_sdk() -> None:
    with gc_paused():
        import_module("claude_agent_sdk")


async def _message(content: Sequence[ContentBlock]) -> AsyncIterator[Json]:
    """Yield a person's message as the SDK takes it."""
    yield {
        "type": "user",
        "message": {"role": "user", "content": [_block(each) for each in content]},
        "parent_tool_use_id": None,
    }


def _block(block: ContentBlock) -> Json:
    """Return a content block of the Messages API."""
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    source = {"type": "base64", "media_type": block.mime, "data": block.data}
    return {"type": "image", "source": source}


def _files(folder: Path, session: str) -> list[Path]:
    """Return the CLI's files and folders of a session."""
    return [*(folder / "projects").glob(f"*/{glob.escape(session)}*")]


def _is_missing(folder: Path, history: HistoryPosition | None) -> bool:
    """Return whether the CLI's history is missing, or lacks the entry at which it should end."""
    if history is None:
        return False
    paths = [path for path in _files(folder, history.session) if path.suffix == ".jsonl"]
    position = (history.position or "").encode()
    return not any(position in path.read_bytes() for path in paths)


def _forget(folder: Path, session: str) -> None:
    # The SDK's `delete_session` uses the folder that the server's own environment names.
    for path in _files(folder, session):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _options(
    provider: ClaudeProvider, folder: Path, session: SessionConfig, server: Server[Any]
) -> ClaudeAgentOptions:
    import claude_agent_sdk as sdk

    work, root = make_work_folder(folder, "work"), _folder(session)
    # Without this rule, the CLI reads files in its own folders without asking.
    rules = {"allow": [f"mcp__{SERVER}"], "ask": list(FILE_TOOLS)}
    prompt = session.instructions + ("" if root is None else _FILES.format(folder=root))
    return sdk.ClaudeAgentOptions(
        # The CLI asks for no permission of our tools: the policy is applied where the tool runs. It asks
        # for each call of its own tools, and of the user's MCP servers.
        tools=[ASK] if root is None else [*FILE_TOOLS, ASK],
        mcp_servers={SERVER: {"type": "sdk", "name": SERVER, "instance": server}},
        strict_mcp_config=True,
        permission_mode="default",
        settings=json.dumps({"permissions": rules}),
        can_use_tool=_permit(session),
        setting_sources=[],
        system_prompt={"type": "custom", "prompt": prompt, "snapshot": False},
        include_partial_messages=True,
        # Read no `@/path` in a message's text, and run no `/cost`.
        verbatim_prompts=True,
        model=session.model,
        thinking=None if provider.thinking else {"type": "disabled"},
        resume=None if session.history is None else session.history.session,
        resume_session_at=None if session.history is None else session.history.position,
        cwd=work,
        # The SDK adds the server's environment: set its other variables to empty.
        env=dict.fromkeys(os.environ, "")
        | matching(os.environ, INHERITED)
        | _environment(provider, folder),
        stderr=lambda line: logger.debug("claude: %s", provider.redact(line)),
        max_buffer_size=64 << 20,
        extra_args=_user_servers(folder, session, provider),
    )


def _user_servers(
    folder: Path, session: SessionConfig, provider: ClaudeProvider
) -> dict[str, str | None]:
    """Write the user's MCP servers to a private file, as they may hold secrets; return the CLI's argument."""
    if not session.servers:
        return {}
    # The servers would inherit the provider's key from the CLI's environment.
    hidden = dict.fromkeys(matching(provider.environment, SECRET_WORDS), "")
    servers = {
        each.name: {"type": "http", "url": each.url, "headers": each.headers}
        if each.url
        else {
            "type": "stdio",
            "command": each.command,
            "args": each.args,
            "env": hidden | each.env,
        }
        for each in session.servers
    }
    file = folder / "mcp.json"
    write_private(file, json.dumps({"mcpServers": servers}))
    return {"mcp-config": str(file)}


def _folder(config: SessionConfig) -> Path | None:
    """Return the root, if it is a folder of this machine."""
    return None if config.files is None else config.files.folder


def _permit(config: SessionConfig) -> CanUseTool:
    """Return the SDK's permission callback, for the CLI's own tools and those of the user's MCP servers."""
    import claude_agent_sdk as sdk

    async def permit(
        tool: str, arguments: dict[str, Any], context: sdk.ToolPermissionContext
    ) -> sdk.PermissionResultAllow | sdk.PermissionResultDeny:
        call = context.tool_use_id or ""
        try:
            if tool == ASK:
                answers = await _ask(config, call, arguments["questions"])
                return sdk.PermissionResultAllow(updated_input=arguments | {"answers": answers})
            if tool in FILE_TOOLS and config.files is not None:
                action = await _file_action(config.files, call, tool, arguments)
            else:
                action = _server_action(call, tool.removeprefix("mcp__"), arguments)
            await config.permit(action)
        except ToolError as refusal:
            return sdk.PermissionResultDeny(message=refusal.as_text())
        return sdk.PermissionResultAllow(updated_input=arguments)

    return permit


async def _ask(config: SessionConfig, call: str, asked: Sequence[Json]) -> dict[str, str]:
    """Return the person's answers to the questions of a call of `ASK`, by the question."""
    questions: list[Question] = []
    for each in asked:
        offered = each.get("options") or ()
        options = [QuestionOption(one["label"], one.get("description") or "") for one in offered]
        multiple = bool(each.get("multiSelect"))
        questions.append(Question(each["question"], each.get("header") or "", options, multiple))
    answers = await config.ask(QuestionAsked(call, ASK, questions))
    given = zip(questions, answers, strict=False)
    return {question.text: ", ".join(one) for question, one in given if one}


def _server_action(call: str, name: str, arguments: Mapping[str, Any]) -> ActionRequest:
    """Return the action of a tool of a user's MCP server, with the name ``server__tool``."""
    server, _, short = name.partition("__")
    proposal = argument_proposal(f"Call {short} of the MCP server {server}", arguments)
    return ActionRequest(call, name, "EXECUTE", arguments, proposal, (), scope="tool")


async def _file_action(
    files: Files, call: str, tool: str, arguments: Mapping[str, Any]
) -> ActionRequest:
    """Return the action of one of the CLI's own tools for files.

    Raises:
        PathRefused, NotReadable: The file is a notebook, outside the root, hidden, or no text.
    """
    effect, file = FILE_TOOLS[tool], str(arguments.get("file_path"))
    path = files.locate(file) if effect == "WRITE" else locate_text(files, file)
    title = f"{tool} {path}"
    steps: tuple[ProposalStep, ...] = ()
    if effect == "WRITE":
        before = await read_if_exists(files, path)
        lines = await asyncio.to_thread(_file_diff, before, arguments)
        steps = (ProposalStep("arguments", title, lines=lines),)
    # `ActionRequest.paths` are absolute.
    paths = (str(Path(files.folder or "/") / path),)
    return ActionRequest(call, tool, effect, arguments, Proposal(title, steps), paths, scope="any")


def _file_diff(before: str | None, arguments: Mapping[str, Any]) -> tuple[ProposalLine, ...]:
    """Return the diff of a call of Edit, or of Write.

    The CLI keeps the file's line endings, and also finds a text with other quotation marks. If it replaces
    a text by nothing, it also removes the line ending after the text.
    """
    old, new = str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
    text = (before or "").replace("\r\n", "\n")
    if not new and not old.endswith("\n") and f"{old}\n" in text:
        old += "\n"
    if "content" in arguments:
        after = str(arguments["content"])
    elif old not in text:
        text, after = old, new
    else:
        after = text.replace(old, new, -1 if arguments.get("replace_all") else 1)
    return diff_lines(text, after) if text else marked("+", after)


def _environment(provider: ClaudeProvider, folder: Path) -> dict[str, str]:
    """Return the variables that are added to the inherited ones and override them."""
    return {
        "CLAUDE_CODE_MAX_RETRIES": "4",
        "API_TIMEOUT_MS": "600000",
        **provider.environment,
        "CLAUDE_CONFIG_DIR": str(folder),
        # In the user's own cache folder, the CLI's logs would be world-readable.
        "XDG_CACHE_HOME": str(folder / "cache"),
        # Without it the CLI also connects to other hosts than the provider's.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Offer every tool at once, without the tool that searches for tools.
        "ENABLE_TOOL_SEARCH": "false",
    }


def _cli(bundled: Path) -> str:
    """Return the SDK's bundled CLI, else the first one in PATH.

    Without `cli_path` the SDK leaves a thread behind that keeps the server from exiting.

    Raises:
        AgentUnavailable: there is no CLI.
    """
    found = str(bundled) if bundled.is_file() else shutil.which("claude")
    if found is None:
        raise AgentUnavailable("The installed claude-agent-sdk has no `claude` for this platform.")
    return found


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
            return [sys.executable, "-I", "-S", key_launcher.__file__, *build_command(self)]

        async def connect(self) -> None:
            await super().connect()
            await self.write(f"{line}\n")

    launched = replace(
        options,
        env=options.env | dict.fromkeys(DESCRIPTORS, ""),
        # The SDK sets this for its own transport only.
        permission_prompt_tool_name="stdio" if options.can_use_tool else None,
    )
    return LaunchedTransport(_message(()), launched)
