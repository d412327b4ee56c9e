"""Models of an agent: the available ones, the connected one, and what is missing.

Without the imports of chats: a server is asked for models before there is a chat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, Protocol

from typing_extensions import TypedDict

from tk_ai_extension.model.sentences import SentenceInfo


class ModelsInfo(TypedDict):
    """Models that answer in chats.

    Attributes:
        configured: Names of the variables that were found.
        missing: Names of the variables that have to be set.
        source: Source of the credentials: settings, environment, user or project.
        untrusted: A folder whose file of keys is ignored until the folder is trusted.
        hint_sentence: The hint by its code; None where it has none.
        agents: Display names of the further agents in ``models``, by their names there.
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
    agents: NotRequired[dict[str, str]]


class ModelProvider(Protocol):
    """Configured provider of an agent's model. Equal providers can share a session.

    A frozen dataclass compares by its values:

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class LocalProvider:
    ...     url: str
    ...     model: str = "small"
    ...     models: tuple[str, ...] = ("small", "large")
    >>> provider: ModelProvider = LocalProvider("http://localhost:8080")
    >>> provider.model, provider == LocalProvider("http://localhost:8080")
    ('small', True)
    """

    @property
    def model(self) -> str:
        """The default model."""
        ...

    @property
    def models(self) -> Sequence[str]:
        """The models that a chat may choose."""
        ...


class ModelSource(Protocol):
    """Finds the provider of an agent at each call, so that a new key is used at once."""

    async def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, without values."""
        ...

    async def trust(self, *, trusted: bool = True) -> ModelsInfo:
        """Trust the keys in the root folder, or stop trusting them; return the new `health`.

        Raises:
            ReadOnly: The decision cannot be saved.
            NoModel: Keys in this folder are never used.
        """
        ...
