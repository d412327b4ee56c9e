"""Providers of models, and the environment of Claude's process for each.

A provider is a set of variables for Claude's program. There are two sources: the server (its settings, its
environment, and the file of keys that `chat_secrets` names), and the connection that the user entered in
the panel. A provider uses only one of them, so a key goes only to an address of the same source.
It is chosen for each process and each request for code, so that a new key is used at once. Values go to
that process and to the provider only: a `repr`, the health and errors name variables and never show one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NotRequired, Self
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from tk_ai_extension.agent.launch_settings import (
    NETWORK,
    ModelProvider,
    matching,
    redacted,
    secrets_of,
)
from tk_ai_extension.model.agent_errors import NoModel

ProviderName = Literal["anthropic", "oauth", "compatible", "bedrock", "vertex", "tour"]
"""``compatible`` is any other server with the Messages API: Ollama, LiteLLM, a gateway."""

LABELS: Mapping[ProviderName, str] = {
    "anthropic": "Claude, through Anthropic's API",
    "oauth": "Claude, through a subscription's token",
    "compatible": "A server that speaks the Messages API",
    "bedrock": "Claude on Amazon Bedrock",
    "vertex": "Claude on Google Vertex AI",
    "tour": "The tour: a script, not a model",
}

CLAUDE_MODELS = ("sonnet", "opus", "haiku")
"""Aliases of Claude's newest models."""
TOUR_MODEL = "Tour"

ANTHROPIC = "https://api.anthropic.com"
ADDRESS = "ANTHROPIC_BASE_URL"
MODEL = "ANTHROPIC_MODEL"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
OAUTH = "CLAUDE_CODE_OAUTH_TOKEN"
CREDENTIALS = (*KEYS, OAUTH)
"""Variables that are read from a file of keys."""

SWITCHES: Mapping[ProviderName, str] = {
    "bedrock": "CLAUDE_CODE_USE_BEDROCK",
    "vertex": "CLAUDE_CODE_USE_VERTEX",
}
"""Variables that select a cloud."""

DIRECT = ("ANTHROPIC_*", "CLAUDE_CODE_*", "API_TIMEOUT_MS")
CLOUDS: Mapping[ProviderName, tuple[str, ...]] = {
    "bedrock": ("AWS_*",),
    "vertex": ("GOOGLE_*", "GCLOUD_PROJECT", "CLOUD_ML_REGION", "VERTEX_*"),
}
"""Variables (`fnmatch`) with which a cloud finds its credentials by itself."""
TAKEN = (*DIRECT, *NETWORK, *(name for names in CLOUDS.values() for name in names))
"""Variables of the server's environment that concern a provider."""
SHARED = (MODEL, "CLAUDE_CODE_MAX_RETRIES", "API_TIMEOUT_MS", *NETWORK)
"""Variables of the server that also apply to the connection of the panel: none leads its key elsewhere."""


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


class StoredConnectionInfo(TypedDict):
    """The stored connection without its secret, for the panel.

    Attributes:
        provider: anthropic, oauth or compatible.
        base_url: The only address that the secret is sent to.
        model: The default model; empty for the provider's.
        ending: At most the last four characters of the secret; None without one, or if it is short.
        in_force: Whether chats use this connection; else another source takes precedence.
    """

    provider: str
    base_url: str
    model: str
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
    stored: StoredConnectionInfo | None
    models: ModelsInfo


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The administrator's settings; see the app's traits.

    Attributes:
        base_url: Address of a server with the Messages API; ``ANTHROPIC_BASE_URL`` if empty.
        model: The default model; the provider's default if empty.
        models: Further models that a chat may choose.
        secrets_file: Path of a file of keys, relative to the root; empty for none.
        connect: Whether users may connect a model in the panel.
    """

    base_url: str = ""
    model: str = ""
    models: tuple[str, ...] = ()
    secrets_file: str = ""
    connect: bool = True


@dataclass(frozen=True, slots=True)
class StoredConnection:
    """The connection that a user entered in the panel, with its secret, as it is stored.

    Attributes:
        variables: The variables of Claude's process.
        models: The models that the provider listed.
    """

    variables: Mapping[str, str] = field(repr=False)
    models: tuple[str, ...] = ()

    def described(self, *, in_force: bool) -> StoredConnectionInfo:
        """Return the connection without its secret."""
        values = self.variables
        secret = next((values[name] for name in CREDENTIALS if name in values), "")
        return {
            "provider": provider_of(values),
            "base_url": values.get(ADDRESS, ""),
            "model": values.get(MODEL, ""),
            # The last characters of a short secret would reveal much of it.
            "ending": secret[-4:] if len(secret) >= 16 else None,
            "in_force": in_force,
        }


@dataclass(frozen=True)
class ClaudeProvider(ModelProvider):
    """A provider of models, as configured for Claude's process.

    Attributes:
        name: The provider's name.
        environment: Variables of the process for the provider and the network.
        thinking: Whether the model supports thinking.
        problem: What is missing, or wrong with a file or an address; None if it can be used.
        source: Source of the credentials: ``environment``, ``project`` (the file of keys) or ``stored``
            (the connection of the panel); None for the tour.
        secrets: Values that must not be logged.
    """

    name: ProviderName
    environment: Mapping[str, str] = field(repr=False)
    thinking: bool = True
    problem: str | None = None
    source: str | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """Display name."""
        return LABELS[self.name]

    def require_ready(self) -> Self:
        """Return the provider if its configuration is complete.

        Raises:
            NoModel: something is missing or wrong.
        """
        if self.problem is not None:
            raise NoModel(self.problem, hint="Correct this, then try again.")
        return self

    def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, as JSON without values."""
        next_step = NoModel.default_hint if self.name == "tour" else "Ready."
        return {
            "provider": self.name,
            "label": self.label,
            "ready": self.problem is None,
            "model": self.model,
            "models": list(self.models),
            "source": self.source,
            "hint": self.problem or next_step,
        }

    def redact(self, text: str) -> str:
        """Remove secrets from a text, such as output of the process."""
        return redacted(text, self.secrets)


