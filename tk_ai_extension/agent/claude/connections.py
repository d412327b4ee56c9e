"""The connection that a user enters in the panel: its test, its file, and the provider in force.

The file is in the user's own configuration folder, has mode 0600 and is replaced atomically. The key in it
is sent to the address beside it only. Errors name the host and a status; neither the key nor an answer's
body is in them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from jupyter_core.paths import jupyter_config_dir

from tk_ai_extension.agent.claude.messages_api import open_client
from tk_ai_extension.agent.claude.providers import (
    ANTHROPIC,
    BEDROCK_KEY,
    KEYS,
    OAUTH,
    Connection,
    Provider,
    ProviderSettings,
    choose,
    host_of,
    is_elsewhere,
)
from tk_ai_extension.agent.models import ConnectionInfo, ModelsInfo
from tk_ai_extension.model.agent_errors import ModelFailed, NoModel
from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied, ReadOnly, ToolError
from tk_ai_extension.model.private_files import (
    PrivateFileError,
    make_private,
    read_private,
    write_private,
)

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic

    from tk_ai_extension.agent.requests import ConnectRequest

FILE = "connection.json"

TIMEOUT = 15.0
"""Seconds until an answer to the test."""
MAX_MODELS = 60
"""Maximum models that are offered."""
SMALL = "claude-haiku-4-5"
"""Model of the test, where the provider lists none and the user named none."""

_PRINTABLE = re.compile(r"[!-~]{1,8000}")
"""Printable ASCII without spaces, as keys and addresses are."""
_REGION = re.compile(r"[a-z0-9-]{2,40}")
_PROJECT = re.compile(r"[a-z0-9.:-]{2,100}")
_MODEL = re.compile(r"[A-Za-z0-9._:/@\[\]-]{1,200}")


def user_folder() -> Path:
    """Return this package's folder in the user's Jupyter configuration."""
    return Path(jupyter_config_dir()) / "tk-ai-extension"


def parse(text: str, name: str = ".secrets.env") -> dict[str, str]:
    r"""Return the variables in a file of keys; of duplicate names the last one wins.

    A line is ``NAME=value`` with the shell's quotes, comments and an optional ``export``. Nothing is
    expanded or run.

    Args:
        text: The file's content.
        name: The file's path for errors.

    Raises:
        PrivateFileError: a line is invalid; the error does not show it.

    >>> parse("export A=1  # one\nB='a # b'")
    {'A': '1', 'B': 'a # b'}
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        words = [""]
        with suppress(ValueError):
            words = shlex.split(line, comments=True)
        if not words:
            continue
        variable, equals, value = words[-1].partition("=")
        if words[:-1] not in ([], ["export"]) or not equals or not variable.isidentifier():
            raise PrivateFileError(
                f"The file of keys {name} cannot be used: line {number} is not NAME=value. A value "
                "with a space, a quote, a backslash or # needs single quotes."
            )
        values[variable] = value
    return values


@dataclass(frozen=True, slots=True)
class ConnectionStore:
    """The file of the connection. All methods block.

    Attributes:
        file: Path of the file.
    """

    file: Path

    def read(self) -> Connection | None:
        """Return the connection; None if there is none.

        Raises:
            PrivateFileError: the file cannot be read or is not private.
        """
        text = read_private(self.file)
        if text is None:
            return None
        try:
            found: dict[str, Any] = json.loads(text)
            found["models"] = tuple(found["models"])
            return Connection(**found)
        except (ValueError, TypeError, KeyError):
            # Not chained: that error would hold the file's text.
            raise PrivateFileError(
                f"{self.file!s} cannot be used. Connect a model again."
            ) from None

    def save(self, connection: Connection) -> None:
        """Store a connection instead of the present one.

        Raises:
            ReadOnly: The file cannot be written, or its folder is not private.
        """
        folder = self.file.parent
        try:
            make_private(folder)
            found = folder.stat()
            if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
                raise ReadOnly(
                    f"{folder!s} is not private: others can write it, or it is another user's."
                )
            write_private(self.file, json.dumps(asdict(connection), indent=1))
        except OSError as error:
            raise self._unsaved(error) from error

    def delete(self) -> None:
        """Delete the connection and its secret; nothing happens without one.

        Raises:
            ReadOnly: The file cannot be deleted.
        """
        try:
            self.file.unlink(missing_ok=True)
            # Left by a process that was killed while it saved.
            for left in self.file.parent.glob(f".{self.file.name}-*"):
                left.unlink(missing_ok=True)
        except OSError as error:
            raise self._unsaved(error) from error

    def _unsaved(self, error: OSError) -> ReadOnly:
        return ReadOnly(f"The connection cannot be saved in {self.file!s}: {error.strerror}.")


