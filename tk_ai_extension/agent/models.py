"""The models of an agent: which there are, whether one is connected, and what is missing.

Needs nothing that chats import: a server is asked for it before there is a chat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Protocol

from typing_extensions import TypedDict

from tk_ai_extension.model.sentences import SentenceInfo


class ModelsInfo(TypedDict):
    """What answers in chats.

    Attributes:
        configured: Names of the variables that were found.
        missing: Names of those that have to be set.
        source: Who gave the credentials: settings, environment, user or project.
        hint_sentence: The hint by its code; None where it has none.
        untrusted: A folder whose file of keys is not used before it is trusted.
    """

    provider: str
    label: str
    ready: bool
    model: str
    models: list[str]
    address: str | None
    configured: list[str]
    missing: list[str]
    source: str | None
    untrusted: str | None
    ignored: list[str]
    hint: str
    hint_sentence: NotRequired[SentenceInfo | None]


class ModelProvider(Protocol):
    """Where an agent's model is, as configured now. Equal for two that need no new session."""

    @property
    def model(self) -> str:
        """The default model."""
        ...

    @property
    def models(self) -> Sequence[str]:
        """The models that a chat may name."""
        ...


class ModelSource(Protocol):
    """Finds the model of an agent, each time it is asked: a key is used as soon as it is there."""

    async def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, without values."""
        ...

    async def trust(self, *, trusted: bool = True) -> ModelsInfo:
        """Use the keys in the root folder from now on, or no more; return what `health` says then.

        Raises:
            ReadOnly: That cannot be kept.
            NoModel: Keys in this folder are never used.
        """
        ...
