"""Test of a connection: the provider's list of models, then one message of one token.

A key is sent to its address only: redirects are not followed and no ``.netrc`` is read. Errors name
the host and a status; neither the key nor an answer's body is in them.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from tk_ai_extension.agent.claude.connection_store import is_storable
from tk_ai_extension.agent.claude.sources import KEYS, OAUTH, host_of
from tk_ai_extension.model.agent_errors import (
    InvalidConnection,
    KeyRefused,
    ModelBusy,
    ModelFailed,
    NoCredit,
    NoModel,
    ProviderTimeout,
    ProviderUnreachable,
    WrongAddress,
)
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.sentences import Sentence

TIMEOUT = 15.0
"""Seconds until an answer."""
MAX_BYTES = 1_000_000
"""Maximum size of an answer that is read."""
MAX_MODELS = 60
"""Maximum models that are offered."""
VERSION = "2023-06-01"
OAUTH_BETA = "oauth-2025-04-20"
SMALL = "claude-haiku-4-5"
"""Model of the test, where the provider lists none and the user named none."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a connection is tested, and with what.

    Attributes:
        base_url: The address, without ``/v1``.
        secret: The key or token; empty for none.
        names: The variables that the secret may be, the first that is accepted.
        model: The model that the user named; empty for none.
        network: Variables of proxies and certificates.
        timeout: Seconds until an answer.
    """

    base_url: str
    secret: str = field(repr=False)
    names: tuple[str, ...]
    model: str = ""
    network: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = field(default_factory=lambda: TIMEOUT)

    @property
    def host(self) -> str:
        """The host for messages."""
        return host_of(self.base_url)


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a test.

    Attributes:
        name: The variable for the secret; empty without one.
        models: The models that the provider lists.
        model: The model that answered.
    """

    name: str
    models: tuple[str, ...]
    model: str


def check(endpoint: Endpoint) -> Checked:
    """Test a connection. Blocks.

    Raises:
        KeyRefused: The secret was refused in each way of sending it.
        NoCredit: The account has no credit.
        NoModel: The provider has no such model.
        WrongAddress: There is no Messages API.
        ProviderUnreachable: The host cannot be reached.
        ProviderTimeout: It did not answer in time.
        InvalidConnection: It lists no models, and the user named none.
        ModelBusy: It is busy.
        ModelFailed: It failed.
    """
    names = endpoint.names if endpoint.secret else ("",)
    for name in names:
        try:
            return _check(endpoint, name)
        except KeyRefused:
            if name == names[-1]:
                raise
    raise AssertionError("No way to send the secret.")


def _check(endpoint: Endpoint, name: str) -> Checked:
    models = _list(endpoint, name)
    model = endpoint.model or _cheapest(models) or (SMALL if name == OAUTH else "")
    if not model:
        raise InvalidConnection(
            Sentence("test_model_needed", host=endpoint.host),
            hint=Sentence("test_model_needed_hint"),
            field="model",
        )
    body = {
        "model": model,
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "Answer with one word: ready?"}],
    }
    status, answer = _ask(endpoint, name, "/v1/messages", body)
    # Claude Code's own tokens are made for its program: whether they are known is all that this shows.
    known = name == OAUTH and status in (400, 403, 404)
    if not known and not (status == 200 and answer.get("type") == "message"):
        raise _error(endpoint, status, answer, model)
    return Checked(name, models, model)


def _list(endpoint: Endpoint, name: str) -> tuple[str, ...]:
    """Return the models that a provider lists; none where it has no list."""
    status, answer = _ask(endpoint, name, "/v1/models?limit=100")
    # 403: a token that may send messages only.
    if status == 401:
        raise _error(endpoint, status, answer)
    listed: Any = answer.get("data") if status == 200 else None
    if not isinstance(listed, list):
        return ()
    entries = cast("list[Any]", listed)
    ids = [cast("Json", each).get("id") for each in entries if isinstance(each, dict)]
    names = [each for each in ids if isinstance(each, str) and len(each) <= 200]
    return tuple(each for each in names if is_storable(each) and "," not in each)[:MAX_MODELS]


def _cheapest(models: tuple[str, ...]) -> str:
    return next((each for each in models if "haiku" in each), models[0] if models else "")


