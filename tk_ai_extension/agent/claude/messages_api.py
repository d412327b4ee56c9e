"""The official client for a provider's Messages API, made of the variables of Claude's process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from tk_ai_extension.agent.claude.providers import ADDRESS, ANTHROPIC, KEYS, OAUTH, is_local
from tk_ai_extension.agent.process import gc_paused
from tk_ai_extension.model.agent_errors import ModelFailed

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

OAUTH_BETA: Final = "oauth-2025-04-20"
"""Feature of the API that accepts Claude Code's own tokens."""


def open_client(values: Mapping[str, str], timeout: float) -> AsyncAnthropic:
    """Return a client with exactly the address, key and headers of these variables.

    A key is sent to its address only: redirects are not followed, and the client takes no key, address
    or header of its own from this process's environment. Proxies and certificates are those of the
    environment (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`). Blocks: it imports and reads files.

    Args:
        values: Variables of Claude's process.
        timeout: Timeout of each step of a request, in seconds.

    Raises:
        ModelFailed: The certificates cannot be read, or the proxy cannot be used.
    """
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
