"""Connecting a model: what a user enters becomes the variables of a stored connection."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn, TypeVar
from urllib.parse import urlsplit

from tk_ai_extension.agent.claude.connection_check import Attempt, Checked, check
from tk_ai_extension.agent.claude.connection_store import Connection, is_storable
from tk_ai_extension.agent.claude.messages_api import ANTHROPIC
from tk_ai_extension.agent.claude.providers import Provider
from tk_ai_extension.agent.claude.sources import (
    ADDRESS,
    KEYS,
    NETWORK,
    OAUTH,
    host_of,
    is_elsewhere,
    matches,
)
from tk_ai_extension.agent.models import NewConnection, StoredConnection
from tk_ai_extension.model.agent_errors import InvalidConnection

BEDROCK_KEY = "AWS_BEARER_TOKEN_BEDROCK"

_T = TypeVar("_T")

_REGION = re.compile(r"[a-z0-9-]{2,40}")
_PROJECT = re.compile(r"[a-z0-9.:-]{2,100}")
_MODEL = re.compile(r"[A-Za-z0-9._:/@\[\]-]{1,200}")


def tested(
    new: NewConnection, stored: Connection | None, network: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables of a connection and the models that its provider lists. Blocks.

    Clouds are not asked: they find their credentials, and sign each request, only in Claude's process.

    Args:
        new: What the user entered.
        stored: The present connection. Its key is used again for the same provider and address only.
        network: Variables of proxies and certificates.

    Raises:
        ToolError: See `ModelSource.connect`.
    """
    if new.model and not _MODEL.fullmatch(new.model):
        _invalid("model")
    if new.provider in ("bedrock", "vertex"):
        return _cloud(new, stored), ()
    address = _address(new)
    secret = _secret(new, stored, address)
    if not secret and new.provider != "compatible":
        _invalid("secret")
    names = {"anthropic": KEYS[:1], "oauth": (OAUTH,)}.get(new.provider, KEYS)
    proxies = {name: value for name, value in network.items() if matches(name, NETWORK)}
    found = check(Attempt(address, secret, names, new.model, proxies))
    return _values(new, address, secret, found), found.models


async def in_daemon_thread(function: Callable[[], _T]) -> _T:
    """Return the result of a function that waits for the network.

    The thread of an executor would be joined when the server stops.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[_T] = loop.create_future()
    # Not in the arguments of a callback: asyncio's debug mode logs those of slow ones.
    ended: concurrent.futures.Future[_T] = concurrent.futures.Future()

    def settle() -> None:
        if result.done():
            return
        error = ended.exception()
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(ended.result())

    def run() -> None:
        try:
            ended.set_result(function())
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            ended.set_exception(error)
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=run, name="connection test", daemon=True).start()
    return await result


def described(stored: Connection, provider: Provider) -> StoredConnection:
    """Return a connection without its secret."""
    values = stored.values
    return {
        "provider": stored.provider,
        "base_url": values.get(ADDRESS),
        "model": values.get("ANTHROPIC_MODEL", ""),
        "region": values.get("AWS_REGION") or values.get("CLOUD_ML_REGION"),
        "project": values.get("ANTHROPIC_VERTEX_PROJECT_ID"),
        "ending": stored.ending,
        "place": stored.place,
        "in_force": provider.uses_stored,
    }


def _values(new: NewConnection, address: str, secret: str, found: Checked) -> dict[str, str]:
    values = {ADDRESS: address}
    if secret:
        values[found.name] = secret
    # Names such as `sonnet` are Anthropic's: another endpoint has names of its own.
    model = new.model or ("" if new.provider != "compatible" else found.model)
    return {**values, **({"ANTHROPIC_MODEL": model} if model else {})}


def _cloud(new: NewConnection, stored: Connection | None) -> dict[str, str]:
    model = {"ANTHROPIC_MODEL": new.model} if new.model else {}
    if not _REGION.fullmatch(new.region):
        _invalid("region")
    if new.provider == "vertex":
        if not _PROJECT.fullmatch(new.project):
            _invalid("project")
        return {
            "CLAUDE_CODE_USE_VERTEX": "1",
            "CLOUD_ML_REGION": new.region,
            "ANTHROPIC_VERTEX_PROJECT_ID": new.project,
            **model,
        }
    secret = _secret(new, stored, "")
    return {
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "AWS_REGION": new.region,
        **({BEDROCK_KEY: secret} if secret else {}),
        **model,
    }


def _address(new: NewConnection) -> str:
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
    if not host_of(url) or has_more or not valid or not is_storable(url):
        _invalid("base_url")
    if not is_elsewhere(url):
        # Anthropic's own address is that provider: a key is not sent there as a bearer token.
        _invalid("base_url")
    return url.removesuffix("/v1")


def _secret(new: NewConnection, stored: Connection | None, address: str) -> str:
    """Return the secret that was entered, or the stored one if it was entered for this address."""
    if new.secret:
        secret = new.secret.strip()
        if not is_storable(secret):
            _invalid("secret")
        return secret
    if new.secret is not None or stored is None or not stored.secret:
        return ""
    region = stored.values.get("AWS_REGION", "")
    if (stored.provider, stored.values.get(ADDRESS, ""), region) == (
        new.provider,
        address,
        new.region,
    ):
        return stored.secret
    if new.provider in ("compatible", "bedrock"):
        return ""
    raise InvalidConnection(
        "The stored key was entered for another address.",
        hint="Enter the key for this address.",
        field="secret",
    )


def _invalid(field: str) -> NoReturn:
    raise InvalidConnection(f"The field {field} is missing or invalid.", field=field)
