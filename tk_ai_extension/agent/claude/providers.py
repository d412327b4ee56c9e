"""Providers of models, and the environment of Claude's process for each.

There are two sources of a credential: the server (its settings, its environment, and the file of keys
that `chat_secrets` names), and the connection that the user entered in the panel. A provider is made of
one of them as a whole, so a key goes only to an address of its own source. It is chosen for each process
and each request for code, so that a new key is used at once. Values go to that process and to the
provider only: a provider's `repr`, its health and its errors name variables and never show one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import urlsplit

from tk_ai_extension.agent.environment import NETWORK, SECRET_WORDS, matches, redacted, secrets_of
from tk_ai_extension.agent.models import ModelsInfo, StoredConnection
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
TOUR_MODEL = "tk-tour"

ANTHROPIC = "https://api.anthropic.com"
ADDRESS = "ANTHROPIC_BASE_URL"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
OAUTH = "CLAUDE_CODE_OAUTH_TOKEN"
BEDROCK_KEY = "AWS_BEARER_TOKEN_BEDROCK"
CREDENTIALS = (
    (*KEYS, OAUTH),
    (BEDROCK_KEY, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)
"""Variables that are read from a file of keys: Anthropic's, and AWS's."""

DIRECT = ("ANTHROPIC_*", "CLAUDE_CODE_*", "API_TIMEOUT_MS")
AWS = ("AWS_*",)
GOOGLE = ("GOOGLE_*", "GCLOUD_PROJECT", "CLOUD_ML_REGION", "VERTEX_*")
TAKEN = (*DIRECT, *AWS, *GOOGLE, *NETWORK)
"""Variables (`fnmatch`) of the server's environment that concern a provider."""

MODELS = ("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_*_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")
SWITCHES = ("CLAUDE_CODE_USE_*", "CLAUDE_CODE_SKIP_*_AUTH")
"""Variables that select the CLI's provider; set by the extension."""

_DESTINATIONS = ("*_URL*", "*_ENDPOINT*", "*_SOCKET", "*_PROFILE", "*_CONFIG_FILE")
"""Variables that decide where a key is sent."""

