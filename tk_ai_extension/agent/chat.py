"""A chat that this server answers: the queue of its turns, and the agent that answers them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import mcp_types as types

from tk_ai_extension.agent.backend import (
    STOP_TIMEOUT,
    AgentBackend,
    AgentSession,
    Checkpoint,
    ContentBlock,
    HistoryMissing,
    ModelProvider,
    SessionConfig,
    TurnEnded,
    Working,
)
from tk_ai_extension.agent.context import ChatSetup, content, find_instructions, instructions
from tk_ai_extension.agent.events import (
    Began,
    Done,
    End,
    Failed,
    Planned,
    PlanSettled,
    Retried,
    Sent,
)
from tk_ai_extension.agent.requests import Message, shown
from tk_ai_extension.agent.store import Chat, ChatLog, ChatStore, History
from tk_ai_extension.agent.turn import Turn, TurnActions
from tk_ai_extension.agent.user_servers import ServerConfig
from tk_ai_extension.mcp.calls import error_content
from tk_ai_extension.model.agent_errors import (
    AgentDied,
    InvalidTurnCredential,
    ModelFailed,
    NoModel,
)
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InternalError, LimitReached, ToolError
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_TURNS = 20
"""Maximum number of queued messages of a chat."""

CLOSE = 30.0
"""Timeout to close an agent or the servers of its tools, in seconds."""


class AgentCatalog(Protocol):
    """Further agents, each with a name in the list of models."""

    def get(self, model: str) -> AgentBackend | None:
        """Return the agent of a model, installed or not; None if the model is not a further agent's."""
        ...

    def owner(self, session: str) -> AgentBackend | None:
        """Return the agent that a session of a `Checkpoint` belongs to; None for another one."""
        ...


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Settings of chats; see the app's traits."""

    silence: float = 120.0
    idle: float = 900.0
    max_live: int = 16


@dataclass(frozen=True)
class ChatServices:
    """What all chats of a server share.

    Attributes:
        workspace: What the tools work on.
        registry: The tools.
        store: Where chats are stored.
        backend: The agent that answers if the model is not another agent's.
        settings: Settings of chats.
        agents: Further agents.
        setup: The prompts and MCP servers of chats.
    """

    workspace: Workspace
    registry: Registry
    store: ChatStore
    backend: AgentBackend
    settings: ChatSettings = field(default_factory=ChatSettings)
    agents: AgentCatalog | None = None
    setup: ChatSetup = field(default_factory=ChatSetup)

    def agent_of(self, model: str) -> AgentBackend:
        """Return the agent that answers for a model."""
        return (self.agents and self.agents.get(model)) or self.backend

    def owner_of(self, session: str) -> AgentBackend:
        """Return the agent that a session belongs to."""
        return (self.agents and self.agents.owner(session)) or self.backend

    async def model(self, asked: str | None, *, usual: str = "") -> str:
        """Return the model that answers.

        Args:
            asked: The requested model, which has to exist.
            usual: The model to use if none is requested, if it still exists.

        Raises:
            NoModel: No model is connected, or none of that name.
        """
        named = asked or usual
        if self.agents is not None and self.agents.get(named) is not None:
            return named
        provider = await self.backend.provider()
        model = asked or (usual if usual in provider.models else provider.model)
        if model not in provider.models:
            raise NoModel(
                f"Unknown model `{model[:80]}`.",
                hint=f"Choose one of: {', '.join(provider.models)}.",
            )
        return model


@dataclass
class _Agent:
    """A running agent, with what it was started for."""

    session: AgentSession
    backend: AgentBackend
    provider: ModelProvider
    servers: Sequence[ServerConfig]


