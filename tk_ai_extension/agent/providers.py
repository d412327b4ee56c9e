"""Which model answers, and what the environment of Claude's process has to hold for it.

The choice is made from three things: what an administrator set, the server's environment, and the
file of secrets (where both name a variable, the environment holds). It is made anew for each
process, so that a key is used as soon as it is there. Values go into that process's environment
alone: a provider's `repr`, its health and its errors name variables and never show one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from tk_ai_extension.agent import secrets_file
from tk_ai_extension.agent.secrets_file import SecretsFileError

ProviderName = Literal["anthropic", "oauth", "compatible", "bedrock", "vertex", "tour"]
"""``compatible`` is any other server that speaks the Messages API: Ollama, LiteLLM, a gateway."""

LABELS: Mapping[ProviderName, str] = {
    "anthropic": "Claude, through Anthropic's API",
    "oauth": "Claude, through a subscription's token",
    "compatible": "A server that speaks the Messages API",
    "bedrock": "Claude on Amazon Bedrock",
    "vertex": "Claude on Google Vertex AI",
    "tour": "The tour: a script, not a model",
}

CLAUDE_MODELS = ("sonnet", "opus", "haiku")
"""Claude's models by the names that always mean the newest one."""
TOUR_MODEL = "tk-tour"

TAKEN = (
    *("ANTHROPIC_*", "CLAUDE_CODE_*", "AWS_*", "GOOGLE_*", "GCLOUD_PROJECT", "CLOUD_ML_REGION"),
    *("VERTEX_*", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    "NODE_EXTRA_CA_CERTS",
)
"""What Claude's process takes from the file of secrets; all else in it is left alone."""

SECRET_WORDS = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSW*", "*CREDENTIAL*", "*_HEADERS")

_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_PROJECT = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
# What decides where the CLI goes. It takes an empty variable for none, and one that the server's own
# environment has can only be emptied.
_DECIDES: Mapping[str, tuple[ProviderName, ...]] = {
    "CLAUDE_CODE_USE_BEDROCK": ("bedrock",),
    "CLAUDE_CODE_USE_VERTEX": ("vertex",),
    "CLAUDE_CODE_USE_FOUNDRY": (),
    "ANTHROPIC_BASE_URL": ("anthropic", "oauth", "compatible"),
    "ANTHROPIC_API_KEY": ("anthropic", "compatible"),
    "ANTHROPIC_AUTH_TOKEN": ("anthropic", "compatible"),
    "CLAUDE_CODE_OAUTH_TOKEN": ("oauth",),
}


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """What an administrator chose; the app's traits say what each is for.

    Attributes:
        provider: A provider, or ``auto`` for the first one that is configured.
        base_url: Of a server that speaks the Messages API; ``ANTHROPIC_BASE_URL`` where empty.
        model: What is asked unless a chat names another; the provider's own default where empty.
        models: What a chat may name besides.
        small: Whether the model is a small local one, which is not asked to think and gets no beta
            features; None: whenever it is not one of Claude's.
        secrets_file: Path of the file of secrets, relative to the root; empty for none.
    """

    provider: ProviderName | Literal["auto"] = "auto"
    base_url: str = ""
    model: str = ""
    models: tuple[str, ...] = ()
    small: bool | None = None
    secrets_file: str = ".secrets.env"


@dataclass(frozen=True, slots=True)
class Provider:
    """A model's server, as Claude's process is told of it.

    Attributes:
        name: Which one.
        environment: What that process has besides the server's own environment.
        model: What is asked unless a chat names another.
        models: What a chat may name, the default first.
        thinking: Whether the model may be asked to think.
        configured: The names of the variables that were found for it.
        missing: What has to be set before it can answer.
        problem: What is wrong with the file of secrets or with an address, or None.
        address: Host and port of the server, where it is none of the known ones.
        ignored: Names in the file of secrets that are nothing to Claude's process.
        secrets: Values that no log may show.
    """

    name: ProviderName
    environment: Mapping[str, str] = field(repr=False)
    model: str
    models: tuple[str, ...]
    thinking: bool = True
    configured: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str | None = None
    address: str | None = None
    ignored: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """What it is, for a person."""
        return LABELS[self.name]

    @property
    def ready(self) -> bool:
        """Whether it can be asked, as far as is known without asking it."""
        return not self.missing and self.problem is None

    @property
    def hint(self) -> str:
        """What to do next."""
        if self.problem is not None:
            return self.problem
        if self.missing:
            return f"Set {' and '.join(self.missing)}, in the server's environment or its secrets."
        if self.name == "tour":
            return "Set ANTHROPIC_API_KEY, in the server's environment or in .secrets.env."
        return "Ready."

    def health(self) -> dict[str, Any]:
        """What is configured and what is missing, as JSON and without values."""
        return {
            "provider": self.name,
            "label": self.label,
            "ready": self.ready,
            "model": self.model,
            "models": list(self.models),
            "address": self.address,
            "configured": list(self.configured),
            "missing": list(self.missing),
            "ignored": list(self.ignored),
            "hint": self.hint,
        }

    def redact(self, text: str) -> str:
        """A text without the values of secrets: what the process writes may hold some."""
        for value in self.secrets:
            text = text.replace(value, "[secret]")
        return text


def choose(settings: ProviderSettings, environment: Mapping[str, str], root: Path) -> Provider:
    """The provider that answers now.

    Reads the file of secrets: blocking, for a few kilobytes.

    Args:
        settings: What an administrator chose.
        environment: The server's own.
        root: The server's root folder.
    """
    try:
        from_file = _read(settings.secrets_file, root)
        problem = None
    except SecretsFileError as error:
        from_file, problem = {}, str(error)
    taken = {name: value for name, value in from_file.items() if _matches(name, TAKEN)}
    found = {name: value for name, value in {**taken, **environment}.items() if value}
    if settings.base_url:
        found["ANTHROPIC_BASE_URL"] = settings.base_url
    problem = problem or _wrong_address(found.get("ANTHROPIC_BASE_URL", ""))
    name = _first_configured(found) if settings.provider == "auto" else settings.provider
    model = settings.model or found.get("ANTHROPIC_MODEL", "") or _default_model(name)
    small = name == "compatible" and _is_small(settings, model)
    return Provider(
        name=name,
        environment={
            # The file's first: what follows settles between them.
            **{each: found[each] for each in taken if each in found},
            **_addressed(name, found, model),
            **(_for_small(model) if small else {}),
            **_emptied(name, found),
        },
        model=model,
        models=tuple(dict.fromkeys(each for each in (model, *_offered(settings, name)) if each)),
        thinking=not small,
        configured=tuple(sorted(each for each in found if _concerns(each, name))),
        missing=_missing(name, found, model),
        problem=problem,
        address=_shown(found.get("ANTHROPIC_BASE_URL", "")) if name == "compatible" else None,
        ignored=tuple(sorted(from_file.keys() - taken.keys())),
        secrets=tuple(
            sorted(
                {v for n, v in found.items() if _matches(n, SECRET_WORDS) and len(v) >= 6}
                - {model},
                key=len,
                reverse=True,
            )
        ),
    )


def beside_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep requests to this machine away from a proxy that is set."""
    listed = environment.get("NO_PROXY", "") or environment.get("no_proxy", "")
    names = [name for name in listed.split(",") if name]
    value = ",".join(dict.fromkeys([*names, "127.0.0.1", "localhost", "::1"]))
    return {"NO_PROXY": value, "no_proxy": value}


def _read(name: str, root: Path) -> dict[str, str]:
    return secrets_file.read(root / Path(name).expanduser()) if name else {}


def _first_configured(found: Mapping[str, str]) -> ProviderName:
    """The provider that the CLI itself would take, had it these variables."""
    if _is_on(found, "CLAUDE_CODE_USE_BEDROCK"):
        return "bedrock"
    if _is_on(found, "CLAUDE_CODE_USE_VERTEX"):
        return "vertex"
    if _is_elsewhere(found.get("ANTHROPIC_BASE_URL", "")):
        return "compatible"
    if any(name in found for name in _KEYS):
        return "anthropic"
    return "oauth" if "CLAUDE_CODE_OAUTH_TOKEN" in found else "tour"


def _is_on(found: Mapping[str, str], name: str) -> bool:
    return found.get(name, "").lower() in {"1", "true", "yes", "on"}


def _is_elsewhere(url: str) -> bool:
    host = _host(url)
    return bool(url) and host != "anthropic.com" and not host.endswith(".anthropic.com")


def _wrong_address(url: str) -> str | None:
    """What is wrong with an address, or None. The address is not shown: it may hold a password."""
    if url and not _host(url):
        return "ANTHROPIC_BASE_URL is no address such as http://localhost:11434."
    if url.rstrip("/").endswith("/v1"):
        return "ANTHROPIC_BASE_URL ends in /v1: leave that out, it is added to every request."
    return None


def _host(url: str) -> str:
    """The host of an address; empty where it is none."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "" if parts.scheme in {"http", "https"} else ""
    except ValueError:
        return ""


def _default_model(name: ProviderName) -> str:
    match name:
        case "tour":
            return TOUR_MODEL
        case "compatible":
            return ""
        case _:
            return CLAUDE_MODELS[0]


def _offered(settings: ProviderSettings, name: ProviderName) -> tuple[str, ...]:
    if name == "tour":
        return ()
    return settings.models or (() if name == "compatible" else CLAUDE_MODELS)


def _is_small(settings: ProviderSettings, model: str) -> bool:
    return "claude" not in model.lower() if settings.small is None else settings.small


def _missing(name: ProviderName, found: Mapping[str, str], model: str) -> tuple[str, ...]:
    """What it cannot answer without. Credentials that a cloud finds by itself are not asked for."""
    needs: list[tuple[str, ...]] = []
    match name:
        case "anthropic":
            needs = [_KEYS]
        case "oauth":
            needs = [("CLAUDE_CODE_OAUTH_TOKEN",)]
        case "compatible":
            needs = [("ANTHROPIC_BASE_URL",)]
        case "bedrock":
            needs = [_REGION]
        case "vertex":
            needs = [("CLOUD_ML_REGION",), _PROJECT]
        case "tour":
            pass
    missing = [names[0] for names in needs if not any(each in found for each in names)]
    return (*missing, *(() if model else ("ANTHROPIC_MODEL",)))


def _addressed(name: ProviderName, found: Mapping[str, str], model: str) -> dict[str, str]:
    """What says where to go, and as whom."""
    match name:
        case "anthropic" | "oauth":
            return _at(found)
        case "compatible":
            # Without any key the CLI asks nobody; a local server takes whatever comes.
            keyed = {} if any(each in found for each in _KEYS) else {"ANTHROPIC_AUTH_TOKEN": "none"}
            # Its small questions go to the same model: the server may have no other.
            small = found.get("ANTHROPIC_DEFAULT_HAIKU_MODEL", model)
            return {**_at(found), **keyed, "ANTHROPIC_DEFAULT_HAIKU_MODEL": small}
        case "bedrock":
            region = next((found[each] for each in _REGION if each in found), "")
            return {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": region}
        case "vertex":
            project = next((found[each] for each in _PROJECT if each in found), "")
            return {"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_PROJECT_ID": project}
        case "tour":
            return beside_proxies(found)


def _at(found: Mapping[str, str]) -> dict[str, str]:
    """The address where one is given, past a proxy where it is this machine's."""
    url = found.get("ANTHROPIC_BASE_URL")
    if url is None:
        return {}
    local = _host(url) in {"127.0.0.1", "localhost", "::1"}
    return {"ANTHROPIC_BASE_URL": url, **(beside_proxies(found) if local else {})}


def _for_small(model: str) -> dict[str, str]:
    """What a small local server needs: nothing that it does not know."""
    return {
        "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "ANTHROPIC_DEFAULT_SONNET_MODEL": model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": model,
    }


def _emptied(name: ProviderName, found: Mapping[str, str]) -> dict[str, str]:
    """What would send the CLI elsewhere, and keys that are none of this provider's business."""
    others = {each for each, providers in _DECIDES.items() if name not in providers}
    return dict.fromkeys(sorted(others & found.keys()), "")


def _concerns(variable: str, name: ProviderName) -> bool:
    if variable in _DECIDES:
        return name in _DECIDES[variable]
    match name:
        case "bedrock":
            return variable.startswith("AWS_")
        case "vertex":
            return variable in _PROJECT or variable.startswith(("CLOUD_ML_", "GOOGLE_", "VERTEX_"))
        case _:
            return variable == "ANTHROPIC_MODEL" and name != "tour"


def _shown(url: str) -> str:
    """Host and port of an address: the rest of it may hold a password."""
    host = _host(url)
    host = f"[{host}]" if ":" in host else host
    try:
        port = urlsplit(url).port
    except ValueError:
        port = None
    return host if port is None else f"{host}:{port}"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