class ClaudeModels:
    """Selects the provider at each call, so that a new key is used at once.

    Args:
        settings: The administrator's settings.
        root: The server's root folder.
        store: The connection of the panel; by default in the user's configuration folder.
        environment: The server's environment.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        root: Path,
        store: ConnectionStore | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._root = root
        self._store = store or ConnectionStore(user_folder() / FILE)

    async def provider(self) -> Provider:
        """Return the provider that is configured now.

        If it cannot be used, its `problem` says why.
        """
        return await asyncio.to_thread(self._choose)

    async def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, without values."""
        return (await self.provider()).health()

    async def connection(self) -> ConnectionInfo:
        """Return the state of the connection, without its secret."""
        return await asyncio.to_thread(self._connection)

    async def connect(self, new: ConnectRequest) -> ConnectionInfo:
        """Test a connection with one request, then store it; return the new state.

        Raises:
            PermissionDenied: The administrator has switched this off.
            InvalidArguments: A field is missing or invalid; the provider refused the key, the account
                has no credit, or there is no Messages API at the address.
            NoModel: The provider has no such model.
            ModelFailed: The provider is busy, or failed.
            ReadOnly: The connection cannot be stored.
        """
        if not self._settings.connect:
            contact = self._settings.contact
            raise PermissionDenied(
                "Connecting a model in the panel is switched off here.",
                hint=f"Ask {contact} to connect a model." if contact else None,
            )
        connection = await _tested(new, await asyncio.to_thread(self._stored))
        await asyncio.to_thread(self._store.save, connection)
        return await self.connection()

    async def disconnect(self) -> ConnectionInfo:
        """Delete the stored connection and its secret; return the new state.

        Raises:
            ReadOnly: It cannot be deleted.
        """
        await asyncio.to_thread(self._store.delete)
        return await self.connection()

    def _stored(self) -> Connection | None:
        with suppress(PrivateFileError):
            return self._store.read()
        return None

    def _connection(self) -> ConnectionInfo:
        provider, stored = self._choose(), self._stored()
        in_force = provider.source == "stored"
        return {
            "allowed": self._settings.connect,
            "contact": self._settings.contact,
            "stored": None if stored is None else stored.described(in_force=in_force),
            "models": provider.health(),
        }

    def _choose(self) -> Provider:
        keys: dict[str, str] = {}
        stored: Connection | None = None
        problem: str | None = None
        try:
            if self._settings.secrets_file:
                file = self._root / Path(self._settings.secrets_file).expanduser()
                keys = parse(read_private(file, refused_bits=0o022) or "", str(file))
        except PrivateFileError as error:
            return choose(self._settings, self._environment, problem=error.message)
        try:
            stored = self._store.read() if self._settings.connect else None
        except PrivateFileError as error:
            problem = error.message
        found = choose(self._settings, self._environment, keys, stored)
        if found.name == "tour" and self._settings.provider == "auto":
            # Nothing else answers: the user learns why.
            return replace(found, problem=problem)
        return found


async def _tested(new: ConnectRequest, stored: Connection | None) -> Connection:
    """Return what the user entered as a connection that works.

    Clouds are not asked: they find their credentials, and sign each request, only in Claude's process.
    """
    connection = _entered(new, stored)
    if not connection.base_url:
        return connection
    try:
        return await _asked(connection)
    except InvalidArguments as error:
        is_refused = error.details.get("field") == "secret"
        if connection.provider != "compatible" or not connection.secret or not is_refused:
            raise
    # A gateway may take its key as a bearer token.
    return await _asked(replace(connection, variable=KEYS[1]))


async def _asked(connection: Connection) -> Connection:
    import anthropic

    host = host_of(connection.base_url)
    client = await asyncio.to_thread(open_client, connection.variables, TIMEOUT)
    models: tuple[str, ...] = ()
    model = connection.model
    try:
        async with client:
            models = await _list(client)
            model = model or _cheapest(models) or (SMALL if connection.variable == OAUTH else "")
            if not model:
                raise InvalidArguments(
                    f"{host} does not list its models.",
                    hint="Enter the name of a model.",
                    field="model",
                )
            message: object = await client.messages.create(
                model=model,
                max_tokens=1,
                messages=[{"role": "user", "content": "Answer with one word: ready?"}],
            )
        if getattr(message, "type", None) != "message":
            raise _no_api(host, 200)
    except anthropic.APITimeoutError:
        # Errors are not chained: the request with its key is not in a traceback.
        raise InvalidArguments(
            f"{host} did not answer within {TIMEOUT:g} s.",
            field="base_url",
            hint="Try again. If it happens again, check the address and the network.",
        ) from None
    except anthropic.APIStatusError as error:
        # Claude Code's own tokens are made for its program: whether they are known is all that this shows.
        if connection.variable != OAUTH or error.status_code not in (400, 403, 404):
            raise _failure(host, error, model) from None
    except anthropic.APIConnectionError:
        raise InvalidArguments(
            f"{host} cannot be reached.",
            field="base_url",
            hint="Check the address, and HTTPS_PROXY and SSL_CERT_FILE of the server.",
        ) from None
    # Names such as `sonnet` are Anthropic's: another endpoint has names of its own.
    kept = model if connection.provider == "compatible" else connection.model
    return replace(connection, models=models, model=kept)


