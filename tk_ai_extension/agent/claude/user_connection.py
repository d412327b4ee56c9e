"""The connection that a user enters in the panel: its test, its file, and the provider in force.

The provider's Messages API is asked by the official client, without Claude's process.
The file is in the user's configuration folder, has mode 0600 and is replaced atomically. The key in it is
sent only to the address in the file, and errors do not show it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from jupyter_core.paths import jupyter_config_dir
from pydantic import TypeAdapter, ValidationError

from tk_ai_extension.agent.claude.providers import (
    ADDRESS,
    ANTHROPIC,
    KEYS,
    MODEL,
    OAUTH,
    ClaudeProvider,
    ConnectionInfo,
    ProviderSettings,
    StoredConnection,
    choose,
    host_of,
    is_elsewhere,
    is_local,
)
from tk_ai_extension.agent.launch_settings import gc_paused, redacted, secrets_of
from tk_ai_extension.model.agent_errors import ModelFailed, ModelUnauthorized, NoModel
from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied, ReadOnly, ToolError
from tk_ai_extension.model.private_files import (
    PrivateFileError,
    make_private,
    read_private,
    write_private,
)

if TYPE_CHECKING:
    from anthropic import APIError, AsyncAnthropic
    from anthropic.types import Message

    from tk_ai_extension.agent.chat_requests import ConnectRequest

FILE = "connection.json"

OAUTH_BETA: Final = "oauth-2025-04-20"
"""Feature of the API that accepts Claude Code's tokens."""

TIMEOUT = 15.0
"""Seconds until an answer to the test."""
MAX_MODELS = 60
"""Maximum models that are offered."""

_PRINTABLE = re.compile(r"[!-~]+")
"""Printable ASCII without spaces, as keys, addresses and names are."""


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

    def read(self) -> StoredConnection | None:
        """Return the connection; None if there is none.

        Raises:
            PrivateFileError: the file cannot be read or is not private.
        """
        text = read_private(self.file)
        if text is None:
            return None
        try:
            return TypeAdapter(StoredConnection).validate_json(text)
        except ValidationError:
            # Not chained: that error would hold the file's text.
            raise PrivateFileError(
                f"{self.file!s} cannot be used. Connect a model again."
            ) from None

    def save(self, connection: StoredConnection | None) -> None:
        """Replace the stored connection; None deletes it with its secret.

        Raises:
            ReadOnly: The file cannot be written, or its folder is not private.
        """
        folder = self.file.parent
        try:
            if connection is None:
                self.file.unlink(missing_ok=True)
                return
            make_private(folder)
            found = folder.stat()
            if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
                raise ReadOnly(
                    f"{folder!s} is not private: others can write it, or it is another user's."
                )
            write_private(self.file, json.dumps(asdict(connection), indent=1))
        except OSError as error:
            raise ReadOnly(
                f"The connection cannot be saved in {self.file!s}: {error.strerror}."
            ) from error


class ProviderSelector:
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

    async def provider(self) -> ClaudeProvider:
        """Return the provider that is configured now.

        If it cannot be used, its `problem` says why.
        """
        return (await asyncio.to_thread(self._read))[0]

    async def connection(self) -> ConnectionInfo:
        """Return the state of the connection, without its secret."""
        provider, stored = await asyncio.to_thread(self._read)
        in_force = provider.source == "stored"
        return {
            "allowed": self._settings.connect,
            "stored": None if stored is None else stored.described(in_force=in_force),
            "models": provider.health(),
        }

    async def connect(self, new: ConnectRequest) -> ConnectionInfo:
        """Test a connection with one request, then store it; return the new state.

        Raises:
            PermissionDenied: The administrator has switched this off.
            InvalidArguments: A field is missing or invalid, or the provider refused the key.
            NoModel, ModelFailed: See `MessagesApi.answer`.
            ReadOnly: The connection cannot be stored.
        """
        if not self._settings.connect:
            raise PermissionDenied(
                "Connecting a model in the panel is switched off here.",
                hint="Ask your administrator to connect a model.",
            )
        _, stored = await asyncio.to_thread(self._read)
        connection = await _tested(_entered(new, stored))
        await asyncio.to_thread(self._store.save, connection)
        return await self.connection()

    async def disconnect(self) -> ConnectionInfo:
        """Delete the stored connection and its secret; return the new state.

        Raises:
            ReadOnly: It cannot be deleted.
        """
        await asyncio.to_thread(self._store.save, None)
        return await self.connection()

    def _read(self) -> tuple[ClaudeProvider, StoredConnection | None]:
        """Return the provider in force, and the stored connection if it can be read."""
        settings, stored, keys = self._settings, None, {}
        problem: str | None = None
        try:
            stored = self._store.read()
        except PrivateFileError as error:
            problem = error.message
        try:
            if settings.secrets_file:
                file = self._root / Path(settings.secrets_file).expanduser()
                keys = parse(read_private(file, refused_bits=0o022) or "", str(file))
        except PrivateFileError as error:
            return replace(choose(settings, self._environment), problem=error.message), stored
        found = choose(settings, self._environment, keys, stored if settings.connect else None)
        if found.name == "tour" and settings.connect:
            # Only the tour answers: tell the user why.
            found = replace(found, problem=problem)
        return found, stored