_REQUIRED: Mapping[ProviderName, tuple[tuple[str, ...], ...]] = {
    "anthropic": (KEYS,),
    "oauth": ((OAUTH,),),
    "compatible": ((ADDRESS,),),
    "bedrock": (("AWS_REGION",),),
    "vertex": (("CLOUD_ML_REGION",), ("ANTHROPIC_VERTEX_PROJECT_ID",)),
    "tour": (),
}
"""Variables that each provider needs, one of each group. A cloud finds its credentials by itself."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The administrator's settings; see the app's traits.

    Attributes:
        provider: A provider, or ``auto`` for the first one that is configured.
        base_url: Address of a server with the Messages API; ``ANTHROPIC_BASE_URL`` if empty.
        model: The default model; the provider's default if empty.
        models: Further models that a chat may choose.
        secrets_file: Path of a file of keys, relative to the root; empty for none.
        connect: Whether users may connect a model in the panel.
        contact: Whom they ask where they may not.
    """

    provider: ProviderName | Literal["auto"] = "auto"
    base_url: str = ""
    model: str = ""
    models: tuple[str, ...] = ()
    secrets_file: str = ""
    connect: bool = True
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection that a user entered in the panel, as it is stored.

    Attributes:
        provider: The provider that the user chose.
        secret: The key or token; empty for none.
        variable: The variable that gives the secret to Claude's process.
        base_url: The address that the secret was entered for; empty for a cloud.
        model: The default model; empty for the provider's.
        region: A cloud's region.
        project: The Google Cloud project.
        models: The models that the provider listed.
    """

    provider: ProviderName
    secret: str = field(default="", repr=False)
    variable: str = ""
    base_url: str = ""
    model: str = ""
    region: str = ""
    project: str = ""
    models: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """The variables of Claude's process."""
        values = {
            self.variable: self.secret,
            ADDRESS: self.base_url,
            "ANTHROPIC_MODEL": self.model,
            "CLOUD_ML_REGION" if self.provider == "vertex" else "AWS_REGION": self.region,
            "ANTHROPIC_VERTEX_PROJECT_ID": self.project,
        }
        return {name: value for name, value in values.items() if value}

    def described(self, *, in_force: bool) -> StoredConnection:
        """Return the connection without its secret."""
        return {
            "provider": self.provider,
            "base_url": self.base_url or None,
            "model": self.model,
            "region": self.region or None,
            "project": self.project or None,
            # Of a short one they would be much of it.
            "ending": self.secret[-4:] if len(self.secret) >= 16 else None,
            "in_force": in_force,
        }


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models, as configured for Claude's process.

    Attributes:
        name: The provider's name.
        environment: Variables of the process for the provider and the network.
        model: The default model.
        models: The models that a chat may choose, the default first.
        thinking: Whether the model supports thinking.
        problem: What is missing, or wrong with a file or an address; None if it can be used.
        source: Source of the credentials: ``environment``, ``project`` (the file of keys) or ``stored``
            (the connection of the panel).
        secrets: Values that must not be logged.
    """

    name: ProviderName
    environment: Mapping[str, str] = field(repr=False)
    model: str
    models: tuple[str, ...]
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
    stored: Connection | None = None,
    *,
    problem: str | None = None,
) -> Provider:
    """Select the provider.

    Args:
        settings: What an administrator chose.
        environment: The server's environment.
        keys: The variables in the file of keys that the settings name. Only `CREDENTIALS` count, and
            only where the environment has none.
        stored: The connection of the panel. It is used as a whole, where the server has no provider.
        problem: The problem with a file, if any.
    """
    keys = keys or {}
    values = {name: value for name, value in environment.items() if value and matches(name, TAKEN)}
    if settings.base_url:
        values[ADDRESS] = settings.base_url
    found: dict[str, str] = {}
    for names in CREDENTIALS:
        if not values.keys() & set(names):
            found |= {name: value for name, value in keys.items() if value and name in names}
    values |= found
    secrets = secrets_of(values, keys, {} if stored is None else stored.variables)
    source, listed = None, ()
    name = _provider(values)
    if stored and name == "tour" and settings.provider in ("auto", stored.provider):
        name, source, listed = stored.provider, "stored", stored.models
        values = _beside_stored(values, stored) | stored.variables
    else:
        name = name if settings.provider == "auto" else settings.provider
        values = _select(values, name)
        if any(matches(each, SECRET_WORDS) and not each.endswith("_TOKENS") for each in values):
            source = "project" if found.keys() & values.keys() else "environment"
    model = settings.model or values.get("ANTHROPIC_MODEL", "")
    if name == "tour":
        model = settings.model or TOUR_MODEL
    elif name != "compatible" or values.keys() & set(KEYS):
        # An endpoint without a key is a local server, which has models of its own.
        model = model or CLAUDE_MODELS[0]
    claude = "claude" in model.lower() or model in CLAUDE_MODELS
    offered = settings.models
    if offered:
        listed = ()
    elif name != "tour" and (name != "compatible" or model in CLAUDE_MODELS):
        offered = CLAUDE_MODELS
    small = name == "compatible" and not claude
    return Provider(
        name=name,
        environment=_completed(name, values, model, small=small),
        model=model,
        models=tuple(dict.fromkeys(each for each in (model, *offered, *listed) if each)),
        thinking=not small,
        problem=problem or _problem(name, values, model),
        source=source,
        secrets=secrets,
    )


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


def _provider(values: Mapping[str, str]) -> ProviderName:
    """Return the first provider that is configured."""
    clouds: tuple[ProviderName, ...] = ("bedrock", "vertex")
    for cloud in clouds:
        switch = values.get(f"CLAUDE_CODE_USE_{cloud.upper()}", "")
        if switch.lower() in {"1", "true", "yes", "on"}:
            return cloud
    if is_elsewhere(values.get(ADDRESS, "")):
        return "compatible"
    if any(name in values for name in KEYS):
        return "anthropic"
    return "oauth" if OAUTH in values else "tour"


def _select(values: Mapping[str, str], provider: ProviderName) -> dict[str, str]:
    """Return the variables that concern a provider, without credentials of others."""
    taken, others = {
        "tour": ((), ()),
        "bedrock": ((*DIRECT, *AWS), (*KEYS, OAUTH, ADDRESS)),
        "vertex": ((*DIRECT, *GOOGLE), (*KEYS, OAUTH, ADDRESS)),
        "oauth": (DIRECT, KEYS),
    }.get(provider, (DIRECT, (OAUTH,)))
    return {
        name: value
        for name, value in values.items()
        if matches(name, (*taken, *NETWORK)) and name not in others and not matches(name, SWITCHES)
    }


def _beside_stored(values: Mapping[str, str], stored: Connection) -> dict[str, str]:
    """Return the variables of the server that apply to a stored connection; none leads its key elsewhere."""
    cloud = {"bedrock": AWS, "vertex": GOOGLE}.get(stored.provider, ())
    left_out = _DESTINATIONS if stored.secret else ()
    return {
        name: value
        for name, value in values.items()
        if matches(name, (*cloud, *MODELS, *NETWORK)) and not matches(name, left_out)
    }


def _problem(name: ProviderName, values: Mapping[str, str], model: str) -> str | None:
    """Describe what is missing or wrong, without a value; None if there is nothing."""
    url = values.get(ADDRESS, "")
    if url and (not host_of(url) or url.rstrip("/").endswith("/v1")):
        return f"{ADDRESS} is not an address such as http://localhost:11434, without /v1."
    missing = [names[0] for names in _REQUIRED[name] if not values.keys() & set(names)]
    missing += [] if model else ["ANTHROPIC_MODEL"]
    return f"Set {' and '.join(missing)}, in the server's environment." if missing else None


def _completed(
    name: ProviderName, values: Mapping[str, str], model: str, *, small: bool
) -> dict[str, str]:
    """Return the variables with what the CLI needs for the provider and the model."""
    found = dict(values)
    if name in ("bedrock", "vertex"):
        found[f"CLAUDE_CODE_USE_{name.upper()}"] = "1"
    elif is_local(values.get(ADDRESS, "")):
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