def choose(
    settings: ProviderSettings,
    environment: Mapping[str, str],
    keys: Mapping[str, str] | None = None,
    stored: StoredConnection | None = None,
) -> ClaudeProvider:
    """Select the provider.

    Args:
        settings: What an administrator chose.
        environment: The server's environment.
        keys: The variables in the file of keys that the settings name. Only `CREDENTIALS` count, and
            only where the environment has none.
        stored: The connection of the panel. It is used as a whole, where the server has no provider.
    """
    keys = keys or {}
    values = {name: value for name, value in matching(environment, TAKEN).items() if value}
    if settings.base_url:
        values[ADDRESS] = settings.base_url
    found: dict[str, str] = {}
    if not values.keys() & set(CREDENTIALS):
        found = {name: keys[name] for name in CREDENTIALS if keys.get(name)}
        values |= found
    secrets = secrets_of(values, keys, {} if stored is None else stored.variables)
    name, listed = provider_of(values), ()
    if stored and name == "tour":
        name, source, listed = provider_of(stored.variables), "stored", stored.models
        values = matching(values, SHARED) | dict(stored.variables)
    else:
        values = matching(values, (*DIRECT, *CLOUDS.get(name, ()), *NETWORK))
        used = {"anthropic": KEYS, "compatible": KEYS, "oauth": (OAUTH,)}.get(name, ())
        for other in set(CREDENTIALS).difference(used):
            values.pop(other, None)
        source = None if name == "tour" else "environment"
        if found.keys() & values.keys():
            source = "project"
    model, models = _models(settings, name, values, listed)
    small = name == "compatible" and "claude" not in model.lower() and model not in CLAUDE_MODELS
    return ClaudeProvider(
        name=name,
        environment=_completed(name, values, model, small=small),
        model=model,
        models=models,
        thinking=not small,
        problem=_problem(values, model),
        source=source,
        secrets=secrets,
    )


def provider_of(values: Mapping[str, str]) -> ProviderName:
    """Return the first provider that is configured."""
    for cloud, switch in SWITCHES.items():
        if values.get(switch, "").lower() in {"1", "true", "yes", "on"}:
            return cloud
    if is_elsewhere(values.get(ADDRESS, "")):
        return "compatible"
    if any(name in values for name in KEYS):
        return "anthropic"
    return "oauth" if OAUTH in values else "tour"


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


def beside_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exclude this machine from the configured proxy."""
    listed = environment.get("NO_PROXY", "") or environment.get("no_proxy", "")
    names = [name for name in listed.split(",") if name]
    value = ",".join(dict.fromkeys([*names, "127.0.0.1", "localhost", "::1"]))
    return {"NO_PROXY": value, "no_proxy": value}


def is_local(url: str) -> bool:
    """Whether an address is on this machine."""
    return host_of(url) in {"127.0.0.1", "localhost", "::1"}


def _models(
    settings: ProviderSettings,
    name: ProviderName,
    values: Mapping[str, str],
    listed: tuple[str, ...],
) -> tuple[str, tuple[str, ...]]:
    """Return the default model, and all that a chat may choose."""
    model = settings.model or values.get(MODEL, "")
    if name == "tour":
        model, listed = settings.model or TOUR_MODEL, ()
    elif name != "compatible" or values.keys() & set(KEYS):
        # An endpoint without a key is a local server with other models.
        model = model or CLAUDE_MODELS[0]
    if name not in ("tour", "compatible") or model in CLAUDE_MODELS:
        listed = (*CLAUDE_MODELS, *listed)
    offered = settings.models or listed
    return model, tuple(dict.fromkeys(each for each in (model, *offered) if each))


def _problem(values: Mapping[str, str], model: str) -> str | None:
    """Describe what is missing or wrong, without a value; None if there is nothing."""
    url = values.get(ADDRESS, "")
    if url and (not host_of(url) or url.rstrip("/").endswith("/v1")):
        return f"{ADDRESS} is not an address such as http://localhost:11434, without /v1."
    return None if model else f"Set {MODEL}, in the server's environment."


def _completed(
    name: ProviderName, values: Mapping[str, str], model: str, *, small: bool
) -> dict[str, str]:
    """Return the variables with what the CLI needs for the provider and the model."""
    found = dict(values)
    if is_local(values.get(ADDRESS, "")):
        # An address on this machine is not behind the proxy.
        found |= beside_proxies(values)
    if name == "compatible":
        if not values.keys() & set(KEYS):
            # The CLI sends no request without a key; a local server accepts any.
            found[KEYS[1]] = "none"
        if model not in CLAUDE_MODELS:
            # The CLI's small requests use the same model: the server may have no other.
            found.setdefault("ANTHROPIC_DEFAULT_HAIKU_MODEL", model)
    if small:
        # A small local server lacks these features.
        found |= {
            "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "ANTHROPIC_DEFAULT_SONNET_MODEL": model,
            "ANTHROPIC_DEFAULT_OPUS_MODEL": model,
        }
    return found
