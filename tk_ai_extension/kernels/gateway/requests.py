"""What is asked of a gateway over HTTP, and what its failures mean."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar
from urllib.parse import urlsplit

from jupyter_server.gateway.gateway_client import GatewayClient
from tornado.httpclient import HTTPClientError
from tornado.web import HTTPError
from tornado.websocket import WebSocketError

from tk_ai_extension.model.errors import GatewayUnavailable, KernelNotFound

Answer = TypeVar("Answer")

FAILURES = (HTTPError, HTTPClientError, WebSocketError, OSError)
"""What a request to a gateway may raise, beside what is a defect."""


def gateway_address() -> str:
    """The gateway's address for people, without a name and password that may be in it."""
    address = urlsplit(GatewayClient.instance().url or "")
    host = address.netloc.rpartition("@")[2]
    return address._replace(netloc=host, query="", fragment="").geturl()


def said(error: BaseException) -> str:
    """What a failure says, in one line."""
    if isinstance(error, HTTPError):
        message = str(error.log_message or error.reason or "")
        if error.args:
            message %= error.args
        return f"HTTP {error.status_code}: {message}".rstrip(":. ")
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def status_of(error: BaseException) -> int | None:
    """The HTTP status that a gateway answered with; None where it did not answer.

    599 is none: tornado says so where an answer did not come.
    """
    status = None
    if isinstance(error, HTTPError):
        status = error.status_code
    elif isinstance(error, HTTPClientError):
        status = error.code
    return None if status == 599 else status


def unavailable(error: BaseException) -> GatewayUnavailable:
    """The typed error for a gateway that does not do what it is asked."""
    if status_of(error) in {401, 403}:
        hint = "The gateway refuses this server: see GatewayClient.auth_token (or its other credentials)."
        return GatewayUnavailable(f"The gateway {gateway_address()}: {said(error)}", hint=hint)
    return GatewayUnavailable(f"The gateway {gateway_address()} does not do it: {said(error)}")


async def ask(kernel_id: str, request: Awaitable[Answer]) -> Answer:
    """Asks a gateway something about a kernel.

    Raises:
        KernelNotFound: it knows no such kernel.
        GatewayUnavailable.
    """
    try:
        return await request
    except FAILURES as error:
        if status_of(error) == 404:
            raise KernelNotFound(f"The gateway has no kernel {kernel_id}.") from error
        raise unavailable(error) from error
