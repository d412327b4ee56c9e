"""Test of a connection: the provider's list of models, then one message of one token.

A key is sent to its address only: redirects are not followed and no ``.netrc`` is read. Errors name
the host and a status; neither the key nor an answer's body is in them.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tk_ai_extension.agent.claude.connection_store import is_storable
from tk_ai_extension.agent.claude.messages_api import Endpoint, error_of, json_of
from tk_ai_extension.agent.claude.sources import ADDRESS, OAUTH, host_of
from tk_ai_extension.model.agent_errors import (
    InvalidConnection,
    ModelFailed,
    NoModel,
)
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 15.0
"""Seconds until an answer."""
MAX_BYTES = 1_000_000
"""Maximum size of an answer that is read."""
MAX_MODELS = 60
"""Maximum models that are offered."""
SMALL = "claude-haiku-4-5"
"""Model of the test, where the provider lists none and the user named none."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is tested, and how.

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


def check(attempt: Attempt) -> Checked:
    """Test a connection. Blocks.

    Raises:
        InvalidConnection: The secret was refused in each way of sending it, the account has no credit,
            there is no Messages API at the address, the host cannot be reached or did not answer in
            time, or it lists no models and the user named none.
        NoModel: The provider has no such model.
        ModelFailed: It is busy.
        ModelFailed: It failed.
    """
    names = attempt.names if attempt.secret else ("",)
    for name in names:
        try:
            return _check(attempt, name)
        except InvalidConnection as error:
            if name == names[-1] or error.details.get("field") != "secret":
                raise
    raise AssertionError("No way to send the secret.")


def _check(attempt: Attempt, name: str) -> Checked:
    models = _list(attempt, name)
    model = attempt.model or _cheapest(models) or (SMALL if name == OAUTH else "")
    if not model:
        raise InvalidConnection(
            f"{attempt.host} does not list its models.",
            hint="Enter the name of a model.",
            field="model",
        )
    body = {
        "model": model,
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "Answer with one word: ready?"}],
    }
    status, answer = _ask(attempt, name, "/v1/messages", body)
    # Claude Code's own tokens are made for its program: whether they are known is all that this shows.
    known = name == OAUTH and status in (400, 403, 404)
    if not known and not (status == 200 and answer.get("type") == "message"):
        raise _error(attempt, status, answer, model)
    return Checked(name, models, model)


def _list(attempt: Attempt, name: str) -> tuple[str, ...]:
    """Return the models that a provider lists; none where it has no list."""
    status, answer = _ask(attempt, name, "/v1/models?limit=100")
    # 403: a token that may send messages only.
    if status == 401:
        raise _error(attempt, status, answer)
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
    attempt: Attempt, name: str, path: str, body: Mapping[str, Any] | None = None
) -> tuple[int, Json]:
    """Send one request; return the status and the JSON object, empty for any other body."""
    values = {
        **attempt.network,
        ADDRESS: attempt.base_url,
        **({name: attempt.secret} if name else {}),
    }
    client = Endpoint.of(values).open(attempt.timeout)
    import httpx2

    method = "GET" if body is None else "POST"
    try:
        with client, client.stream(method, path, json=body) as response:
            return response.status_code, json_of(_read(response)) or {}
    except httpx2.TimeoutException:
        raise _timeout(attempt) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        # Not chained: the request with its key is not in a traceback.
        raise _unreachable(attempt, _why(error)) from None


def _read(response: httpx2.Response) -> bytes:
    """Return the beginning of an answer."""
    received = bytearray()
    for chunk in response.iter_bytes():
        received += chunk
        if len(received) > MAX_BYTES:
            break
    return bytes(received)


def _error(attempt: Attempt, status: int, answer: Json, model: str = "") -> ToolError:
    """Return the error for an answer of the provider."""
    host = attempt.host
    kind, text = error_of(answer)
    if status == 402 or kind == "billing_error" or "credit balance" in text:
        return InvalidConnection(
            f"{host} accepts the key, but the account has no credit.",
            hint="Add credit in the provider's billing settings, then try again.",
        )
    match status:
        case 401 | 403:
            return InvalidConnection(
                f"{host} refused the key ({status}).",
                field="secret",
                hint=(
                    "Copy the whole key or token again, and check that it belongs to this provider."
                ),
            )
        case 404 if kind == "not_found_error" and model:
            return NoModel(
                f"{host} has no model `{model}`.",
                hint="Enter the name of a model.",
                field="model",
            )
        case 429 | 503 | 529:
            return ModelFailed(
                f"{host} is busy ({status}).",
                hint="Wait a moment, then send the message again. Completed changes are kept.",
            )
        case 400 | 413 | 422:
            return ModelFailed(f"{host} answered with an error ({status}).")
        case _ if status >= 500:
            return ModelFailed(f"{host} answered with an error ({status}).")
        case _:
            # A redirect, a missing route, or a page instead of an answer.
            return InvalidConnection(
                f"There is no Messages API at {host} ({status}).",
                field="base_url",
                hint="Enter the endpoint's base URL, without /v1.",
            )


def _timeout(attempt: Attempt) -> InvalidConnection:
    seconds = f"{attempt.timeout:g}"
    return InvalidConnection(
        f"{attempt.host} did not answer within {seconds} s.",
        field="base_url",
        hint="Try again. If it happens again, check the address and the network.",
    )


def _unreachable(attempt: Attempt, why: str) -> InvalidConnection:
    return InvalidConnection(
        f"{attempt.host} cannot be reached: {why}.",
        field="base_url",
        hint="Check the address and the network of the server, and its HTTPS_PROXY.",
    )


def _why(error: BaseException) -> str:
    """Describe an error of the network by its kind: its text may hold the address with a password."""
    import httpx2

    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    match cause or error:
        case socket.gaierror():
            return "the name is unknown"
        case ssl.SSLError():
            return "its certificate is not trusted"
        case ConnectionRefusedError():
            return "the connection was refused"
        case OSError():
            return "there is no network connection to it"
        case httpx2.ProtocolError() | httpx2.DecodingError():
            return "the answer is not HTTP"
        case _:
            return "the connection failed"
