"""Providers of models, and the environment of Claude's process for each.

The selection uses the administrator's settings, the server's environment, the user's own file of
keys, and the project's (`tk_ai_extension.agent.claude.sources` has the rules). It is made for each
process and each request for code, so that a new key is used at once. Values go to that process and to
the provider only: a provider's `repr`, its health and its errors name variables and never show one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self
from urllib.parse import urlsplit

from tk_ai_extension.agent.claude.sources import (
    ADDRESS,
    CREDENTIALS,
    KEYS,
    OAUTH,
    Given,
    ProviderName,
    Resolution,
    Source,
    host_of,
    resolve,
)
from tk_ai_extension.agent.environment import NETWORK, matches, redacted, secrets_of
from tk_ai_extension.agent.models import ModelsInfo
from tk_ai_extension.model.agent_errors import FolderNotTrusted, NoModel

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

_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_PROJECT = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")


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
        secrets_file: Path of the file of keys, relative to the root; empty for none.
        trust_folder: Whether the root's file of keys is trusted without asking the user.
        connect: Whether users may connect a model in the panel.
        contact: Whom they ask where they may not.
    """

    provider: ProviderName | Literal["auto"] = "auto"
    base_url: str = ""
    model: str = ""
    models: tuple[str, ...] = ()
    small: bool | None = None
    secrets_file: str = ".secrets.env"
    trust_folder: bool = False
    connect: bool = True
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models, as configured for Claude's process.

    Attributes:
        name: The provider's name.
        environment: Variables of the process for the provider and the network.
        model: The default model.
        models: The models that a chat may choose, the default first.
        thinking: Whether the model supports thinking.
        configured: Names of the variables that were found.
        missing: What has to be set before it can be used.
        problem: What is wrong with the file of keys or with an address, or None.
        untrusted: The folder whose file of keys is not used before the user trusts it, or None.
        source: Source of the credentials: ``settings``, ``environment``, ``user``, ``stored``
            (the connection of the panel), ``project``.
        address: Host and port, if the address is not a known one.
        ignored: Names in the project's file of keys that are not taken from there.
        uses_stored: Whether the connection of the panel is in force.
        secrets: Values that must not be logged.
    """

    name: ProviderName
    environment: Mapping[str, str] = field(repr=False)
    model: str
    models: tuple[str, ...]
    thinking: bool = True
    configured: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str | None = None
    untrusted: str | None = None
    source: str | None = None
    address: str | None = None
    ignored: tuple[str, ...] = ()
    uses_stored: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """Display name."""
        return LABELS[self.name]

    @property
    def ready(self) -> bool:
        """Whether the configuration is complete; the provider is not contacted."""
        return not self.missing and self.problem is None and self.untrusted is None

    @property
    def hint(self) -> str:
        """The next step for the user."""
        if self.problem is not None:
            return self.problem
        if self.untrusted is not None:
            return (
                "Read it, then trust the folder: in the panel, or by `nb chat "
                f"--trust-folder` in {self.untrusted}."
            )
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
            FolderNotTrusted: its key is in a folder that the user has not trusted.
            NoModel: something is missing.
        """
        if self.untrusted is not None:
            raise FolderNotTrusted(
                "This folder has a file with a key. Trust the folder to use it.",
                hint=self.hint,
                folder=self.untrusted,
            )
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
            "address": self.address,
            "configured": list(self.configured),
            "source": self.source,
            "untrusted": self.untrusted,
            "missing": list(self.missing),
            "ignored": list(self.ignored),
            "hint": self.hint,
        }

    def redact(self, text: str) -> str:
        """Remove secrets from a text, such as output of the process."""
        return redacted(text, self.secrets)


def choose(
    settings: ProviderSettings,
    given: Given,
    *,
    problem: str | None = None,
    listed: tuple[str, ...] = (),
) -> Provider:
    """Select the provider by the variables of each source.

    Args:
        settings: What an administrator chose.
        given: The variables of each source.
        problem: The problem with a file of keys, if any.
        listed: The models that the provider of the stored connection has listed.
    """
    found = resolve(replace(given, base_url=settings.base_url), settings.provider)
    texts = {name: value.text for name, value in found.values.items()}
    name = found.provider
    problem = problem or _wrong_address(found.text(ADDRESS))
    model = settings.model or found.text("ANTHROPIC_MODEL") or _default_model(found)
    if name == "tour":
        model = settings.model or TOUR_MODEL
    small = name == "compatible" and _is_small(settings, model)
    offered = _offered(settings, name, model)
    if found.uses_stored and not settings.models:
        offered = (*offered, *listed)
    return Provider(
        name=name,
        environment={
            **texts,
            **_addressed(found, model),
            **(_for_small(model) if small else {}),
        },
        model=model,
        models=tuple(dict.fromkeys(e for e in (model, *offered) if e)),
        thinking=not small,
        configured=tuple(sorted(each for each in texts if not matches(each, NETWORK))),
        missing=_missing(found, model),
        problem=problem,
        source=_source(found),
        address=_shown(found.text(ADDRESS)) if name == "compatible" else None,
        ignored=tuple(sorted(given.project.keys() - CREDENTIALS)),
        uses_stored=found.uses_stored,
        secrets=_secrets(replace(given, base_url=settings.base_url), model),
    )


