"""Agents with the Agent Client Protocol: which there are, how they are started, which are installed."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from tk_ai_extension.agent.process import NETWORK, inherited, matches
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.errors import InvalidArguments

KNOWN = Path(__file__).with_name("agents.toml")
"""The agents that are found without configuration."""


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """How an agent is started.

    Attributes:
        name: The agent's name in the list of models: ``name``, or ``name:model`` with a model of its own.
        title: The display name.
        command: The program and its arguments.
        variables: Names (`fnmatch`) of variables of the server's environment that its process gets, in
            addition to those that every agent inherits.
        environment: Further variables of its process.
        logins: By the id of a login method of the agent, the variables of which one has to be set.
        hint: What to do if it is not logged in.
    """

    name: str
    title: str
    command: tuple[str, ...]
    variables: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    logins: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    hint: str = ""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if not self.name or ":" in self.name or not self.command:
            raise ValueError("An agent has a command, and a name without a colon.")

    @property
    def prefix(self) -> str:
        """What the ids of its sessions begin with in a chat's history."""
        return f"{self.name}:"

    @property
    def program(self) -> str | None:
        """The path of the program; None if it is not installed."""
        return shutil.which(self.command[0])

    def has_key(self, login: str, environment: Mapping[str, str]) -> bool:
        """Whether a variable of a login method is set."""
        return any(environment.get(name) for name in self.logins.get(login, ()))

    def unavailable(self, message: str) -> AgentUnavailable:
        """Return the error of an agent that cannot be started, or is not logged in.

        Args:
            message: What happened, without secrets.
        """
        hint = self.hint or f"Check that {self.title} starts in a terminal of the server."
        return AgentUnavailable(message, hint=hint)

    def process_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of its process, made from the server's."""
        wanted = (*self.variables, *NETWORK)
        passed = {name: value for name, value in environment.items() if matches(name, wanted)}
        return {**inherited(environment), **passed, **self.environment}


def configured(agents: Mapping[str, Any]) -> dict[str, AgentCommand | None]:
    """Return the agents of the setting ``acp_agents``.

    Args:
        agents: By name, a command (a list of words), an object with ``command`` and optionally
            the other attributes of `AgentCommand`, or None to hide a known agent.

    Raises:
        InvalidArguments: An entry has another form.
    """
    # Not at the start of a server, which does not need it.
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(AgentCommand)
    found: dict[str, AgentCommand | None] = {}
    for name, said in agents.items():
        given = said if isinstance(said, Mapping) else {"command": said}
        try:
            entry = {"title": name, **given, "name": name}
            found[name] = None if said is None else adapter.validate_python(entry)
        except ValidationError:
            raise InvalidArguments(
                f"Invalid entry `{name}` of TkAIExtensionApp.acp_agents.",
                hint="Give a list of words, or an object with command, title, variables, environment, "
                "logins; a name has no colon.",
            ) from None
    return found


def known_agents(agents: Mapping[str, Any]) -> dict[str, AgentCommand]:
    """Return the agents that may be offered, by name: the known ones and the configured ones.

    Args:
        agents: The setting ``acp_agents``; see `configured`.

    Raises:
        InvalidArguments: The setting is invalid.
    """
    known = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
    found = configured(known) | configured(agents)
    return {name: agent for name, agent in found.items() if agent is not None}


def installed(agents: Iterable[AgentCommand]) -> dict[str, str]:
    """Return the display names of those agents that are installed, by name. Searches PATH, so it blocks."""
    if not has_protocol():
        return {}
    return {agent.name: agent.title for agent in agents if agent.program is not None}


def has_protocol() -> bool:
    """Whether the package of the protocol (the extra ``acp``) is installed."""
    return find_spec("acp") is not None
