"""Sources of the variables of Claude's process, and which sources may be combined.

A key is only sent to an address that its owner trusts. The sources are ordered by trust: one source
gives all
credentials, and no source below it may set an address, a proxy, a certificate, a profile or a program.
A project's file may set credentials only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal
from urllib.parse import urlsplit

from tk_ai_extension.agent.environment import NETWORK, SECRET_WORDS, matches

ProviderName = Literal["anthropic", "oauth", "compatible", "bedrock", "vertex", "tour"]
"""``compatible`` is any other server with the Messages API: Ollama, LiteLLM, a gateway."""


class Source(IntEnum):
    """Source of a variable, the most trusted first."""

    SETTINGS = 0
    """The server's configuration."""
    ENVIRONMENT = 1
    """The environment of the server, or of the command."""
    USER = 2
    """The file in the user's own configuration folder."""
    STORED = 3
    """The connection that the user entered in the panel."""
    PROJECT = 4
    """The file in the project's folder, which is untrusted."""

    @property
    def label(self) -> str:
        """Its name in JSON."""
        return self.name.lower()


ADDRESS = "ANTHROPIC_BASE_URL"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
OAUTH = "CLAUDE_CODE_OAUTH_TOKEN"
BEDROCK_KEYS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "AWS_BEARER_TOKEN_BEDROCK",
)
CREDENTIALS = (*KEYS, OAUTH, *BEDROCK_KEYS)
"""Variables that may come from a project's file."""

IDENTITY = (
    *SECRET_WORDS,
    *("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_ROLE_*", "AWS_CONTAINER_*", "AWS_SSO_*"),
    *("ANTHROPIC_PROFILE", "ANTHROPIC_CONFIG_DIR", "*_CLIENT_CERT"),
)
"""Variables (`fnmatch`) with credentials or their location."""