class LiveChat:
    """A chat with a turn since the server started.

    One agent answers the turns in order. It is started with the first turn, and closed when the chat has
    been idle for a while; the next turn resumes its history.

    Args:
        services: What all chats share.
        chat: The stored chat.
        log: The event log of the chat.
        on_idle: Called when no turn is running or queued.
    """

    def __init__(
        self,
        services: ChatServices,
        chat: Chat,
        log: ChatLog,
        on_idle: Callable[[LiveChat], None],
    ) -> None:
        self.id = chat.id
        self.user = chat.user
        self.log = log
        self._services = services
        self._on_idle = on_idle
        self._waiting: deque[Turn] = deque()
        self._turn: Turn | None = None
        # Answers the queued turns; None if there are none.
        self._working: asyncio.Task[None] | None = None
        # Answers the running turn, and whether the agent has it.
        self._answering: asyncio.Task[End] | None = None
        self._is_sent = False
        self._agent: _Agent | None = None
        # Goes on if its turn is stopped: the next turn uses the agent.
        self._starting: asyncio.Task[_Agent] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a turn is running or queued."""
        return self._working is not None

    @property
    def has_agent(self) -> bool:
        """Whether its agent is running."""
        return self._agent is not None or self._starting is not None

    @property
    def notebooks(self) -> set[str]:
        """The notebooks of the running turn: the message's, and those that the chat has connected."""
        if self._turn is None:
            return set()
        connected = self._services.workspace.notebooks.list(self._turn.caller)
        named = self._turn.message.notebook
        return {each.path for each in connected} | ({named} if named is not None else set())

    def send(self, message: Message, plan: PlanSettled | None = None) -> str:
        """Queue a turn and return its id.

        Args:
            message: The message.
            plan: What becomes of the chat's pending plan; None if there is none.

        Raises:
            LimitReached: too many messages are queued.
        """
        if len(self._waiting) >= MAX_TURNS:
            raise LimitReached(f"{MAX_TURNS} messages of this chat are queued already.")
        turn_id = secrets.token_hex(6)
        services, request = self._services, message.request
        caller = Caller(
            user=self.user,
            key=self.id,
            interface="chat",
            mode=request.mode,
            name=services.agent_of(message.model).name,
            turn=turn_id,
        )
        turn = Turn(turn_id, message, caller, services.workspace, services.registry, self.log)
        turn.publish(
            Sent(
                self.id,
                request.message,
                message.notebook,
                services.workspace.policy.mode(caller),
                message.model,
                [shown(attachment) for attachment in request.attachments],
                len(self._waiting) + (self._turn is not None),
                request.active_cell,
                request.replaces,
                request.id,
            )
        )
        if plan is not None:
            turn.publish(plan)
        self._waiting.append(turn)
        self._begin()
        return turn_id

    async def stop(self, only: str | None = None, why: str = "The user stopped this.") -> bool:
        """Stop the running and queued turns; return whether there were any.

        Args:
            only: Stop only this turn.
            why: Reason for the results of the running calls, a sentence.
        """
        stopped = [turn for turn in self._waiting if only in (None, turn.id)]
        for queued in stopped:
            self._waiting.remove(queued)
            queued.publish(Done("stopped"))
        turn = self._turn
        if turn is None or only not in (None, turn.id):
            return bool(stopped)
        turn.stop(why)
        if self._answering is not None and not self._is_sent:
            self._answering.cancel()
        elif self._answering is not None:
            # An agent that does not end the turn is closed.
            asyncio.get_running_loop().call_later(STOP_TIMEOUT, self._answering.cancel)
            if self._agent is not None:
                try:
                    await self._agent.session.interrupt()
                except AgentDied as error:
                    logger.info("%s", error.message)
        turn.cancel_calls()
        return True

    async def until_ended(self, turn_id: str) -> None:
        """Wait until a turn does not run any more and its changes are in the journal."""
        if self._turn is not None and self._turn.id == turn_id:
            await self._turn.ended.wait()

    async def close(self, why: str) -> None:
        """Stop all turns, store the events and close the agent."""
        await self.stop(why=why)
        if self._answering is not None:
            self._answering.cancel()
        if self._working is not None:
            await asyncio.wait((self._working,))
        # First: the server may be killed while the agent ends.
        await self.log.save()
        await self.rest()

    async def rest(self) -> None:
        """Close the agent, unless a turn is running: the next turn resumes its history."""
        if self._idle is not None:
            self._idle.cancel()
        if not self.busy:
            self._close_agent()
        await self._until_closed()

    # -- the turns

    def _begin(self) -> None:
        """Answer the queued turns."""
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name="tk-ai chat")

    async def _work(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        try:
            while self._waiting:
                await self._run(self._waiting.popleft())
        finally:
            self._turn = self._working = None
            idle = self._services.settings.idle
            self._idle = asyncio.get_running_loop().call_later(idle, self._expire)
            self._on_idle(self)

    async def _run(self, turn: Turn) -> None:
        """Answer a turn, from its begin to its end."""
        end: End = "failed"
        self._turn, self._is_sent = turn, False
        self._answering = asyncio.create_task(self._answer(turn))
        try:
            await asyncio.wait((self._answering,))
            end = await self._ended(turn, self._answering)
            await turn.settle()
            # The final text of a turn in the mode `plan` is a plan, unless a message is queued.
            text = turn.text.strip()
            plans = self._services.workspace.policy.mode(turn.caller) == "plan"
            if plans and end == "done" and text and not self._waiting:
                turn.publish(Planned(text, turn.message.notebook, turn.message.model))
        finally:
            self._turn = self._answering = None
            turn.publish(Done(end, turn.text))

    async def _ended(self, turn: Turn, answering: asyncio.Task[End]) -> End:
        """Return how a turn ended, and publish its error. An agent that failed is closed."""
        error = None if answering.cancelled() else answering.exception()
        if not answering.cancelled() and error is None:
            return answering.result()
        if self._is_sent:
            # Its further events would be taken for the next turn's, and it hears of no cancelled call.
            turn.cancel_calls()
            self._close_agent()
            await self._until_closed()
        if error is None or (turn.is_stopped and isinstance(error, AgentDied)):
            return "stopped"
        if not isinstance(error, ToolError):
            logger.error("A turn of a chat failed", exc_info=error)
            error = InternalError(f"The chat failed: {type(error).__name__}: {error}")
        turn.publish(Failed.of(error))
        return "failed"

    async def _answer(self, turn: Turn) -> End:
        turn.publish(Began())
        message = turn.message
        await self._bind(turn)
        agent = await self._ready(turn)
        blocks = await self._content(turn)
        credential, self._is_sent = turn.begin(), True
        await self._within(turn, agent.send(blocks, model=message.model, credential=credential))
        ended = await self._listen(agent, turn)
        if turn.is_stopped:
            return "stopped"
        if ended.error is not None:
            raise ended.error
        return "done"

    async def _bind(self, turn: Turn) -> None:
        """Make a message's notebook the chat's current one, for its turn.

        Raises:
            NotebookNotFound, InvalidNotebook.
        """
        workspace, notebook = self._services.workspace, turn.message.about
        while notebook is not None:
            notebook.check_present()
            path = notebook.path
            try:
                await workspace.read(await workspace.store.open(path))
                kernel_id = await workspace.kernel_of(path)
            except ToolError:
                if notebook.path == path and not notebook.is_deleted:
                    raise
                continue
            if notebook.path == path and not notebook.is_deleted:
                workspace.notebooks.add(turn.caller, None, path, kernel_id)
                return
            # It was renamed meanwhile: another notebook may have that name now.

    async def _content(self, turn: Turn) -> Sequence[ContentBlock]:
        """Return the blocks of a turn's message; publish what of it could not be read."""
        services = self._services
        found = await content(services.workspace, services.registry, turn.caller, turn.message)
        for notice in found.notices:
            turn.notify(notice)
        return found.blocks

    async def _listen(self, agent: AgentSession, turn: Turn) -> TurnEnded:
        """Publish what the agent reports until the turn has ended.

        Raises:
            AgentDied, ModelFailed.
        """
        more = 0.0
        while True:
            event = await self._within(turn, agent.receive(), more)
            match event:
                case TurnEnded():
                    return event
                case Checkpoint():
                    await self._remember(turn, event)
                case Working():
                    pass
                case _:
                    turn.receive(event)
            more = event.seconds if isinstance(event, Retried | Working) else 0.0

    async def _within(self, turn: Turn, work: Coroutine[Any, Any, T], more: float = 0.0) -> T:
        """Await something from the agent. While a call is running, there is no limit.

        Raises:
            ModelFailed: Nothing happened within the limit of silence.
        """
        limit = self._services.settings.silence + more
        task = asyncio.ensure_future(work)
        left = limit
        try:
            while not (await asyncio.wait((task,), timeout=left))[0]:
                left = limit
                if not turn.is_calling:
                    left -= asyncio.get_running_loop().time() - turn.active
                if left <= 0:
                    raise ModelFailed(
                        f"The model sent nothing for {limit:.0f} s.",
                        hint="Send the message again, or increase TkAIExtensionApp.chat_silence.",
                    )
        finally:
            task.cancel()
        return task.result()

    # -- the agent

    async def _ready(self, turn: Turn) -> AgentSession:
        """Return the agent, started if there is none or if the provider or the history has changed."""
        services = self._services
        backend = services.agent_of(turn.message.model)
        provider = await backend.provider()
        servers = await services.setup.servers.enabled(self.user)
        await self.log.save()
        is_stale = await services.store.is_stale(self.id)
        if self._starting is not None:
            await asyncio.wait((self._starting,))
            self._started(self._starting)
        if (agent := self._agent) is not None:
            goes_on = agent.session.alive and not is_stale and agent.servers == servers
            goes_on = goes_on and (agent.backend, agent.provider) == (backend, provider)
            if not goes_on:
                self._close_agent()
        if self._agent is None:
            await self._until_closed()
            starting = asyncio.create_task(self._start(turn, backend, provider, servers))
            self._starting = starting
            starting.add_done_callback(self._started)
            return (await asyncio.shield(starting)).session
        return self._agent.session

    def _started(self, starting: asyncio.Task[_Agent]) -> None:
        """Keep the agent that has started, whether or not its turn goes on."""
        if self._starting is starting:
            self._starting = None
            if not starting.cancelled() and starting.exception() is None:
                self._agent = starting.result()

    async def _start(
        self,
        turn: Turn,
        backend: AgentBackend,
        provider: ModelProvider,
        servers: Sequence[ServerConfig],
    ) -> _Agent:
        """Start the agent with the history up to the last turn that was not replaced.

        Raises:
            AgentUnavailable, AgentDied.
        """
        services = self._services
        project = await find_instructions(services.workspace)
        for notice in project.unread:
            turn.notify(notice)
        history = await services.store.history(self.id, turn.id)
        is_lost = history.is_lost
        if history.session is not None and services.owner_of(history.session) is not backend:
            # The history is another agent's.
            history, is_lost = History(), True
        config = SessionConfig(
            provider=provider,
            model=turn.message.model,
            instructions=instructions(backend.name, project),
            registry=services.registry,
            call=self._call,
            actions=TurnActions(self._turn_of),
            history=history,
            cost=0.0 if history.session is None else await services.store.cost(self.id),
            servers=servers,
        )
        try:
            session = await backend.start(config)
        except HistoryMissing as error:
            logger.warning("The history of a chat is lost: %s", error.message)
            is_lost = True
            session = await backend.start(replace(config, history=History(), cost=0.0))
        if is_lost:
            turn.notify(f"{turn.caller.name} has lost earlier messages of this chat.")
        return _Agent(session, backend, provider, servers)

    def _expire(self) -> None:
        """Release what an idle chat does not need."""
        self._close_agent()
        self.log.trim()

    def _close_agent(self) -> None:
        """Close the agent in the background; the next one is started when it has ended."""
        agent, self._agent = self._agent, None
        starting, self._starting = self._starting, None
        if agent is None and starting is None:
            return
        closing = self._closing
        self._closing = asyncio.create_task(_closed(agent, starting, closing), name="tk-ai agent")

    async def _until_closed(self) -> None:
        if self._closing is not None:
            await asyncio.wait((self._closing,))

    async def _remember(self, turn: Turn, checkpoint: Checkpoint) -> None:
        """Store where the agent's history of the chat ends."""
        await self.log.save()
        try:
            await self._services.store.checkpoint(
                self.id, turn.id, checkpoint.session, checkpoint.position
            )
        except ToolError as error:
            # Not fatal for the turn: a later restart reports the missing history.
            logger.warning("Cannot save the position in a chat's history: %s", error.message)

    async def _call(
        self, token: str, call: str, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        try:
            turn = self._turn_of(token)
        except InvalidTurnCredential as error:
            return error_content(error)
        return await turn.call(call, tool, arguments)

    def _turn_of(self, token: str) -> Turn:
        """Return the running turn of a credential's token.

        Raises:
            InvalidTurnCredential.
        """
        found = self._services.workspace.turns.turn_of(token, self.user)
        assert isinstance(found, Turn)
        return found


async def _closed(
    agent: _Agent | None, starting: asyncio.Task[_Agent] | None, before: asyncio.Task[None] | None
) -> None:
    """Close an agent, or the one that is starting."""
    if before is not None:
        await asyncio.wait((before,))
    if starting is not None:
        starting.cancel()
        await asyncio.wait((starting,), timeout=CLOSE)
        if starting.done() and not starting.cancelled() and starting.exception() is None:
            agent = starting.result()
    if agent is None:
        return
    try:
        async with asyncio.timeout(CLOSE):
            await agent.session.close()
    except TimeoutError:
        logger.warning("%s was not closed within %.0f s", type(agent.session).__name__, CLOSE)
    except Exception:
        logger.exception("%s was not closed", type(agent.session).__name__)
