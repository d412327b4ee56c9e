"""A provider's Messages API, asked by the official client without Claude's process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tk_ai_extension.agent.claude.providers import (
    ADDRESS,
    ANTHROPIC,
    KEYS,
    OAUTH,
    host_of,
    is_local,
)
from tk_ai_extension.agent.environment import redacted, secrets_of
from tk_ai_extension.agent.process import gc_paused
from tk_ai_extension.model.agent_errors import ModelFailed, ModelUnauthorized, NoModel
from tk_ai_extension.model.errors import ToolError

if TYPE_CHECKING:
    from anthropic import APIError, AsyncAnthropic
    from anthropic.types import Message

OAUTH_BETA: Final = "oauth-2025-04-20"
"""Feature of the API that accepts Claude Code's own tokens."""


class MessagesApi:
    """A client with exactly the address, key and headers of some variables.

    A key is sent to its address only: redirects are not followed, and nothing is taken from this
    process's environment but proxies and certificates (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`).

    Args:
        client: The client, from `open`.
        values: Variables of Claude's process.
        timeout: Timeout of each step of a request, in seconds.
    """

    def __init__(self, client: AsyncAnthropic, values: Mapping[str, str], timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._host = host_of(values.get(ADDRESS, "") or ANTHROPIC)
        self._secrets = secrets_of(values)
        self._listed: tuple[str, ...] | None = None

    @classmethod
    async def open(cls, values: Mapping[str, str], timeout: float) -> MessagesApi:
        """Return a client; see the class.

        Raises:
            ModelFailed: The certificates cannot be read, or the proxy cannot be used.
        """
        return cls(await asyncio.to_thread(_client, values, timeout), values, timeout)

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
    """Return the client. Blocks: it imports and reads files."""
    if "anthropic" not in sys.modules:
        with gc_paused():
            import_module("anthropic")
    import os

    import anthropic
    import httpx2

    url = values.get(ADDRESS) or ANTHROPIC
    # What the client would take from the environment, and what is sent instead.
    headers: dict[str, str | anthropic.Omit] = dict.fromkeys(
        _headers(os.environ).keys() | {"authorization"}, anthropic.omit
    )
    headers |= _headers(values)
    try:
        http = httpx2.AsyncClient(timeout=timeout, trust_env=not is_local(url))
    except (ValueError, ImportError, OSError, httpx2.InvalidURL):
        # Not chained: an address may hold a password.
        raise ModelFailed(
            "The client cannot be made: a proxy or a file of certificates cannot be used.",
            hint="Check HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR.",
        ) from None
    return anthropic.AsyncAnthropic(
        # Explicit, so that the environment is not asked for another; `headers` replace it.
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