def _secrets(given: Given, model: str) -> tuple[str, ...]:
    """Return all secret values of all sources, including unused ones, for redaction."""
    address = {ADDRESS: given.base_url}
    said = (address, given.environment, given.user, given.stored, given.project)
    found = {secret for each in said for secret in secrets_of(each)}
    return tuple(sorted({v for v in found if len(v) >= 6} - {model}, key=len, reverse=True))


def _source(found: Resolution) -> str | None:
    """Return the source of the credentials, or of a connection without a key."""
    if found.credentials is not None:
        return found.credentials.label
    return Source.STORED.label if found.uses_stored else None


def beside_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exclude this machine from the configured proxy."""
    listed = environment.get("NO_PROXY", "") or environment.get("no_proxy", "")
    names = [name for name in listed.split(",") if name]
    value = ",".join(dict.fromkeys([*names, "127.0.0.1", "localhost", "::1"]))
    return {"NO_PROXY": value, "no_proxy": value}


def _wrong_address(url: str) -> str | None:
    """Describe the problem with an address, without the address; None if there is none."""
    if url and not host_of(url):
        return "ANTHROPIC_BASE_URL is not an address such as http://localhost:11434."
    if url.rstrip("/").endswith("/v1"):
        return "ANTHROPIC_BASE_URL ends in /v1: remove it, it is added to every request."
    return None


def _default_model(found: Resolution) -> str:
    """Return the default model."""
    match found.provider:
        case "tour":
            return TOUR_MODEL
        case "compatible":
            # Without a key it is a local server, which has models of its own.
            return CLAUDE_MODELS[0] if found.text(*KEYS) else ""
        case _:
            return CLAUDE_MODELS[0]


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


def _missing(found: Resolution, model: str) -> tuple[str, ...]:
    """List required variables that are not set, except credentials that a cloud finds by itself."""
    needs: list[tuple[str, ...]] = []
    match found.provider:
        case "anthropic":
            needs = [KEYS]
        case "oauth":
            needs = [(OAUTH,)]
        case "compatible":
            needs = [(ADDRESS,)]
        case "bedrock":
            needs = [_REGION]
        case "vertex":
            needs = [("CLOUD_ML_REGION",), _PROJECT]
        case "tour":
            pass
    missing = [names[0] for names in needs if not found.text(*names)]
    return (*missing, *(() if model else ("ANTHROPIC_MODEL",)))


def _addressed(found: Resolution, model: str) -> dict[str, str]:
    """Return the variables with the address and the credentials."""
    texts = {name: value.text for name, value in found.values.items()}
    match found.provider:
        case "anthropic" | "oauth":
            return _past_proxy(texts)
        case "compatible":
            # The CLI sends no request without a key; a local server accepts any.
            keyed = {} if found.text(*KEYS) else {"ANTHROPIC_AUTH_TOKEN": "none"}
            # The CLI's small requests use the same model: the server may have no other.
            small = found.text("ANTHROPIC_DEFAULT_HAIKU_MODEL") or model
            asked = {} if small in CLAUDE_MODELS else {"ANTHROPIC_DEFAULT_HAIKU_MODEL": small}
            return {**_past_proxy(texts), **keyed, **asked}
        case "bedrock":
            return {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": found.text(*_REGION)}
        case "vertex":
            project = found.text(*_PROJECT)
            return {"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_PROJECT_ID": project}
        case "tour":
            return {}


def _past_proxy(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exclude an address on this machine from the proxy."""
    local = host_of(texts.get(ADDRESS, "")) in {"127.0.0.1", "localhost", "::1"}
    return beside_proxies(texts) if local else {}


def _for_small(model: str) -> dict[str, str]:
    """Return the variables that switch off features that a small local server lacks."""
    return {
        "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": model,
    }


def _shown(url: str) -> str:
    """Return host and port of an address; the rest may hold a password."""
    host = host_of(url)
    host = f"[{host}]" if ":" in host else host
    try:
        port = urlsplit(url).port
    except ValueError:
        port = None
    return host if port is None else f"{host}:{port}"
