"""Services that the chats of a server share, the agents among them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tk_ai_extension.agent.backend import AgentBackend
from tk_ai_extension.agent.chat_setup import ChatSetup
from tk_ai_extension.agent.events import Event, PlanSettled
from tk_ai_extension.agent.requests import ChatRequest, Message, PlanAnswer
from tk_ai_extension.agent.transcripts import Chat, Transcripts
from tk_ai_extension.model.agent_errors import NoModel
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import PermissionDenied, ToolError
from tk_ai_extension.model.paths import is_deleted
from tk_ai_extension.notebooks.notebook import Notebook, deleted_error
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)


class AgentCatalog(Protocol):
    """Further agents, each with a name in the list of models."""

    def get(self, model: str) -> AgentBackend | None:
        """Return the agent of a model, installed or not; None if the model is not a further agent's."""
        ...

    def owner(self, session: str) -> AgentBackend | None:
        """Return the agent that a session of a `Checkpoint` belongs to; None for another one."""
        ...

    async def names(self) -> Sequence[str]:
        """Return the names of the installed agents."""
        ...

    async def check(self, model: str) -> None:
        """Check that the agent of a model is installed.

        Raises:
            AgentUnavailable: It is not installed.
        """
        ...


class NoAgents:
    """No further agents."""

    def get(self, model: str) -> None:
        """Return None."""
        del model

    def owner(self, session: str) -> None:
        """Return None."""
        del session

    async def names(self) -> Sequence[str]:
        """Return no names."""
        return ()

    async def check(self, model: str) -> None:
        """Do nothing."""
        del model


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Settings of chats; see the app's traits."""

    silence: float = 120.0
    idle: float = 900.0
    max_live: int = 16


@dataclass(frozen=True)
class ChatServices:
    """Services that all chats of a server share.

    Attributes:
        workspace: What the tools work on.
        registry: The tools.
        transcripts: Where chats are stored.
        backend: The agent that answers if the model is not another agent's.
        settings: Settings of chats.
        agents: Further agents.
        setup: The prompts and MCP servers of chats.
        failed_resumes: How often an agent failed to resume each of its sessions, since it last did.
    """

    workspace: Workspace
    registry: Registry
    transcripts: Transcripts
    backend: AgentBackend
    settings: ChatSettings
    agents: AgentCatalog = field(default_factory=NoAgents)
    setup: ChatSetup = field(default_factory=ChatSetup)
    failed_resumes: Counter[str] = field(default_factory=Counter[str])

    def agent_of(self, model: str) -> AgentBackend:
        """Return the agent that answers for a model."""
        return self.agents.get(model) or self.backend

    def owner_of(self, session: str) -> AgentBackend:
        """Return the agent that a session belongs to."""
        return self.agents.owner(session) or self.backend

    async def forget(self, session: str) -> None:
        """Remove all data of an agent's session; log what fails, because nobody waits for it."""
        try:
            await self.owner_of(session).forget(session)
        except (ToolError, OSError) as error:
            logger.warning("Cannot remove the data of an agent's session: %s", error)

    async def bind(self, caller: Caller, message: Message) -> None:
        """Make a message's notebook the chat's current one, for its turn.

        Raises:
            NotebookNotFound, InvalidNotebook.
        """
        if (notebook := message.about) is None:
            return
        while True:
            notebook.check_present()
            path = notebook.path
            try:
                await self.workspace.read(await self.workspace.store.open(path))
                kernel_id = await self.workspace.kernel_of(path)
            except ToolError:
                if notebook.path == path and not notebook.is_deleted:
                    raise
                continue
            if notebook.path == path and not notebook.is_deleted:
                self.workspace.notebooks.add(caller, None, path, kernel_id)
                return
            # It was renamed meanwhile: another notebook may have that name now.

    async def answer_to_plan(
        self, chat: Chat, plan: Event, answer: PlanAnswer
    ) -> tuple[Message, PlanSettled]:
        """Return the message that answers a chat's plan, and what becomes of the plan.

        Raises:
            PermissionDenied: the server only allows the mode `plan`.
            NoModel, NotebookNotFound.
        """
        approved = answer.answer == "approve"
        mode = answer.mode if approved else "plan"
        request = ChatRequest.model_construct(message=answer.message, mode=mode)
        # What is rejected is carried out nowhere.
        about = None
        if approved or not is_deleted(chat.notebook):
            about = self.notebook(chat.notebook)
        message = Message(request, about, "")
        if approved and self.workspace.policy.mode(Caller(chat.user, mode=mode)) == "plan":
            raise PermissionDenied(
                "This server only allows the permission mode `plan`.",
                hint="Ask its administrator to raise `mode_cap`.",
            )
        message.model = await self.model(answer.model, usual=str(plan.data["model"]))
        await self.check(message)
        return message, PlanSettled(plan.turn, "approved" if approved else "rejected")

    def notebook(self, path: str | None) -> Notebook | None:
        """Return the notebook at a stored path; None for no path.

        Raises:
            NotebookNotFound: It was deleted since the path was stored.
        """
        if path is not None and is_deleted(path):
            raise deleted_error(path)
        return None if path is None else self.workspace.by_path.at(path)

    async def check(self, message: Message) -> None:
        """Check that a message's notebook can be read.

        Raises:
            InvalidArguments, NotebookNotFound.
        """
        if message.about is not None:
            message.about.check_present()
            await (await self.workspace.store.open(message.about.path)).read()

    async def expanded(self, user: str, request: ChatRequest) -> ChatRequest:
        """Return a message with the text of the prompt that it calls, if it calls one.

        Raises:
            LimitReached: The message would be too long.
        """
        text = await self.setup.prompts.expand(user, request.message)
        return request if text == request.message else request.model_copy(update={"message": text})

    async def model(self, asked: str | None, *, usual: str = "") -> str:
        """Return the model that answers.

        Args:
            asked: The requested model, which has to exist.
            usual: The model to use if none is requested, if it still exists.

        Raises:
            NoModel: No model is connected, or none of that name.
            AgentUnavailable: The agent of that name is not installed.
        """
        named = asked or usual
        if self.agents.get(named) is not None:
            await self.agents.check(named)
            return named
        provider = await self.backend.provider()
        model = asked or (usual if usual in provider.models else provider.model)
        if model not in provider.models:
            raise NoModel(
                f"Unknown model `{model[:80]}`.",
                hint=f"Choose one of: {', '.join(provider.models)}.",
            )
        return model
