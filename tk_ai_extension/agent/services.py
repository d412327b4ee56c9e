"""Services that the chats of a server share, the agents among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tk_ai_extension.agent.backend import AgentBackend
from tk_ai_extension.agent.chat_setup import ChatSetup
from tk_ai_extension.agent.requests import ChatRequest
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.model.agent_errors import NoModel
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace


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
    """

    workspace: Workspace
    registry: Registry
    transcripts: Transcripts
    backend: AgentBackend
    settings: ChatSettings
    agents: AgentCatalog = field(default_factory=NoAgents)
    setup: ChatSetup = field(default_factory=ChatSetup)

    def agent_of(self, model: str) -> AgentBackend:
        """Return the agent that answers for a model."""
        return self.agents.get(model) or self.backend

    def owner_of(self, session: str) -> AgentBackend:
        """Return the agent that a session belongs to."""
        return self.agents.owner(session) or self.backend

    async def forget(self, session: str) -> None:
        """Remove all data of an agent's session."""
        await self.owner_of(session).forget(session)

    async def bind(self, caller: Caller, path: str) -> None:
        """Make a message's notebook the chat's current one, for its turn.

        Raises:
            NotebookNotFound, InvalidNotebook.
        """
        document = await self.workspace.store.open(path)
        await self.workspace.read(document)
        kernel_id = await self.workspace.kernel_of(document.path)
        self.workspace.notebooks.add(caller, None, document.path, kernel_id)

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
            FolderNotTrusted: The only key is in a folder that is not trusted.
        """
        named = asked or usual
        if self.agents.get(named) is not None:
            await self.agents.check(named)
            return named
        provider = await self.backend.provider()
        model = asked or (usual if usual in provider.models else provider.model)
        if model not in provider.models:
            raise NoModel(
                Sentence("model_missing", model=model[:80]),
                hint=Sentence("model_missing_hint", models=", ".join(provider.models)),
            )
        return model
