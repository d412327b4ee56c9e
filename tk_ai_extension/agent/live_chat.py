"""A chat that this server answers: the queue of its turns, and the agent that answers them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import mcp_types as types

from tk_ai_extension.agent.backend import (
    STOP_TIMEOUT,
    AgentBackend,
    AgentSession,
    AgentTurnEnded,
    Heartbeat,
    HistoryMissing,
    ModelProvider,
    SessionConfig,
)
from tk_ai_extension.agent.chat_events import (
    End,
    MessageSent,
    NoticeAdded,
    QuestionAsked,
    TurnEnded,
    TurnFailed,
    TurnStarted,
)
from tk_ai_extension.agent.chat_requests import ChatMessage, shown
from tk_ai_extension.agent.chat_setup import (
    ChatSetup,
    McpServerConfig,
    find_instructions,
)
from tk_ai_extension.agent.chat_store import Chat, ChatLog, ChatStore, HistoryPosition
from tk_ai_extension.agent.message_context import content, instructions
from tk_ai_extension.agent.turn import ActionRequest, ReportedEdits, Turn
from tk_ai_extension.mcp.tool_calls import error_content
from tk_ai_extension.model.agent_errors import AgentDied, CallStopped, ModelFailed, NoModel
from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InternalError, LimitReached, NotFound, ToolError
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

T = TypeVar("T")

_AgentSetup = tuple[AgentBackend, ModelProvider, tuple[McpServerConfig, ...]]

MAX_TURNS = 20
"""Maximum number of queued messages of a chat."""

CLOSE = 30.0
"""Timeout to close an agent or the servers of its tools, in seconds."""


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """Settings of chats; see the app's traits."""

    silence: float = 300.0
    idle: float = 900.0
    max_live: int = 16


@dataclass(frozen=True)
class ChatServices:
    """Services that all chats of a server share.

    Attributes:
        workspace: What the tools work on.
        registry: The tools.
        store: Where chats are stored.
        backend: The agent that answers if the model is not another agent's.
        settings: Settings of chats.
        agents: Further agents, by their names. A model of theirs is a name, or ``name:model`` with one of the
            agent's models; their sessions are ``name:id``.
        setup: The prompts and MCP servers of chats.
    """

    workspace: Workspace
    registry: Registry
    store: ChatStore
    backend: AgentBackend
    settings: ChatLimits = field(default_factory=ChatLimits)
    agents: Mapping[str, AgentBackend] = field(default_factory=dict[str, AgentBackend])
    setup: ChatSetup = field(default_factory=ChatSetup)

    def agent_of(self, model: str) -> AgentBackend:
        """Return the agent that answers for a model, or that a session belongs to."""
        return self.agents.get(model.partition(":")[0], self.backend)

    async def model(self, asked: str | None, *, usual: str = "") -> str:
        """Return the model that answers.

        Args:
            asked: The requested model, which has to exist.
            usual: The model to use if none is requested, if it still exists.

        Raises:
            NoModel: No model is connected, or none of that name.
        """
        named = asked or usual
        if named and self.agent_of(named) is not self.backend:
            return named
        provider = await self.backend.provider()
        model = asked or (usual if usual in provider.models else provider.model)
        if model not in provider.models:
            raise NoModel(
                f"Unknown model `{model[:80]}`.",
                hint=f"Choose one of: {', '.join(provider.models)}.",
            )
        return model