async def _tested(connection: StoredConnection) -> StoredConnection:
    """Return a connection that works, with the models that its provider lists."""
    values = connection.variables
    api = await asyncio.to_thread(MessagesApi, values, TIMEOUT)
    try:
        models = (await api.models())[:MAX_MODELS]
        model = values.get(MODEL) or _cheapest(models)
        # A subscription's token is for Claude's program: the test only shows whether it is known.
        if OAUTH not in values:
            if not model:
                raise InvalidArguments(
                    f"{host_of(values[ADDRESS])} does not list its models.",
                    hint="Enter the name of a model.",
                    field="model",
                )
            ready = {"role": "user", "content": "Answer with one word: ready?"}
            await api.answer(model, TIMEOUT, max_tokens=1, messages=[ready])
    except ModelUnauthorized as error:
        raise InvalidArguments(
            error.message,
            field="secret",
            hint="Copy the whole key again, and check that it belongs to this provider.",
        ) from None
    finally:
        await api.close()
    if is_elsewhere(values[ADDRESS]):
        # Names such as `sonnet` are Anthropic's: another endpoint has other names.
        values = {**values, MODEL: model}
    return replace(connection, variables=values, models=models)


def _cheapest(models: tuple[str, ...]) -> str:
    return next((each for each in models if "haiku" in each), models[0] if models else "")


def _entered(new: ConnectRequest, stored: StoredConnection | None) -> StoredConnection:
    """Return what the user entered as a connection, before its test.

    The stored key is used again for the same provider and address only.
    """
    place, secrets = _place(new)
    known = {} if stored is None else stored.variables
    if new.secret is not None:
        secret = _checked("secret", new.secret) if new.secret else ""
    else:
        secret = known.get(secrets[0], "") if place.items() <= known.items() else ""
    if not secret and new.provider in ("anthropic", "oauth"):
        raise _invalid("secret")
    values = place | (dict.fromkeys(secrets, secret) if secret else {})
    if new.model:
        values[MODEL] = _checked("model", new.model)
    return StoredConnection(values)


def _place(new: ConnectRequest) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables with a provider's address, and the names of those with its secret."""
    match new.provider:
        case "anthropic":
            return {ADDRESS: ANTHROPIC}, KEYS[:1]
        case "oauth":
            return {ADDRESS: ANTHROPIC}, (OAUTH,)
        case "compatible":
            # A gateway may take its key as a bearer token.
            return {ADDRESS: _address(new.base_url)}, KEYS


_NAMES = {"secret": "key or token", "base_url": "base URL"}
"""Labels of the form's fields that differ from their names."""


def _address(entered: str) -> str:
    """Return the address of an endpoint, without a trailing slash."""
    url = entered.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        # Anthropic's address is another provider here: a key is not sent there as a bearer token.
        usable = parts.port != 0 and is_elsewhere(url) and bool(host_of(url))
        has_more = bool(parts.query or parts.fragment or "@" in parts.netloc)
    except ValueError:
        raise _invalid("base_url") from None
    if not usable or has_more:
        raise _invalid("base_url")
    return _checked("base_url", url).removesuffix("/v1")


def _checked(field: str, value: str) -> str:
    """Return the value of a field without spaces around it."""
    value = value.strip()
    if not _PRINTABLE.fullmatch(value):
        raise _invalid(field)
    return value


def _invalid(field: str) -> InvalidArguments:
    return InvalidArguments(f"Enter a valid {_NAMES.get(field, field)}.", field=field)


