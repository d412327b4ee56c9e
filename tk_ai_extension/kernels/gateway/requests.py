"""What is asked of a gateway over HTTP, and what its failures mean."""

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

Answer = TypeVar("Answer")


class InvalidResponse(Exception):
    """An answer that is not of the Jupyter API: a proxy's page, for example."""


FAILURES = (HTTPError, HTTPClientError, WebSocketError, OSError, InvalidResponse)
"""What a request to a gateway may raise; another exception is a defect of ours."""


@contextmanager
def parsing_response() -> Generator[None]:
    """Raise `InvalidResponse` where Jupyter's gateway client, or the body, cannot read an answer.

    Jupyter's client does not check answers: it fails with the error of whichever line reads them. Put
    nothing inside but that client's call or the reading, so that a defect of ours is not an outage.
    """
    try:
        yield
    except OSError:  # among them a refused certificate, which is a ValueError too
        raise
    except MALFORMED as error:
        raise InvalidResponse(
            f"What it answers is not of the Jupyter API ({type(error).__name__}: {error})"
        ) from error


async def response_to(request: Awaitable[Answer]) -> Answer:
    """Return the answer to a request of Jupyter's gateway client.

    Raises:
        FAILURES.
    """
    with parsing_response():
        return await request


def gateway_address() -> str:
    """The gateway's address for people, without a name and password that may be in it."""
    address = urlsplit(GatewayClient.instance().url or "")
    host = address.netloc.rpartition("@")[2]
    return address._replace(netloc=host, query="", fragment="").geturl()


def describe_error(error: BaseException) -> str:
    """What a failure says, in one line."""
    if isinstance(error, HTTPError) and isinstance(error.__cause__, OSError):
        error = error.__cause__
    if isinstance(error, HTTPError):
        message = str(error.log_message or error.reason or "")
        if error.args:
            message %= error.args
        return f"HTTP {error.status_code}: {message}".rstrip(":. ")
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def status_of(error: BaseException) -> int | None:
    """The HTTP status that a gateway answered with; None where it did not answer.

    599 is none: tornado says so where an answer did not come. Nor is what Jupyter's client says where
    the gateway's name is not found (404) or nobody listens (503).
    """
    status = None
    if isinstance(error, HTTPError):
        status = None if isinstance(error.__cause__, OSError) else error.status_code
    elif isinstance(error, HTTPClientError):
        status = error.code
    return None if status == 599 else status


def is_not_found(error: BaseException) -> bool:
    """Return whether the gateway itself says that it has no such kernel.

    A proxy that does not find the gateway says 404, too. The Jupyter API says it in JSON.
    """
    if status_of(error) != 404:
        return False
    if isinstance(error, HTTPError) and error.__cause__ is None:
        return True  # it was not asked: this server's manager has the kernel no more
    response: Any = getattr(error.__cause__, "response", None)
    try:
        answer: Any = json.loads(response.body) if response else None
    except ValueError:
        return False
    return isinstance(answer, dict) and "message" in answer


def not_applied(error: BaseException) -> bool:
    """Return whether what was asked for was certainly not done: it was refused, or did not get there."""
    status = status_of(error)
    if status is not None:
        return status < 500
    return any(isinstance(each, _NOT_THERE) for each in (error, error.__cause__))


def outcome_unknown(error: BaseException) -> bool:
    """Return whether the gateway may have done what it was asked, and its answer did not come.

    502 and 504 are what a proxy says in its stead.
    """
    return status_of(error) in {None, 502, 504} and not not_applied(error)


_NOT_THERE = (gaierror, ConnectionRefusedError)


def unavailable(error: BaseException, hint: str | None = None) -> GatewayUnavailable:
    """The typed error for a gateway that does not do what it is asked."""
    if status_of(error) in {401, 403}:
        hint = "The gateway refuses this server: see GatewayClient.auth_token (or its other credentials)."
        return GatewayUnavailable(
            f"The gateway {gateway_address()}: {describe_error(error)}", hint=hint
        )
    message = f"The gateway {gateway_address()} does not do it: {describe_error(error)}"
    return GatewayUnavailable(message, hint=hint)


async def ask(kernel_id: str, request: Awaitable[Answer]) -> Answer:
    """Ask a gateway something about a kernel.

    Raises:
        KernelNotFound: it knows no such kernel.
        GatewayUnavailable.
    """
    try:
        return await response_to(request)
    except FAILURES as error:
        if is_not_found(error):
            raise KernelNotFound(f"The gateway has no kernel {kernel_id}.") from error
        raise unavailable(error) from error


async def model_of(manager: Any) -> dict[str, Any] | None:
    """What the gateway says of a kernel; None where it says that it has it no more.

    Not by the manager's own ``refresh_model``, which takes a name that is not found for a kernel that is
    not, and believes it from then on.

    Raises:
        FAILURES: it does not say.
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
            raise ValueError("no kernel's model")
    return cast("dict[str, Any]", model)


async def delete(manager: Any) -> None:
    """Has the gateway end a kernel, which is all that the manager's own ``shutdown_kernel`` is left with.

    Raises:
        FAILURES: it is not known to have ended.
    """
    try:
        await response_to(gateway_request(manager.kernel_url, method="DELETE"))
    except FAILURES as error:
        if not is_not_found(error):
            raise
    manager.kernel = None