class LiveChat:
    """A chat that this server has opened: its events, its queued turns, and its agent.

    One agent answers the turns in order. It is started with the first turn, and closed when the chat has
    been idle for a while; the next turn resumes its history.

    Args:
        services: What all chats share.
        chat: The stored chat.

    Attributes:
        log: The event log.
        lock: Held while a message is queued or turns are replaced, and while the chat is removed.
        started_for: Backend, provider and servers that the agent was started with. If they differ, or
            are None because the chat's history changed, the next turn starts another agent.
    """

    def __init__(self, services: ChatServices, chat: Chat) -> None:
        self.id = chat.id
        self.user = chat.user
        self.log = ChatLog(chat.id, services.store)
        self.lock = asyncio.Lock()
        self._services = services
        self._waiting: deque[Turn] = deque()
        self._turn: Turn | None = None
        # Answers the turns, until no message has come for a while.
        self._working: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        # Answers the running turn, and whether the agent has it.
        self._answering: asyncio.Task[End] | None = None
        self._is_sent = False
        self._agent: AgentSession | None = None
        self.started_for: _AgentSetup | None = None
        # Agents that start or are closed.
        self._changing = BackgroundTasks(logger)

    @property
    def busy(self) -> bool:
        """Whether a turn is running or queued."""
        return self._turn is not None or bool(self._waiting)

    @property
    def has_agent(self) -> bool:
        """Whether its agent is running."""
        return self._agent is not None

    @property
    def notebooks(self) -> set[str]:
        """The notebooks of the running turn: the message's, and those that the chat has connected."""
        if self._turn is None:
            return set()
        connected = self._services.workspace.notebooks.list(self._turn.caller)
        named = self._turn.message.notebook
        return {each.path for each in connected} | ({named} if named is not None else set())

    def send(self, message: ChatMessage) -> str:
        """Queue a turn and return its id.

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
            model=message.model,
        )
        turn = Turn(turn_id, message, caller, services.workspace, services.registry, self.log)
        turn.publish(
            MessageSent(
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
        # The person says something else instead of an answer.
        for call in [] if self._turn is None else [*self._turn.questions]:
            with suppress(NotFound):
                self.answer(call, [])
        self._waiting.append(turn)
        self._wake.set()
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
            queued.publish(TurnEnded("stopped"))
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
                    await self._agent.interrupt()
                except AgentDied as error:
                    logger.info("%s", error.message)
        turn.cancel_calls()
        return True

    def answer(self, call: str, answers: list[list[str]]) -> None:
        """Answer the questions of a call of the running turn; see `Turn.answer`."""
        if self._turn is None:
            raise NotFound("This question is not pending.", hint="Its turn has ended.")
        self._turn.answer(call, answers)

    async def until_ended(self, turn_id: str) -> None:
        """Wait until a turn has ended and its changes are in the journal."""
        if self._turn is not None and self._turn.id == turn_id:
            await self._turn.ended.wait()

    async def close(self, why: str) -> None:
        """Stop all turns, store the events and close the agent."""
        await self.stop(why=why)
        if self._answering is not None:
            self._answering.cancel()
        if self._turn is not None:
            await self._turn.ended.wait()
        # Save first: the server may be killed while the agent ends.
        await self.log.save()
        await self.rest()

    async def rest(self) -> None:
        """Close the agent, unless a turn is running: the next turn resumes its history."""
        if self._working is not None and not self.busy:
            self._wake.set()
            await asyncio.wait((self._working,), timeout=CLOSE)

    # -- the turns

    def _begin(self) -> None:
        """Answer the queued turns."""
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name="tk-ai chat")

    async def _work(self) -> None:
        """Answer turns until no message comes for a while, then close the agent."""
        try:
            while self._waiting:
                await self._run(self._waiting.popleft())
                if not self._waiting:
                    self._wake.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._services.settings.idle):
                            await self._wake.wait()
        finally:
            await self._close_agent()
            self._working = None
            if self._waiting:
                self._begin()

    async def _run(self, turn: Turn) -> None:
        """Answer a turn, from its start to its end."""
        end: End = "failed"
        self._turn, self._is_sent = turn, False
        self._answering = asyncio.create_task(self._answer(turn))
        try:
            await asyncio.wait((self._answering,))
            end = await self._ended(turn, self._answering)
            await turn.settle()
            # The final text of a turn in the mode `plan` is a plan, unless a message is queued.
            plans = self._services.workspace.policy.mode(turn.caller) == "plan"
            if plans and end == "done" and turn.text.strip() and not self._waiting:
                end = "planned"
        finally:
            self._turn = self._answering = None
            turn.publish(TurnEnded(end, turn.text))

    async def _ended(self, turn: Turn, answering: asyncio.Task[End]) -> End:
        """Return how a turn ended, and publish its error. An agent that failed is closed."""
        error = None if answering.cancelled() else answering.exception()
        if not answering.cancelled() and error is None:
            return answering.result()
        if self._is_sent:
            # Its later events would count for the next turn, and it is not notified of cancelled calls.
            turn.cancel_calls()
            await self._close_agent()
        if error is None or (turn.is_stopped and isinstance(error, AgentDied)):
            return "stopped"
        if not isinstance(error, ToolError):
            logger.error("A turn of a chat failed", exc_info=error)
            error = InternalError(f"The chat failed: {type(error).__name__}: {error}")
        turn.publish(TurnFailed(error.as_dict()))
        return "failed"

    async def _answer(self, turn: Turn) -> End:
        turn.publish(TurnStarted())
        services, message = self._services, turn.message
        await self._bind(turn)
        agent = await self._ready(turn)
        blocks, unread = await content(services.workspace, services.registry, turn.caller, message)
        for notice in unread:
            turn.publish(NoticeAdded(notice))
        turn.is_open = self._is_sent = True
        options = message.request.options
        await self._within(turn, agent.send(blocks, model=message.model, options=options))
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
        if notebook is None:
            return
        notebook.check_present()
        await workspace.read(await workspace.store.open(notebook.path))
        kernel_id = await workspace.kernel_of(notebook.path)
        notebook.check_present()
        workspace.notebooks.add(turn.caller, None, notebook.path, kernel_id)

    async def _listen(self, agent: AgentSession, turn: Turn) -> AgentTurnEnded:
        """Publish the agent's events until the turn ends.

        Raises:
            AgentDied, ModelFailed.
        """
        while True:
            event = await self._within(turn, agent.receive())
            match event:
                case AgentTurnEnded():
                    return event
                case HistoryPosition():
                    await self._remember(turn, event)
                case Heartbeat():
                    pass
                case ReportedEdits():
                    turn.receive_edits(event)
                case _:
                    turn.receive(event)

    async def _within(self, turn: Turn, work: Coroutine[Any, Any, T]) -> T:
        """Await the agent, with a limit of silence that does not count while a call is running.

        Raises:
            ModelFailed: Nothing happened within the limit of silence.
        """
        limit = self._services.settings.silence
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait((task,), timeout=limit))[0]:
                silent = asyncio.get_running_loop().time() - turn.active
                if not turn.is_calling and silent >= limit:
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
        backend = self._services.agent_of(turn.message.model)
        provider = await backend.provider()
        wanted = (backend, provider, await self._services.setup.servers(self.user))
        if self._agent is not None and self._agent.alive and self.started_for == wanted:
            return self._agent
        await self._close_agent()
        starting = asyncio.create_task(self._start(turn, wanted), name="tk-ai start of an agent")
        # The turn ends at once if it is stopped; the next one waits until this agent has ended.
        self._changing.keep(starting)
        try:
            return await asyncio.shield(starting)
        finally:
            starting.cancel()

    async def _start(self, turn: Turn, wanted: _AgentSetup) -> AgentSession:
        """Start the agent with the history up to the last turn that was not replaced.

        Raises:
            AgentUnavailable, AgentDied.
        """
        services, project = self._services, ""
        backend, provider, servers = wanted
        try:
            _, project = await find_instructions(services.workspace)
        except ToolError as error:
            turn.publish(NoticeAdded(f"The project's instructions were not read: {error.message}"))
        await self.log.save()
        self.started_for = wanted
        history, is_lost = await services.store.history(self.id, turn.id), False
        if history is not None and services.agent_of(history.session) is not backend:
            # The history is another agent's.
            history, is_lost = None, True
        config = SessionConfig(
            provider=provider,
            model=turn.message.model,
            instructions=instructions(backend.name, project),
            registry=services.registry,
            call=self._call,
            permit=self._permit,
            ask=self._ask,
            history=history,
            servers=servers,
            files=services.workspace.files,
        )
        try:
            session = await backend.start(config)
        except HistoryMissing as error:
            logger.warning("The history of a chat is lost: %s", error.message)
            is_lost = True
            session = await backend.start(replace(config, history=None))
        if is_lost:
            turn.publish(NoticeAdded(f"{turn.caller.name} has lost earlier messages of this chat."))
        self._agent = session
        return session

    async def _close_agent(self) -> None:
        """Close the agent, and wait for others that are closing."""
        agent, self._agent = self._agent, None
        if agent is not None:
            self._changing.spawn(_close(agent), "The end of an agent")
        await self._changing.join()

    async def _remember(self, turn: Turn, checkpoint: HistoryPosition) -> None:
        """Store where the agent's history of the chat ends."""
        await self.log.save()
        try:
            await self._services.store.checkpoint(self.id, turn.id, checkpoint)
        except ToolError as error:
            # Not fatal for the turn: a later restart reports the missing history.
            logger.warning("Cannot save the position in a chat's history: %s", error.message)

    async def _call(
        self, call: str, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        try:
            turn = self._open_turn()
            return await turn.run(turn.call(call, tool, arguments))
        except CallStopped as stopped:
            return error_content(stopped)

    async def _permit(self, action: ActionRequest) -> None:
        """Check that an action of the agent may run; see `backend.Permit`."""
        turn = self._open_turn()
        await turn.run(turn.permit(action))

    async def _ask(self, asked: QuestionAsked) -> list[list[str]]:
        """Ask the person; see `backend.Ask`."""
        turn = self._open_turn()
        return await turn.run(turn.ask(asked))

    def _open_turn(self) -> Turn:
        """Return the turn in which the agent may call.

        Raises:
            CallStopped: There is none.
        """
        if self._turn is None or not self._turn.is_open:
            raise CallStopped("The turn has ended.")
        return self._turn


async def _close(session: AgentSession) -> None:
    """Close an agent, within a limit."""
    try:
        async with asyncio.timeout(CLOSE):
            await session.close()
    except TimeoutError:
        logger.warning("%s was not closed within %.0f s", type(session).__name__, CLOSE)
    except Exception:
        logger.exception("%s was not closed", type(session).__name__)
