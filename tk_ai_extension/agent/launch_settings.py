"""What agents are started with: a model, a command, an environment and its secrets, a folder."""

from __future__ import annotations

import gc
import json
import re
import shutil
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote, unquote

from tk_ai_extension.kernels.environment_variables import SECRET_WORDS, matches
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.model.private_files import make_private

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM"),
    *("TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "DYLD_*", "NIX_*"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "HOMEDRIVE"),
    *("HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES*"),
    "NUMBER_OF_PROCESSORS",
)
"""Variables (`fnmatch`) that an agent's process inherits, in addition to those of its provider."""

MIN_SECRET = 4
"""Minimum length of a secret: a shorter one would garble each text."""

_USER_INFO = re.compile(r"(?:^|//)([^\s/@:]*:(?!//)([^\s@]+))@")
"""User information of an address, and the password in it."""
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)

NETWORK = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("NODE_EXTRA_CA_CERTS", "NODE_OPTIONS", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""Variables of proxies and certificates."""


@dataclass(frozen=True)
class ModelProvider:
    """Configured provider of an agent's model. Providers compare by value: equal ones share a session.

    Attributes:
        model: The default model.
        models: The models that a chat may choose, the default first.
    """

    model: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """How an agent is started.

    Attributes:
        name: The agent's name in the list of models: ``name``, or ``name:model`` for one of its models.
        title: The display name.
        command: The program and its arguments.
        variables: Names (`fnmatch`) of variables of the server's environment that its process gets, in
            addition to those that every agent inherits.
        environment: Further variables of its process.
        logins: For each login method of the agent, by id: variables of which one has to be set.
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
        """Prefix of the ids of its sessions in a chat's history."""
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
        wanted = (*INHERITED, *self.variables, *NETWORK)
        return {**matching(environment, wanted), **self.environment}


def matching(values: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return the variables that match one of these patterns."""
    return {name: value for name, value in values.items() if matches(name, patterns)}


def secrets_of(*environments: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the environments of processes, the longest first, for redaction.

    They are the values of `SECRET_WORDS`, the value of each header in them, and the passwords of
    addresses in any variable; each also as other programs write it.

    >>> secrets_of({"HTTPS_PROXY": "http://bob:hunter2@proxy:1", "LANG": "C"})
    ('bob%3Ahunter2', 'bob:hunter2', 'hunter2')
    >>> secrets_of({"X_HEADERS": "Authorization: Bearer 0123456789"})[-1]
    '0123456789'
    """
    found: set[str] = set()
    for name, value in (each for variables in environments for each in variables.items()):
        if matches(name, SECRET_WORDS):
            found |= {value, *value.splitlines()}
        if matches(name, ("*_HEADERS",)):
            found |= {part.partition(sign)[2] for part in _parts(value) for sign in ":="}
        for match in _USER_INFO.finditer(value):
            found |= {match[1], match[2]}
    plain = {unquote(each.strip()) for each in found}
    plain |= {_SCHEME.sub("", each, count=1) for each in plain} | {each.strip() for each in found}
    forms = {
        form for each in plain for form in (each, quote(each, safe=""), json.dumps(each)[1:-1])
    }
    return tuple(sorted((f for f in forms if len(f) >= MIN_SECRET), key=lambda f: (-len(f), f)))


def _parts(value: str) -> list[str]:
    """Return the headers in a value, which separates them by lines or by commas."""
    return [part for line in value.splitlines() for part in (line, *line.split(","))]


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without the secrets that `secrets_of` returned."""
    for value in secrets:
        text = text.replace(value, "[secret]")
    return text


@contextmanager
def gc_paused() -> Generator[None]:
    """Pause the garbage collector during imports, then freeze the imported objects.

    Importing many classes triggers several full collections of a third of a second
    each, which hold the GIL and so block the event loop. Classes are never freed anyway.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def make_work_folder(state: Path, name: str) -> Path:
    """Create the folder of this name in a folder of mode 0700, and return it.

    Raises:
        AgentUnavailable: It cannot be created.
    """
    folder = state / name
    try:
        make_private(folder)
    except OSError as error:
        raise AgentUnavailable(
            f"The folder {folder} cannot be used: {error.strerror or type(error).__name__}.",
            hint="Free space on its disk, or let the user of the server write there.",
        ) from error
    return folder