async def _list(client: AsyncAnthropic) -> tuple[str, ...]:
    """Return the models that a provider lists; none where it has no list."""
    import anthropic

    try:
        found: Any = await client.get("/v1/models?limit=100", cast_to=object)
    except anthropic.AuthenticationError:
        raise
    except anthropic.APIStatusError:
        # 403: a token that may send messages only.
        return ()
    listed: Any = found.get("data") if isinstance(found, dict) else None
    entries: list[Any] = listed if isinstance(listed, list) else []
    names = [each.get("id") for each in entries if isinstance(each, dict)]
    return tuple(each for each in names if isinstance(each, str) and len(each) <= 200)[:MAX_MODELS]


def _cheapest(models: tuple[str, ...]) -> str:
    return next((each for each in models if "haiku" in each), models[0] if models else "")


def _failure(host: str, error: APIStatusError, model: str) -> ToolError:
    """Return the error for an answer of the provider."""
    status, text = error.status_code, error.api_message or ""
    if status == 402 or error.type == "billing_error" or "credit balance" in text:
        return InvalidArguments(
            f"{host} accepts the key, but the account has no credit.",
            hint="Add credit in the provider's billing settings, then try again.",
        )
    match status:
        case 401 | 403:
            return InvalidArguments(
                f"{host} refused the key ({status}).",
                field="secret",
                hint="Copy the whole key again, and check that it belongs to this provider.",
            )
        case 404 if error.type == "not_found_error" and model:
            return NoModel(
                f"{host} has no model `{model}`.",
                hint="Enter the name of a model.",
                field="model",
            )
        case _ if status in (400, 413, 422, 429) or status >= 500:
            return ModelFailed(f"{host} is busy or answered with an error ({status}).")
        case _:
            # A redirect, a missing route, or a page instead of an answer.
            return _no_api(host, status)


def _no_api(host: str, status: int) -> InvalidArguments:
    return InvalidArguments(
        f"There is no Messages API at {host} ({status}).",
        field="base_url",
        hint="Enter the endpoint's base URL, without /v1.",
    )


def _entered(new: ConnectRequest, stored: Connection | None) -> Connection:
    """Return what the user entered as a connection, before its test.

    The stored key is used again for the same provider and address only.
    """
    if new.model and not _MODEL.fullmatch(new.model):
        _invalid("model")
    if new.provider in ("bedrock", "vertex") and not _REGION.fullmatch(new.region):
        _invalid("region")
    if new.provider == "vertex":
        if not _PROJECT.fullmatch(new.project):
            _invalid("project")
        return Connection("vertex", model=new.model, region=new.region, project=new.project)
    if new.provider == "bedrock":
        secret = _secret(new, stored, "")
        variable = BEDROCK_KEY if secret else ""
        return Connection("bedrock", secret, variable, model=new.model, region=new.region)
    address = _address(new)
    secret = _secret(new, stored, address)
    if not secret and new.provider != "compatible":
        _invalid("secret")
    variable = OAUTH if new.provider == "oauth" else KEYS[0] if secret else ""
    return Connection(new.provider, secret, variable, address, new.model)


def _address(new: ConnectRequest) -> str:
    """Return the address of an endpoint, without a slash at its end."""
    if new.provider != "compatible":
        return ANTHROPIC
    url = new.base_url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        has_more = bool(parts.query or parts.fragment or "@" in parts.netloc)
        valid = parts.port is None or parts.port > 0
    except ValueError:
        has_more, valid = True, False
    # Anthropic's own address is that provider: a key is not sent there as a bearer token.
    usable = valid and not has_more and _PRINTABLE.fullmatch(url)
    if not usable or not host_of(url) or not is_elsewhere(url):
        _invalid("base_url")
    return url.removesuffix("/v1")


def _secret(new: ConnectRequest, stored: Connection | None, address: str) -> str:
    """Return the secret that was entered, or the stored one if it was entered for this address."""
    if new.secret:
        secret = new.secret.strip()
        if not _PRINTABLE.fullmatch(secret):
            _invalid("secret")
        return secret
    if new.secret is not None or stored is None:
        return ""
    kept = (stored.provider, stored.base_url, stored.region)
    return stored.secret if kept == (new.provider, address, new.region) else ""


def _invalid(field: str) -> NoReturn:
    raise InvalidArguments(f"The field {field} is missing or invalid.", field=field)
