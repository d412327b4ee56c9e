"""HTTP requests to a gateway, and the meaning of their failures."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from socket import gaierror
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from jupyter_server.gateway.gateway_client import GatewayClient, gateway_request
from tornado.httpclient import HTTPClientError
from tornado.web import HTTPError
from tornado.websocket import WebSocketError

from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import GatewayUnavailable, KernelNotFound
from tk_ai_extension.model.json_values import Json

Answer = TypeVar("Answer")


class InvalidResponse(Exception):
    """A response that does not follow the Jupyter API, for example a proxy's page."""


FAILURES = (HTTPError, HTTPClientError, WebSocketError, OSError, InvalidResponse)
"""Exceptions that a request to a gateway may raise; any other is a bug of this package."""


@contextmanager
def parsing_response() -> Generator[None]:
    """Raise `InvalidResponse` if a response cannot be parsed.

    Jupyter's gateway client does not validate responses: it fails with whatever error its parsing
    raises. Put only that client's call or the parsing inside, so that a bug of this package is not
    reported as an outage.
    """
    try:
        yield
    except OSError:  # including a rejected certificate, which is also a ValueError
        raise
    except MALFORMED as error:
        raise InvalidResponse(
            f"Its response does not follow the Jupyter API ({type(error).__name__}: {error})"
        ) from error


async def response_to(request: Awaitable[Answer]) -> Answer:
    """Return the response to a request of Jupyter's gateway client.

    Raises:
        FAILURES.
    """
    with parsing_response():
        return await request


def gateway_address() -> str:
    """Return the gateway's address for people, without credentials and query."""
    address = urlsplit(GatewayClient.instance().url or "")
    host = address.netloc.rpartition("@")[2]
    return address._replace(netloc=host, query="", fragment="").geturl()


def describe_error(error: BaseException) -> str:
    """Return the description of a failure, in one line."""
    if isinstance(error, HTTPError) and isinstance(error.__cause__, OSError):
        error = error.__cause__
    if isinstance(error, HTTPError):
        message = str(error.log_message or error.reason or "")
        if error.args:
            message %= error.args
        return f"HTTP {error.status_code}: {message}".rstrip(":. ")
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a gateway's response; None if there was no response.

    tornado's 599 stands for no response, and so do the statuses that Jupyter's client makes up if the
    gateway's name is unknown (404) or nothing listens (503).
    """
    status = None
    if isinstance(error, HTTPError):
        status = None if isinstance(error.__cause__, OSError) else error.status_code
    elif isinstance(error, HTTPClientError):
        status = error.code
    return None if status == 599 else status


def is_not_found(error: BaseException) -> bool:
    """Return whether the gateway itself reports that it has no such kernel.

    A proxy that does not find the gateway also answers 404. The Jupyter API answers with JSON.
    """
    if status_of(error) != 404:
        return False
    if isinstance(error, HTTPError) and error.__cause__ is None:
        return True  # no request was sent: this server's manager no longer has the kernel
    response: Any = getattr(error.__cause__, "response", None)
    try:
        answer: Any = json.loads(response.body) if response else None
    except ValueError:
        return False
    return isinstance(answer, dict) and "message" in answer


def not_applied(error: BaseException) -> bool:
    """Return whether a request certainly had no effect: it was refused or did not arrive."""
    status = status_of(error)
    if status is not None:
        return status < 500
    return any(isinstance(each, _NOT_THERE) for each in (error, error.__cause__))


def outcome_unknown(error: BaseException) -> bool:
    """Return whether a request may have taken effect although its response was lost.

    502 and 504 are a proxy's responses in place of the gateway's.
    """
    return status_of(error) in {None, 502, 504} and not not_applied(error)


_NOT_THERE = (gaierror, ConnectionRefusedError)


def unavailable(error: BaseException, hint: str | None = None) -> GatewayUnavailable:
    """Return the typed error for a gateway that failed or refused a request."""
    if status_of(error) in {401, 403}:
        hint = (
            "The gateway refuses this server: check GatewayClient.auth_token or other credentials."
        )
        return GatewayUnavailable(
            f"The gateway {gateway_address()}: {describe_error(error)}", hint=hint
        )
    message = f"The gateway {gateway_address()} failed: {describe_error(error)}"
    return GatewayUnavailable(message, hint=hint)


async def ask(kernel_id: str, request: Awaitable[Answer]) -> Answer:
    """Send a gateway a request about a kernel and return the response.

    Raises:
        KernelNotFound: it has no such kernel.
        GatewayUnavailable.
    """
    try:
        return await response_to(request)
    except FAILURES as error:
        if is_not_found(error):
            raise KernelNotFound(f"The gateway has no kernel {kernel_id}.") from error
        raise unavailable(error) from error


async def model_of(manager: Any) -> Json | None:
    """Return the gateway's model of a kernel; None if the gateway no longer has it.

    The manager's ``refresh_model`` is not used: it takes an unknown host name for a missing kernel, and
    remembers that.

    Raises:
        FAILURES: there was no valid response.
    """
    try:
        answer = await response_to(gateway_request(manager.kernel_url, method="GET"))
    except FAILURES as error:
        if is_not_found(error):
            return None
        raise
    with parsing_response():
        model: Any = json.loads(answer.body)
        if not isinstance(model, dict) or "id" not in model:
            raise ValueError("not a kernel model")
    return cast("Json", model)


async def delete(manager: Any) -> None:
    """Have the gateway shut a kernel down; ``shutdown_kernel`` of the manager then only forgets it.

    Raises:
        FAILURES: the kernel may still be running.
    """
    try:
        await response_to(gateway_request(manager.kernel_url, method="DELETE"))
    except FAILURES as error:
        if not is_not_found(error):
            raise
    manager.kernel = None
