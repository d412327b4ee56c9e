"""Models of an agent: the available ones, the connected one, and what is missing.

Without the imports of chats: a server is asked for models before there is a chat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired

from typing_extensions import TypedDict


class ModelsInfo(TypedDict):
    """Models that answer in chats.

    Attributes:
        source: Source of the credentials: environment, project (the file of keys that the settings
            name) or stored (the connection of the panel).
        agents: Display names of the further agents in ``models``, by their names there.
    """

    provider: str
    label: str
    ready: bool
    model: str
    models: list[str]
    source: str | None
    hint: str
    agents: NotRequired[dict[str, str]]


class StoredConnection(TypedDict):
    """Connection that a user has entered in the panel, without its secret.

    Attributes:
        provider: anthropic, oauth, compatible, bedrock or vertex.
        base_url: The only address that the secret is sent to; None for a cloud's own.
        model: The default model; empty for the provider's.
        region: A cloud's region; None for the others.
        project: The Google Cloud project; None for the others.
        ending: At most the last four characters of the secret; None without one, or if it is short.
        in_force: Whether chats use this connection; else another source takes precedence.
    """

    provider: str
    base_url: str | None
    model: str
    region: str | None
    project: str | None
    ending: str | None
    in_force: bool


class ConnectionInfo(TypedDict):
    """State of the connection to a model.

    Attributes:
        allowed: Whether this user may connect a model here.
        stored: The connection that was entered in the panel, if any.
        models: What chats use now.
    """

    allowed: bool
    stored: StoredConnection | None
    models: ModelsInfo


@dataclass(frozen=True)
class ModelProvider:
    """Configured provider of an agent's model. Providers compare by value: equal ones share a session.

    Attributes:
        model: The default model.
        models: The models that a chat may choose, the default first.
    """

    model: str
    models: tuple[str, ...]