CHOICES = (
    *("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_*_MODEL", "ANTHROPIC_SMALL_FAST_MODEL"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID"),
)
"""Variables that name neither an address nor a credential."""

DIRECT = ("ANTHROPIC_*", "CLAUDE_CODE_*")
AWS = ("AWS_*",)
GOOGLE = ("GOOGLE_*", "GCLOUD_PROJECT", "CLOUD_ML_REGION", "VERTEX_*")
TAKEN = (*DIRECT, *AWS, *GOOGLE, *NETWORK)
"""Variables that may come from trusted sources; all others are ignored."""

STORABLE = (
    *(*CREDENTIALS, ADDRESS, "ANTHROPIC_MODEL", "AWS_REGION", "CLOUD_ML_REGION"),
    *("ANTHROPIC_VERTEX_PROJECT_ID", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
)
"""Variables that the connection of the panel may hold."""

DESTINATIONS = ("*_URL", "*_ENDPOINT*", "*_SOCKET")
"""Variables (`fnmatch`) that decide where a key is sent."""

SWITCHES = ("CLAUDE_CODE_USE_*", "CLAUDE_CODE_SKIP_*_AUTH")
"""Variables that select the CLI's provider; set by the extension."""


@dataclass(frozen=True, slots=True)
class Value:
    """Value of a variable and its source."""

    text: str = field(repr=False)
    source: Source


@dataclass(frozen=True, slots=True)
class Given:
    """Variables of each source.

    Attributes:
        base_url: The address in the server's configuration; empty for none.
        environment: Of the server, or of the command.
        user: The file in the user's own configuration folder.
        stored: The connection of the panel. It is used as a whole or not at all.
        project: The file in the folder that is worked in.
    """

    base_url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    user: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    project: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    stored: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def of(self, source: Source) -> Mapping[str, str]:
        """Return the variables of a source that may be used."""
        match source:
            case Source.SETTINGS:
                return {ADDRESS: self.base_url} if self.base_url else {}
            case Source.ENVIRONMENT | Source.USER:
                values = self.environment if source is Source.ENVIRONMENT else self.user
                return {name: v for name, v in values.items() if v and matches(name, TAKEN)}
            case Source.STORED:
                return {name: v for name, v in self.stored.items() if v and name in STORABLE}
            case Source.PROJECT:
                return {name: v for name, v in self.project.items() if v and name in CREDENTIALS}


@dataclass(frozen=True, slots=True)
class Resolution:
    """Variables for Claude's process, resolved from the sources.

    Attributes:
        provider: The provider.
        values: The variables for it, each with its source.
        credentials: The source of all credentials; None if there are none.
        uses_stored: Whether the connection of the panel is in force.
    """

    provider: ProviderName
    values: Mapping[str, Value]
    credentials: Source | None
    uses_stored: bool = False

    def text(self, *names: str) -> str:
        """Return the value of the first of these variables that is set, or an empty string."""
        return next((self.values[name].text for name in names if name in self.values), "")


def resolve(given: Given, wanted: ProviderName | Literal["auto"] = "auto") -> Resolution:
    """Select the provider and the variables for it.

    The connection of the panel is dropped where another source takes precedence, and where its key
    would be sent to another address than the one that it was entered for.

    Args:
        given: The variables of each source.
        wanted: The provider of the server's configuration.
    """
    found = _resolve(given, wanted)
    if not given.stored:
        return found
    if _is_in_force(given.of(Source.STORED), found):
        return replace(found, uses_stored=True)
    return _resolve(replace(given, stored={}), wanted)


def _is_in_force(stored: Mapping[str, str], found: Resolution) -> bool:
    """Whether a resolution has all of the stored connection, and no other destination for its key."""
    switched = {name for name in stored if matches(name, SWITCHES)}
    if switched and f"CLAUDE_CODE_USE_{found.provider.upper()}" not in switched:
        return False
    texts = {name: value.text for name, value in found.values.items()}
    entered = {n: v for n, v in stored.items() if n not in switched and not matches(n, CHOICES)}
    return (
        (bool(entered) or bool(switched))
        and texts.items() >= entered.items()
        and (
            found.credentials is not Source.STORED
            or not any(matches(n, DESTINATIONS) for n in texts.keys() - entered.keys())
        )
    )


def _resolve(given: Given, wanted: ProviderName | Literal["auto"]) -> Resolution:
    sources = {source: given.of(source) for source in Source}
    family = _family(sources) if wanted == "auto" else wanted
    if family == "tour":
        return Resolution("tour", _select(sources, "tour", None), None)
    credentials = _credentials(sources, family)
    values = _select(sources, family, credentials)
    if family != "auto":
        return Resolution(family, values, credentials)
    address = values.get(ADDRESS)
    if address is not None and is_elsewhere(address.text):
        provider: ProviderName = "compatible"
    elif any(name in values for name in KEYS):
        provider = "anthropic"
    else:
        provider = "oauth" if OAUTH in values else "tour"
    # Again: keys of other providers do not count.
    return _resolve(given, provider)


def is_identity(name: str) -> bool:
    """Whether a variable holds a credential; a limit such as ``CLAUDE_CODE_MAX_OUTPUT_TOKENS`` does not."""
    return matches(name, IDENTITY) and not name.endswith("_TOKENS")


def is_elsewhere(url: str) -> bool:
    """Whether an address is not Anthropic's."""
    host = host_of(url)
    return bool(url) and host != "anthropic.com" and not host.endswith(".anthropic.com")


def host_of(url: str) -> str:
    """Return the host of an address; empty if it is invalid."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "" if parts.scheme in {"http", "https"} else ""
    except ValueError:
        return ""


_Family = ProviderName | Literal["auto"]
"""A provider; ``auto`` for one that is not a cloud's."""

_Sources = Mapping[Source, Mapping[str, str]]


def _family(sources: _Sources) -> _Family:
    """Return the cloud that is switched on, or ``auto``."""
    clouds: tuple[tuple[str, ProviderName], ...] = (
        ("CLAUDE_CODE_USE_BEDROCK", "bedrock"),
        ("CLAUDE_CODE_USE_VERTEX", "vertex"),
    )
    for name, provider in clouds:
        value = next((said[name] for said in sources.values() if name in said), "")
        if value.lower() in {"1", "true", "yes", "on"}:
            return provider
    return "auto"


def _credentials(sources: _Sources, family: _Family) -> Source | None:
    """Return the source of all credentials: the first one that has any for this provider."""
    for source, said in sources.items():
        if any(_counts(name, family) for name in said):
            return source
    return None


def _counts(name: str, family: _Family) -> bool:
    """Whether a variable is a credential of a provider."""
    match family:
        case "bedrock":
            return matches(name, AWS) and is_identity(name)
        case "vertex":
            return matches(name, GOOGLE) and is_identity(name)
        case "oauth":
            return name == OAUTH
        case "anthropic" | "compatible":
            return name in KEYS
        case "auto":
            return name in {*KEYS, OAUTH}
        case "tour":
            return False


def _select(sources: _Sources, family: _Family, credentials: Source | None) -> dict[str, Value]:
    values: dict[str, Value] = {}
    lowest = Source.STORED if credentials is None else credentials
    for source, said in sources.items():
        for name, text in said.items():
            if name in values or name in _others(family) or not _concerns(name, family):
                continue
            if is_identity(name):
                # Without a key, headers may hold a credential: only for an address of the same source.
                taken = source == (_identity(sources, family) if credentials is None else lowest)
            else:
                taken = source <= lowest or matches(name, CHOICES)
            if taken:
                values[name] = Value(text, source)
    if credentials is None and (given := _identity(sources, family)) is not None:
        return {
            name: value
            for name, value in values.items()
            if value.source <= given or matches(name, CHOICES)
        }
    return values


def _identity(sources: _Sources, family: _Family) -> Source | None:
    """Return the first trusted source with credentials other than a key."""
    for source in (Source.ENVIRONMENT, Source.USER):
        if any(_concerns(n, family) and is_identity(n) for n in sources[source]):
            return source
    return None


def _concerns(name: str, family: _Family) -> bool:
    """Whether a variable concerns a provider."""
    if matches(name, SWITCHES):
        return False
    match family:
        case "tour":
            return matches(name, NETWORK)
        case "bedrock":
            return matches(name, (*DIRECT, *AWS, *NETWORK)) and name != ADDRESS
        case "vertex":
            return matches(name, (*DIRECT, *GOOGLE, *NETWORK)) and name != ADDRESS
        case _:
            return matches(name, (*DIRECT, *NETWORK))


def _others(family: _Family) -> tuple[str, ...]:
    """Return the credentials of other providers."""
    match family:
        case "auto":
            return BEDROCK_KEYS
        case "anthropic" | "compatible":
            return (OAUTH, *BEDROCK_KEYS)
        case "oauth":
            return (*KEYS, *BEDROCK_KEYS)
        case "bedrock":
            return (*KEYS, OAUTH)
        case "vertex" | "tour":
            return CREDENTIALS
