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

DIRECT = ("ANTHROPIC_*", "CLAUDE_CODE_*")
AWS = ("AWS_*",)
GOOGLE = ("GOOGLE_*", "GCLOUD_PROJECT", "CLOUD_ML_REGION", "VERTEX_*")
TAKEN = (*DIRECT, *AWS, *GOOGLE, *NETWORK)
"""Variables (`fnmatch`) of the server's environment that concern a provider."""

MODELS = ("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_*_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")
SWITCHES = ("CLAUDE_CODE_USE_*", "CLAUDE_CODE_SKIP_*_AUTH")
"""Variables that select the CLI's provider; set by the extension."""

CONFIGURED = (*DIRECT[:1], *SWITCHES, "CLAUDE_CODE_OAUTH_*", "CLAUDE_CODE_API_KEY*")
"""Variables with which the server's environment has a provider of its own, except `MODELS` and those of
projects: the connection of the panel is not used then."""

_PROJECT = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_DESTINATIONS = ("*_URL*", "*_ENDPOINT*", "*_SOCKET", "*_PROFILE", "*_CONFIG_FILE")
"""Variables that decide where a key is sent."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """The administrator's settings; see the app's traits.

    Attributes:
        provider: A provider, or ``auto`` for the first one that is configured.
        base_url: Address of a server with the Messages API; ``ANTHROPIC_BASE_URL`` if empty.
        model: The default model; the provider's default if empty.
        models: Further models that a chat may choose.
        small: Whether the model is a small local one, without thinking and beta
            features; None: if it is not a Claude model.
        secrets_file: Path of a file of keys, relative to the root; empty for none.
        connect: Whether users may connect a model in the panel.
        contact: Whom they ask where they may not.
    """

    provider: ProviderName | Literal["auto"] = "auto"
    base_url: str = ""
    model: str = ""
    models: tuple[str, ...] = ()
    small: bool | None = None
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
        missing: What has to be set before it can be used.
        problem: What is wrong with the file of keys or with an address, or None.
        source: Source of the credentials: ``environment``, ``project`` (the file of keys) or ``stored``
            (the connection of the panel).
        secrets: Values that must not be logged.
    """

    name: ProviderName
    environment: Mapping[str, str] = field(repr=False)
    model: str
    models: tuple[str, ...]
    thinking: bool = True
    missing: tuple[str, ...] = ()
    problem: str | None = None
    source: str | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """Display name."""
        return LABELS[self.name]

    @property
    def ready(self) -> bool:
        """Whether the configuration is complete; the provider is not contacted."""
        return not self.missing and self.problem is None

    @property
    def hint(self) -> str:
        """The next step for the user."""
        if self.problem is not None:
            return self.problem
        if self.missing:
            return f"Set {' and '.join(self.missing)}, in the server's environment."
        if self.name == "tour":
            return (
                "Connect a model in the panel, or set ANTHROPIC_API_KEY in the server's "
                "environment."
            )
        return "Ready."

    def require_ready(self) -> Self:
        """Return the provider if it is ready.

        Raises:
            NoModel: something is missing.
        """
        if self.problem is not None:
            raise NoModel(self.problem, hint="Correct this, then try again.")
        if not self.ready:
            raise NoModel(f"{self.label} is not configured yet.", hint=self.hint)
        return self

    def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, as JSON without values."""
        return {
            "provider": self.name,
            "label": self.label,
            "ready": self.ready,
            "model": self.model,
            "models": list(self.models),
            "source": self.source,
            "hint": self.hint,
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
        stored: The connection of the panel. It is used as a whole or not at all.
        problem: The problem with a file, if any.
    """
    values = {name: value for name, value in environment.items() if value and matches(name, TAKEN)}
    if settings.base_url:
        values[ADDRESS] = settings.base_url
    found: dict[str, str] = {}
    for names in CREDENTIALS:
        if not any(name in values for name in names):
            found |= {
                name: value for name, value in (keys or {}).items() if value and name in names
            }
    values |= found
    secrets = _secrets(values, keys or {}, {} if stored is None else stored.variables)
    source, listed = None, ()
    if stored is not None and _uses_stored(settings, values, stored):
        name, source, listed = stored.provider, "stored", stored.models
        if stored.secret:
            # The server's own variables never lead this key elsewhere.
            values = {n: v for n, v in values.items() if not matches(n, _DESTINATIONS)}
        values = {**_select(values, name), **stored.variables}
    else:
        name = _provider(values) if settings.provider == "auto" else settings.provider
        values = _select(values, name)
        if found.keys() & values.keys():
            source = "project"
        elif any(_is_credential(each) for each in values):
            source = "environment"
    problem = problem or _wrong_address(values.get(ADDRESS, ""))
    model = settings.model or values.get("ANTHROPIC_MODEL") or _default_model(name, values)
    if name == "tour":
        model = settings.model or TOUR_MODEL
    small = name == "compatible" and _is_small(settings, model)
    offered = (*_offered(settings, name, model), *(() if settings.models else listed))
    return Provider(
        name=name,
        environment={
            **values,
            **_addressed(name, values, model),
            **(_for_small(model) if small else {}),
        },
        model=model,
        models=tuple(dict.fromkeys(e for e in (model, *offered) if e)),
        thinking=not small,
        missing=_missing(name, values, model),
        problem=problem,
        source=source,
        secrets=tuple(each for each in secrets if each != model),
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


def _is_credential(name: str) -> bool:
    """Whether a variable holds a credential; a limit such as ``CLAUDE_CODE_MAX_OUTPUT_TOKENS`` does not."""
    return matches(name, SECRET_WORDS) and not name.endswith("_TOKENS")


def _uses_stored(settings: ProviderSettings, values: Mapping[str, str], stored: Connection) -> bool:
    """Whether the server has no provider of its own."""
    others = (*MODELS, *_PROJECT)
    return settings.provider in ("auto", stored.provider) and not any(
        matches(name, CONFIGURED) and not matches(name, others) for name in values
    )


def _provider(values: Mapping[str, str]) -> ProviderName:
    """Return the first provider that is configured."""
    clouds: tuple[tuple[str, ProviderName], ...] = (
        ("CLAUDE_CODE_USE_BEDROCK", "bedrock"),
        ("CLAUDE_CODE_USE_VERTEX", "vertex"),
    )
    for switch, cloud in clouds:
        if values.get(switch, "").lower() in {"1", "true", "yes", "on"}:
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


def _secrets(*sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets of all sources, including unused ones, the longest first."""
    found = {secret for source in sources for secret in secrets_of(source) if len(secret) >= 6}
    return tuple(sorted(found, key=len, reverse=True))


def _first(values: Mapping[str, str], *names: str) -> str:
    return next((values[name] for name in names if name in values), "")


def _wrong_address(url: str) -> str | None:
    """Describe the problem with an address, without the address; None if there is none."""
    if url and not host_of(url):
        return "ANTHROPIC_BASE_URL is not an address such as http://localhost:11434."
    if url.rstrip("/").endswith("/v1"):
        return "ANTHROPIC_BASE_URL ends in /v1: remove it, it is added to every request."
    return None


def _default_model(name: ProviderName, values: Mapping[str, str]) -> str:
    # Without a key it is a local server, which has models of its own.
    return "" if name == "compatible" and not _first(values, *KEYS) else CLAUDE_MODELS[0]


def _offered(settings: ProviderSettings, name: ProviderName, model: str) -> tuple[str, ...]:
    if name == "tour":
        return ()
    if name == "compatible" and model not in CLAUDE_MODELS:
        return settings.models
    return settings.models or CLAUDE_MODELS


def _is_small(settings: ProviderSettings, model: str) -> bool:
    if settings.small is not None:
        return settings.small
    return "claude" not in model.lower() and model not in CLAUDE_MODELS


def _missing(name: ProviderName, values: Mapping[str, str], model: str) -> tuple[str, ...]:
    """List required variables that are not set, except credentials that a cloud finds by itself."""
    required: Mapping[ProviderName, tuple[tuple[str, ...], ...]] = {
        "anthropic": (KEYS,),
        "oauth": ((OAUTH,),),
        "compatible": ((ADDRESS,),),
        "bedrock": (_REGION,),
        "vertex": (("CLOUD_ML_REGION",), _PROJECT),
        "tour": (),
    }
    missing = [names[0] for names in required[name] if not _first(values, *names)]
    return (*missing, *(() if model else ("ANTHROPIC_MODEL",)))


def _addressed(name: ProviderName, values: Mapping[str, str], model: str) -> dict[str, str]:
    """Return the variables with the address and the credentials."""
    # An address on this machine is not behind the proxy.
    past_proxy = beside_proxies(values) if is_local(values.get(ADDRESS, "")) else {}
    match name:
        case "anthropic" | "oauth":
            return past_proxy
        case "compatible":
            # The CLI sends no request without a key; a local server accepts any.
            keyed = {} if _first(values, *KEYS) else {"ANTHROPIC_AUTH_TOKEN": "none"}
            # The CLI's small requests use the same model: the server may have no other.
            small = values.get("ANTHROPIC_DEFAULT_HAIKU_MODEL") or model
            asked = {} if small in CLAUDE_MODELS else {"ANTHROPIC_DEFAULT_HAIKU_MODEL": small}
            return {**past_proxy, **keyed, **asked}
        case "bedrock":
            return {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": _first(values, *_REGION)}
        case "vertex":
            project = _first(values, *_PROJECT)
            return {"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_PROJECT_ID": project}
        case "tour":
            return {}


def _for_small(model: str) -> dict[str, str]:
    """Return the variables that switch off features that a small local server lacks."""
    return {
        "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": model,
    }
