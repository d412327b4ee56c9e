"""HTTP clients for a provider's Messages API, made of the variables of Claude's process.

A key is sent to its address only: redirects are not followed, and neither this process's environment
nor a ``.netrc`` is read.
"""

from __future__ import annotations

import ipaddress
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from tk_ai_extension.agent.claude.sources import ADDRESS, KEYS, OAUTH
from tk_ai_extension.agent.threaded_imports import gc_paused
from tk_ai_extension.model.agent_errors import ModelFailed
from tk_ai_extension.model.encoding import loads
from tk_ai_extension.model.json_values import Json

if TYPE_CHECKING:
    import httpx2

    _Client = TypeVar("_Client", httpx2.Client, httpx2.AsyncClient)

ANTHROPIC: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
"""Version of the Messages API."""
OAUTH_BETA: Final = "oauth-2025-04-20"
"""Feature of the API that accepts Claude Code's own tokens."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, and how.

    Attributes:
        url: The address, without ``/v1`` and a slash at its end.
        headers: Headers of each request, with the key.
        proxy: The address of the proxy; None for none.
        certificate_file: A file of certificates to trust, in addition to the system's; empty for none.
        certificate_folder: The same as a folder.
        extra_file: The same as a file that is ignored if it cannot be read.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    proxy: str | None = field(repr=False)
    certificate_file: str = ""
    certificate_folder: str = ""
    extra_file: str = ""

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Endpoint:
        """Return the endpoint that variables of Claude's process name."""
        url = values.get(ADDRESS) or ANTHROPIC
        return cls(
            url.rstrip("/"),
            tuple(_headers(values).items()),
            proxy_of(url, values),
            values.get("SSL_CERT_FILE", ""),
            values.get("SSL_CERT_DIR", ""),
            values.get("NODE_EXTRA_CA_CERTS", ""),
        )

    def open(self, timeout: float) -> httpx2.Client:
        """Return a client for a thread that may wait. Blocks: it imports and reads files.

        Args:
            timeout: Timeout of each step of a request, in seconds.

        Raises:
            ModelFailed: The certificates cannot be read, or the proxy cannot be used.
        """
        _import()
        import httpx2

        return self._opened(httpx2.Client, httpx2.Timeout(timeout))

    def open_async(self, connect: float) -> httpx2.AsyncClient:
        """Return a client for the event loop. Blocks: it imports and reads files.

        Args:
            connect: Timeout for a connection, in seconds. The caller limits the requests.

        Raises:
            ModelFailed: The certificates cannot be read, or the proxy cannot be used.
        """
        _import()
        import httpx2

        return self._opened(httpx2.AsyncClient, httpx2.Timeout(None, connect=connect))

    def _opened(self, client: type[_Client], timeout: httpx2.Timeout) -> _Client:
        import httpx2

        verify = self._certificates() if self.url.startswith("https:") else False
        try:
            return client(
                base_url=self.url,
                headers=self.headers,
                proxy=self.proxy,
                verify=verify,
                timeout=timeout,
                trust_env=False,
            )
        except (ValueError, ImportError, httpx2.InvalidURL):
            # Not chained: the address may hold a password.
            raise ModelFailed(
                "The proxy's address is not valid, or this kind of proxy is not supported.",
                hint="Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY.",
            ) from None

    def _certificates(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        file, folder = self.certificate_file, self.certificate_folder
        if file or folder:
            try:
                context.load_verify_locations(file or None, folder or None)
            except OSError as error:
                why = "no certificates" if isinstance(error, ssl.SSLError) else error.strerror
                raise ModelFailed(
                    f"The certificates in {file or folder} cannot be read: {why!s}.",
                    hint="Check SSL_CERT_FILE and SSL_CERT_DIR.",
                ) from None
        if self.extra_file:
            # As Node.js does, without a file that cannot be read.
            with suppress(OSError):
                context.load_verify_locations(self.extra_file)
        return context


def _import() -> None:
    if "httpx2" not in sys.modules:
        with gc_paused():
            import_module("httpx2")


def _headers(values: Mapping[str, str]) -> dict[str, str]:
    headers = {"anthropic-version": VERSION, "accept": "application/json"}
    if key := values.get(KEYS[0]):
        headers["x-api-key"] = key
    if token := values.get(KEYS[1]):
        headers["authorization"] = f"Bearer {token}"
    if token := values.get(OAUTH):
        headers |= {"authorization": f"Bearer {token}", "anthropic-beta": OAUTH_BETA}
    for line in values.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    return headers


def proxy_of(url: str, values: Mapping[str, str]) -> str | None:
    """Return the proxy for an address, as variables name it; None for this machine's own addresses.

    >>> proxy_of("https://api.example", {"ALL_PROXY": "http://proxy:1"})
    'http://proxy:1'
    >>> proxy_of("http://localhost:11434", {"ALL_PROXY": "http://proxy:1"})
    """
    parts = urlsplit(url)

    def value(name: str) -> str:
        return values.get(name) or values.get(name.upper()) or ""

    host = parts.hostname or ""
    if _is_this_machine(host) or is_excluded(host, value("no_proxy")):
        return None
    return value(f"{parts.scheme}_proxy") or value("all_proxy") or None


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_excluded(host: str, listed: str) -> bool:
    """Whether a host is reached without the proxy, by the value of NO_PROXY.

    >>> is_excluded("api.corp.example", "localhost, .corp.example")
    True
    >>> is_excluded("api.anthropic.com", "localhost, .corp.example")
    False
    """
    names = [name.strip().lower().removeprefix("*").lstrip(".") for name in listed.split(",")]
    return "*" in listed.replace(" ", "").split(",") or any(
        name and (host == name or host.endswith(f".{name}")) for name in names
    )


def json_of(content: bytes) -> Json | None:
    """Return the JSON object of an answer; None if it is none."""
    try:
        found = loads(content)
    except (ValueError, RecursionError):
        return None
    return cast("Json", found) if isinstance(found, dict) else None


def error_of(answer: Json | None) -> tuple[str, str]:
    """Return the type and the message of an answer's error; empty where it has none."""
    found: Any = (answer or {}).get("error")
    if not isinstance(found, dict):
        return "", str(found or "")
    error = cast("Json", found)
    return str(error.get("type") or ""), str(error.get("message") or "")