def _ask(
    endpoint: Endpoint, name: str, path: str, body: Mapping[str, Any] | None = None
) -> tuple[int, dict[str, Any]]:
    """Send one request; return the status and the JSON object, empty for any other body."""
    headers = {"anthropic-version": VERSION, "Accept": "application/json"}
    if name == KEYS[0]:
        headers["x-api-key"] = endpoint.secret
    elif name:
        headers["Authorization"] = f"Bearer {endpoint.secret}"
    if name == OAUTH:
        headers["anthropic-beta"] = OAUTH_BETA
    if body is not None:
        headers["Content-Type"] = "application/json"
    data = None if body is None else json.dumps(body).encode()
    # The scheme was checked.
    request = Request(endpoint.base_url + path, data, headers)  # noqa: S310
    try:
        with _opener(endpoint).open(request, timeout=endpoint.timeout) as response:
            return response.status, _object(response.read(MAX_BYTES))
    except HTTPError as error:
        with error:
            return error.code, _object(_read(error))
    except TimeoutError:
        raise _timeout(endpoint) from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _timeout(endpoint) from None
        raise _unreachable(endpoint, _why(error.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Not chained: the request with its key is not in a traceback.
        raise _unreachable(endpoint, _why(error)) from None


def _read(error: HTTPError) -> bytes:
    try:
        return error.read(MAX_BYTES)
    except (OSError, http.client.HTTPException):
        return b""


class _NoRedirects(HTTPRedirectHandler):
    """Answers of a redirect are the answer: a key does not follow it."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Return no request."""


def _opener(endpoint: Endpoint) -> OpenerDirector:
    said = endpoint.network
    context = ssl.create_default_context(
        cafile=said.get("SSL_CERT_FILE") or None, capath=said.get("SSL_CERT_DIR") or None
    )
    if said.get("NODE_EXTRA_CA_CERTS"):
        # As Node.js does, without a file that cannot be read.
        with suppress(OSError):
            context.load_verify_locations(said["NODE_EXTRA_CA_CERTS"])
    proxies = {
        scheme: said.get(f"{scheme}_proxy") or said.get(f"{scheme.upper()}_PROXY") or ""
        for scheme in ("http", "https")
    }
    if _is_direct(endpoint.host, said.get("no_proxy") or said.get("NO_PROXY") or ""):
        proxies = {}
    used = {scheme: proxy for scheme, proxy in proxies.items() if proxy}
    return build_opener(ProxyHandler(used), HTTPSHandler(context=context), _NoRedirects)


def _is_direct(host: str, without: str) -> bool:
    """Whether a host is asked without a proxy: this machine, and those of ``NO_PROXY``."""
    names = ["localhost", "127.0.0.1", "::1", *(name.strip() for name in without.split(","))]
    suffixes = [name.removeprefix("*").removeprefix(".") for name in names if name]
    return any(not s or host == s or host.endswith(f".{s}") for s in suffixes)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _error(
    endpoint: Endpoint, status: int, answer: Mapping[str, Any], model: str = ""
) -> ToolError:
    """Return the error for an answer of the provider."""
    host = endpoint.host
    found: Any = answer.get("error")
    details = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    kind, text = str(details.get("type", "")), str(details.get("message", ""))
    if status == 402 or kind == "billing_error" or "credit balance" in text:
        return NoCredit(Sentence("credit_missing", host=host))
    match status:
        case 401 | 403:
            return KeyRefused(Sentence("key_refused", host=host, status=status), field="secret")
        case 404 if kind == "not_found_error" and model:
            return NoModel(
                Sentence("test_model_missing", host=host, model=model),
                hint=Sentence("test_model_needed_hint"),
                field="model",
            )
        case 429 | 503 | 529:
            return ModelBusy(Sentence("test_busy", host=host, status=status))
        case 400 | 413 | 422:
            return ModelFailed(Sentence("test_failed", host=host, status=status))
        case _ if status >= 500:
            return ModelFailed(Sentence("test_failed", host=host, status=status))
        case _:
            # A redirect, a missing route, or a page instead of an answer.
            return WrongAddress(
                Sentence("wrong_address", host=host, status=status), field="base_url"
            )


def _timeout(endpoint: Endpoint) -> ProviderTimeout:
    seconds = f"{endpoint.timeout:g}"
    return ProviderTimeout(
        Sentence("provider_timeout", host=endpoint.host, seconds=seconds), field="base_url"
    )


def _unreachable(endpoint: Endpoint, why: str) -> ProviderUnreachable:
    return ProviderUnreachable(
        Sentence("provider_unreachable", host=endpoint.host, why=why), field="base_url"
    )


def _why(error: object) -> str:
    """Describe an error of the network by its kind: its text may hold the address with a password."""
    match error:
        case socket.gaierror():
            return "the name is unknown"
        case ssl.SSLError():
            return "its certificate is not trusted"
        case ConnectionRefusedError():
            return "the connection was refused"
        case http.client.HTTPException() | ValueError():
            return "the answer is not HTTP"
        case OSError():
            return "there is no network connection to it"
        case _:
            return "the connection failed"
