"""Test of a connection: the provider's list of models, then one message of one token.

Errors name the host and a status; neither the key nor an answer's body is in them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tk_ai_extension.agent.claude.connections import connection_of
from tk_ai_extension.agent.claude.messages_api import open_client
from tk_ai_extension.agent.claude.providers import KEYS, OAUTH, Connection, host_of
from tk_ai_extension.model.agent_errors import ModelFailed, NoModel
from tk_ai_extension.model.errors import InvalidArguments, ToolError

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic

    from tk_ai_extension.agent.requests import ConnectRequest

TIMEOUT = 15.0
"""Seconds until an answer."""
MAX_MODELS = 60
"""Maximum models that are offered."""
SMALL = "claude-haiku-4-5"
"""Model of the test, where the provider lists none and the user named none."""


async def tested(new: ConnectRequest, stored: Connection | None) -> Connection:
    """Return what the user entered as a connection that works.

    Clouds are not asked: they find their credentials, and sign each request, only in Claude's process.

    Args:
        new: What the user entered.
        stored: The present connection. Its key is used again for the same provider and address only.

    Raises:
        InvalidArguments, NoModel, ModelFailed: See `ClaudeModels.connect`.
    """
    connection = connection_of(new, stored)
    if not connection.base_url:
        return connection
    if connection.provider == "compatible" and connection.secret:
        # A gateway may take its key as a bearer token.
        try:
            return await _tested(connection)
        except InvalidArguments as error:
            if error.details.get("field") != "secret":
                raise
        connection = replace(connection, variable=KEYS[1])
    return await _tested(connection)


async def _tested(connection: Connection) -> Connection:
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
    except anthropic.APIConnectionError as error:
        raise InvalidArguments(
            f"{host} cannot be reached: {_why(error)}.",
            field="base_url",
            hint="Check the address and the network of the server, and its HTTPS_PROXY.",
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
                hint=(
                    "Copy the whole key or token again, and check that it belongs to this provider."
                ),
            )
        case 404 if error.type == "not_found_error" and model:
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
        case _ if status in (400, 413, 422) or status >= 500:
            return ModelFailed(f"{host} answered with an error ({status}).")
        case _:
            # A redirect, a missing route, or a page instead of an answer.
            return _no_api(host, status)


def _no_api(host: str, status: int) -> InvalidArguments:
    return InvalidArguments(
        f"There is no Messages API at {host} ({status}).",
        field="base_url",
        hint="Enter the endpoint's base URL, without /v1.",
    )


def _why(error: BaseException) -> str:
    """Describe an error of the network by its kind: its text may hold the address with a password."""
    kinds = (socket.gaierror, ssl.SSLError, ConnectionRefusedError)
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kinds):
        cause = cause.__cause__ or cause.__context__
    match cause:
        case socket.gaierror():
            return "the name is unknown"
        case ssl.SSLError():
            return "its certificate is not trusted"
        case ConnectionRefusedError():
            return "the connection was refused"
        case _:
            return "there is no network connection to it"