class MessagesApi:
    """A client with exactly the address, key and headers of some variables.

    Creating one blocks: it imports and reads files. A key is sent to its address only: redirects are not
    followed, and nothing is taken from this process's environment but proxies and certificates
    (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`).

    Args:
        values: Variables of Claude's process.
        timeout: Timeout of each step of a request, in seconds.

    Raises:
        ModelFailed: The certificates cannot be read, or the proxy cannot be used.
    """

    def __init__(self, values: Mapping[str, str], timeout: float) -> None:
        self._client = _client(values, timeout)
        self._timeout = timeout
        self._host = host_of(values.get(ADDRESS, "") or ANTHROPIC)
        self._secrets = secrets_of(values)
        self._listed: tuple[str, ...] | None = None

    async def close(self) -> None:
        """Close all connections; running requests fail."""
        await self._client.close()

    async def models(self) -> tuple[str, ...]:
        """Return the ids of the models that the provider lists, the newest first; none without a list.

        Raises:
            ModelUnauthorized, ModelFailed.
        """
        if self._listed is not None:
            return self._listed
        import anthropic

        try:
            found: Any = await self._client.get("/v1/models?limit=100", cast_to=object)
        except anthropic.APIError as error:
            if not isinstance(error, anthropic.APIStatusError) or error.status_code == 401:
                # Errors are not chained: the request with its key is not in a traceback.
                raise self._error(error, self._timeout) from None
            # There is no list, or the token may only send messages (403).
            found = None
        listed: Any = found.get("data") if isinstance(found, dict) else None
        entries: list[Any] = listed if isinstance(listed, list) else []
        names = [each.get("id") for each in entries if isinstance(each, dict)]
        self._listed = tuple(each for each in names if isinstance(each, str) and len(each) <= 200)
        return self._listed

    async def answer(self, model: str, timeout: float, **body: Any) -> Message:
        """Return the answer to a message; cancelling it closes the request.

        Args:
            model: The model's id.
            timeout: Timeout of the whole request, in seconds.
            body: The other fields of the request.

        Raises:
            ModelUnauthorized, ModelFailed: ``details`` name the wrong ``field`` of the connection, if any.
            NoModel: The provider has no such model.
        """
        import anthropic

        try:
            async with asyncio.timeout(timeout):
                message: Message = await self._client.messages.create(
                    model=model, timeout=timeout, **body
                )
        except TimeoutError:
            raise self._late(timeout) from None
        except anthropic.APIError as error:
            raise self._error(error, timeout, model) from None
        if getattr(message, "type", None) != "message":
            raise self._no_api(200)
        return message

    def _error(self, error: APIError, timeout: float, model: str = "") -> ToolError:
        import anthropic

        if isinstance(error, anthropic.APITimeoutError):
            return self._late(timeout)
        if not isinstance(error, anthropic.APIStatusError):
            return ModelFailed(
                f"{self._host} cannot be reached.",
                hint="Check the address, and HTTPS_PROXY and SSL_CERT_FILE of the server.",
                field="base_url",
            )
        status = error.status_code
        if status == 404 and error.type == "not_found_error":
            hint = "Enter the name of a model."
            return NoModel(f"{self._host} has no model `{model}`.", hint=hint, field="model")
        if status < 400 or status in (404, 405):
            return self._no_api(status)
        said = redacted(error.api_message or "", self._secrets).rstrip(".")[:500]
        return provider_error(status, said or "no reason given", "Try again.")

    def _late(self, timeout: float) -> ModelFailed:
        hint = "Try again. If it happens again, check the address and the network."
        return ModelFailed(
            f"{self._host} did not answer within {timeout:g} s.", hint=hint, field="base_url"
        )

    def _no_api(self, status: int) -> ModelFailed:
        return ModelFailed(
            f"There is no Messages API at {self._host} ({status}).",
            hint="Give the endpoint's base URL, without /v1.",
            field="base_url",
        )


def provider_error(status: int | None, said: str, hint: str | None = None) -> ToolError:
    """Return the error for a failure of the provider.

    Args:
        status: The HTTP status of its response; None without a response.
        said: Its message, without secrets.
        hint: What to do, if it is something other than to send a message again.
    """
    if status == 401:
        return ModelUnauthorized("The provider refused the key (401).")
    if status == 403:
        return ModelUnauthorized(f"The provider refused the key (403): {said}.")
    if status in (429, 503, 529):
        return ModelFailed(f"The provider is busy ({status}): {said}.", hint=hint)
    if status:
        return ModelFailed(f"The model could not answer ({status}): {said}.", hint=hint)
    return ModelFailed(f"The model could not answer: {said}.", hint=hint)


def _client(values: Mapping[str, str], timeout: float) -> AsyncAnthropic:
    """Return the client; see `MessagesApi`."""
    if "anthropic" not in sys.modules:
        with gc_paused():
            import_module("anthropic")
    import anthropic
    import httpx2

    url = values.get(ADDRESS) or ANTHROPIC
    # The headers that the client would read from the environment, replaced by those of `values`.
    headers: dict[str, str | anthropic.Omit] = dict.fromkeys(
        _headers(os.environ).keys() | {"authorization"}, anthropic.omit
    )
    headers |= _headers(values)
    try:
        http = httpx2.AsyncClient(timeout=timeout, trust_env=not is_local(url))
    except (ValueError, ImportError, OSError, httpx2.InvalidURL):
        # Not chained: an address may hold a password.
        raise ModelFailed(
            "The client cannot be created: a proxy or a file of certificates cannot be used.",
            hint="Check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR.",
        ) from None
    return anthropic.AsyncAnthropic(
        # Explicit, so that the client does not read the environment; `headers` replace it.
        api_key="",
        base_url=url,
        default_headers=headers,  # pyrefly: ignore[bad-argument-type] - see `anthropic.omit`
        http_client=http,
        max_retries=0,
        timeout=timeout,
    )


def _headers(values: Mapping[str, str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if key := values.get(KEYS[0]):
        headers["x-api-key"] = key
    if token := values.get(KEYS[1]):
        headers["authorization"] = f"Bearer {token}"
    if token := values.get(OAUTH):
        headers |= {"authorization": f"Bearer {token}", "anthropic-beta": OAUTH_BETA}
    for line in values.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return headers
