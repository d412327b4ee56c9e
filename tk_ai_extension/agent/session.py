"""Session of an active chat: the queue of its turns and the agent that answers them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mcp_types as types

from tk_ai_extension.agent.actions import TurnActions
from tk_ai_extension.agent.backend import (
    AgentBackend,
    AgentSession,
    Checkpoint,
    ContentBlock,
    History,
    ModelProvider,
    SessionConfig,
    TurnEnded,
    Working,
)
from tk_ai_extension.agent.chat_history import ChatHistory
from tk_ai_extension.agent.closing import Closing
from tk_ai_extension.agent.context import content, find_instructions, instructions
from tk_ai_extension.agent.events import (
    Began,
    Done,
    End,
    Failed,
    Planned,
    PlanSettled,
    Restored,
    Retried,
    Sent,
    Steered,
)
from tk_ai_extension.agent.external_tools import ExternalTools
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.requests import Message
from tk_ai_extension.agent.services import ChatServices
from tk_ai_extension.agent.silence import SilenceLimit, until_stopped
from tk_ai_extension.agent.transcripts import Chat
from tk_ai_extension.agent.turn_queue import TurnQueue
from tk_ai_extension.agent.turns import Turn
from tk_ai_extension.mcp.descriptions import error_content
from tk_ai_extension.model.agent_errors import AgentDied, CallStopped, InvalidTurnCredential
from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InternalError, LimitReached, NotFound, ToolError
from tk_ai_extension.workspace.undo import TakenBack

logger = logging.getLogger(__name__)

MAX_TURNS = 20
"""Maximum number of queued messages of a chat."""


class ChatSession:
    """Session of an active chat.

    One agent session answers the turns in order. It is started with the first turn and closed when the
    chat has been idle for a while; the next turn resumes its history.

    Args:
        services: Services that all chats share.
        chat: The stored chat.
        log: The event log of the chat.
        plan: The turn with the pending plan, or None.
        forgotten: Turns to remove from the agent's history before the next one.
        on_idle: Called when no turn is running or queued.
        on_expired: Called after a long idle time.
    """

    def __init__(
        self,
        services: ChatServices,
        chat: Chat,
        log: ChatLog,
        *,
        plan: str | None,
        forgotten: Sequence[str],
        on_idle: Callable[[ChatSession], None],
        on_expired: Callable[[ChatSession], None],
    ) -> None:
        self.id = chat.id
        self.user = chat.user
        self.log = log
        self._services = services
        self._plan = plan
        self._history = ChatHistory(services, chat, log, forgotten)
        self._on_idle = on_idle
        self._on_expired = on_expired
        self._waiting = TurnQueue()
        self._turn: Turn | None = None
        self._agent: AgentSession | None = None
        self._provider: ModelProvider | None = None
        self._backend: AgentBackend | None = None
        self._closing = Closing()
        # Tools of the user's MCP servers, for the running agent.
        self._external = ExternalTools()
        self._working = asyncio.create_task(self._work(), name="tk-ai chat")

    @property
    def busy(self) -> bool:
        """Whether a turn is running or queued."""
        return self._turn is not None or len(self._waiting) > 0

    @property
    def notebooks(self) -> set[str]:
        """The notebooks of the running turn: the message's, and those that the chat has connected."""
        if self._turn is None:
            return set()
        connected = self._services.workspace.notebooks.list(self._turn.caller)
        named = self._turn.message.notebook
        return {each.path for each in connected} | ({named} if named is not None else set())

    def send(self, message: Message, answer: PlanSettled | None = None) -> str:
        """Queue a turn and return its id.

        Args:
            message: The message.
            answer: Its answer to the pending plan; None passes the plan over.

        Raises:
            NotFound: that plan is not pending.
            LimitReached: too many messages are queued.
        """
        if answer is not None and answer.plan != self._plan:
            raise NotFound(
                "This chat has no pending plan of that turn.",
                hint="It was answered, or another message was sent since. Ask for a new plan.",
            )
        if len(self._waiting) >= MAX_TURNS:
            raise LimitReached(
                f"{MAX_TURNS} message of this chat is queued already."
                if MAX_TURNS == 1
                else f"{MAX_TURNS} messages of this chat are queued already."
            )
        turn_id = secrets.token_hex(6)
        caller = Caller(
            user=self.user,
            key=self.id,
            interface="chat",
            mode=message.request.mode,
            name=self._services.agent_of(message.model).name,
            turn=turn_id,
        )
        turn = Turn(
            turn_id, message, caller, self._services.workspace, self._services.registry, self.log
        )
        # What the chat shows as replaced is left out from now on, whatever becomes of this turn.
        self._history.leave_out(message.replaces)
        turn.publish(
            Sent(
                self.id,
                message.request.message,
                message.notebook,
                self._services.workspace.policy.mode(caller),
                message.model,
                [attachment.shown for attachment in message.request.attachments],
                len(self._waiting) + (self._turn is not None),
                message.request.active_cell,
                message.replaces[0] if message.replaces else None,
                message.request.id,
            )
        )
        if self._plan is not None:
            turn.publish(answer or PlanSettled(self._plan, "passed"))
            self._plan = None
        self._waiting.put(turn)
        return turn_id

    async def stop(self, only: str | None = None, why: str = "The user stopped this.") -> bool:
        """Stop the running and queued turns; return whether there were any.

        Args:
            only: Stop only this turn.
            why: Reason for the results of the running calls, a sentence.
        """
        stopped = False
        for turn in self._waiting.take_all(only):
            stopped = True
            turn.publish(Done("stopped"))
        turn = self._turn
        if turn is not None and only in (None, turn.id):
            stopped = True
            turn.stop(why)
            if self._agent is not None:
                try:
                    await self._agent.interrupt()
                except AgentDied as error:
                    logger.info("%s", error.message)
            turn.cancel_calls()
        if not self.busy:
            # All turns were queued, so that no end of a turn calls it.
            self._on_idle(self)
        return stopped

    async def until_ended(self, turn_id: str) -> None:
        """Wait until a turn does not run any more and its changes are in the journal."""
        if self._turn is not None and self._turn.id == turn_id:
            await self._turn.ended.wait()

    def restored(self, turns: Sequence[str], notebooks: Sequence[TakenBack]) -> None:
        """Forget turns whose changes were undone, and publish it; they do not run any more."""
        self._history.leave_out(turns)
        if self._plan in turns:
            self._plan = None
        self.log.add(turns[0], Restored(list(notebooks)))

    async def steer(self, turn_id: str) -> bool:
        """Give a queued message to the agent of the running turn; return whether it took it.

        A message about another notebook, or one that replaces turns, is not given. What is not taken
        stays queued at its place.
        """
        running, agent = self._turn, self._agent
        queued = self._waiting.find(turn_id)
        if running is None or agent is None or queued is None or not running.can_answer(queued):
            return False
        services = self._services
        shown = await content(services.workspace, services.registry, running.caller, queued.message)
        # Meanwhile it may have begun, or another caller has given it.
        is_queued = self._waiting.find(turn_id) is queued
        if self._turn is not running or not is_queued or running.stopped is not None:
            return False
        # It stays queued meanwhile, where `stop` finds it.
        with self._waiting.holding(queued):
            try:
                taken = await agent.steer(shown.blocks)
            except AgentDied as error:
                logger.info("%s", error.message)
                taken = False
            if not taken or not self._waiting.take_all(turn_id):
                return False
        for notice in shown.notices:
            queued.notify(notice)
        queued.publish(Steered(running.id))
        queued.publish(Done("done"))
        if not self.busy:
            # The running turn has ended meanwhile, before this one.
            self._on_idle(self)
        return True

    async def close(self, why: str) -> None:
        """Stop the running turn, flush the log and close the agent."""
        await self.stop(why=why)
        self._working.cancel()
        await asyncio.wait((self._working,))
        try:
            # First: the server may be killed while the agent ends.
            await self.log.save()
        finally:
            await self._close_agent()

    # -- the turns

    async def _work(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._services.settings.idle):
                    turn = await self._waiting.get()
            except TimeoutError:
                if not self._waiting:
                    self._on_expired(self)
                    return
                continue
            self._turn = turn
            end: End = "failed"
            try:
                end = await self._answer(turn)
            except asyncio.CancelledError:
                end = "stopped"
                raise
            except ToolError as error:
                turn.publish(Failed.of(error))
            except Exception as error:
                logger.exception("A turn of a chat failed")
                failed = InternalError(f"The chat failed: {type(error).__name__}: {error}")
                turn.publish(Failed.of(failed))
                await self._close_agent()
            finally:
                try:
                    await run_to_completion(turn.settle())
                finally:
                    self._turn = None
                    self._offer_plan(turn, end)
                    turn.publish(Done(end, turn.text))
            if not self.busy:
                self._on_idle(self)

    def _offer_plan(self, turn: Turn, end: End) -> None:
        """Publish the final text of a turn in the mode `plan` as a plan, unless a message is queued."""
        plans = self._services.workspace.policy.mode(turn.caller) == "plan"
        text = turn.text.strip()
        if plans and end == "done" and text and not self.busy:
            self._plan = turn.id
            turn.publish(Planned(text, turn.message.notebook, turn.message.model))

    async def _answer(self, turn: Turn) -> End:
        turn.publish(Began())
        message = turn.message
        left_out = self._history.replaced
        try:
            agent, shown = await until_stopped(turn, self._prepare(turn))
        except CallStopped:
            return "stopped"
        if turn.stopped is not None:
            return "stopped"
        try:
            if message.request.command is not None:
                sending = agent.compact(model=message.model, credential=turn.begin())
            else:
                sending = agent.send(shown, model=message.model, credential=turn.begin())
            silence = SilenceLimit(turn, self._services.settings.silence)
            await silence.limit(sending)
            # Others were restored meanwhile: the next turn begins without them.
            self._history.replaced = self._history.replaced[len(left_out) :]
            ended = await self._listen(agent, turn, silence)
            if not agent.alive:
                # It may still answer a message that the stopped turn has not taken.
                await self._close_agent()
        except ToolError as error:
            # Its further events would be taken for the next turn's.
            await self._close_agent()
            if isinstance(error, AgentDied) and turn.stopped is not None:
                return "stopped"
            raise
        if turn.stopped is not None:
            return "stopped"
        if ended.error is not None:
            raise ended.error
        return "done"

    async def _prepare(self, turn: Turn) -> tuple[AgentSession, Sequence[ContentBlock]]:
        """Return the agent and the message for it, once the turn's notebook is bound."""
        await self._services.bind(turn.caller, turn.message)
        agent = await self._ready(turn)
        is_command = turn.message.request.command is not None
        return agent, () if is_command else await self._content(turn)

    async def _content(self, turn: Turn) -> Sequence[ContentBlock]:
        """Return the blocks of a turn's message; publish what of it could not be read."""
        services = self._services
        shown = await content(services.workspace, services.registry, turn.caller, turn.message)
        for notice in shown.notices:
            turn.notify(notice)
        return shown.blocks

    async def _listen(self, agent: AgentSession, turn: Turn, silence: SilenceLimit) -> TurnEnded:
        """Publish what the agent reports until the turn has ended.

        Raises:
            AgentDied, ModelFailed.
        """
        while True:
            event = await silence.limit(agent.receive())
            match event:
                case TurnEnded():
                    return event
                case Checkpoint():
                    await self._history.remember(turn, event)
                case Working():
                    pass
                case _:
                    turn.receive(event)
            silence.more = event.seconds if isinstance(event, Retried | Working) else 0.0

    # -- the agent

    async def _ready(self, turn: Turn) -> AgentSession:
        """Return the agent, started if there is none or if the provider has changed."""
        services = self._services
        backend = services.agent_of(turn.message.model)
        provider = await asyncio.create_task(_provider(backend), context=turn.context)
        goes_on = self._agent is not None and self._agent.alive and not self._history.replaced
        goes_on = goes_on and self._provider == provider and self._backend is backend
        servers = await services.setup.servers.enabled(self.user)
        goes_on = goes_on and self._external.configs == servers
        if not goes_on:
            await self._close_agent()
        elif not await self._external.renew():
            # An agent gets its tools when it starts. The servers stay connected.
            agent, self._agent = self._agent, None
            await self._closing.close(agent)
        if self._agent is None:
            self._provider, self._backend = provider, backend
            if not goes_on:
                self._external = await self._closing.begin(
                    services.setup.start_servers(servers), "The start of a chat's MCP servers"
                )
            for server, why in self._external.failures:
                turn.notify(f"The MCP server {server} did not start: {why}.")
            project = await find_instructions(services.workspace)
            for notice in project.unread:
                turn.notify(notice)
            config = SessionConfig(
                provider=provider,
                model=turn.message.model,
                instructions=instructions(backend.name, project),
                registry=self._services.registry,
                call=self._call,
                actions=TurnActions(self._turn_of),
                history=History(),
                cost=0.0,
                further=self._external.described,
            )
            self._agent = await self._closing.begin(
                self._history.start(backend, turn, config), "The start of a chat's agent"
            )
        return self._agent

    async def _close_agent(self) -> None:
        if self._turn is not None:
            # The agent can no longer receive their cancellation.
            self._turn.cancel_calls()
        agent, self._agent = self._agent, None
        external, self._external = self._external, ExternalTools()
        await self._closing.close(agent, external)

    async def _call(
        self, token: str, call: str, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        try:
            turn = self._turn_of(token)
        except InvalidTurnCredential as error:
            return error_content(error)
        external = self._external if tool in self._external else None
        return await turn.call(call, tool, arguments, registry=external)

    def _turn_of(self, token: str) -> Turn:
        """Return the running turn of a credential's token.

        Raises:
            InvalidTurnCredential.
        """
        found = self._services.workspace.turns.turn_of(token, self.user)
        assert isinstance(found, Turn)
        return found


async def _provider(backend: AgentBackend) -> ModelProvider:
    return await backend.provider()
