"""Base handler of all routes: authorization, origins, JSON bodies, typed errors."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from jupyter_server.auth import IdentityProvider
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError, RequestHandler, authenticated, stream_request_body

from tk_ai_extension.model.callers import Caller, checked_key
from tk_ai_extension.model.errors import InvalidArguments, ToolError
from tk_ai_extension.model.json_values import Json, dumps, loads
from tk_ai_extension.server.services import RouteError

if TYPE_CHECKING:
    from tk_ai_extension.server.services import Services

RESOURCE = "tk-ai"
"""Resource for the authorizer; the actions are read, write and execute."""

SETTINGS_KEY = "tk_ai_extension"
"""Key of the `Services` in the web application's settings."""

ROUTE_ERRORS: dict[int, tuple[str, str]] = {
    400: ("bad_request", "Check the request."),
    401: ("unauthenticated", "Send the server's token: `Authorization: token TOKEN`."),
    403: ("forbidden", "Use an allowed origin and a user with the permission."),
    404: ("not_found", "See openapi.json for the routes."),
    405: ("method_not_allowed", "See openapi.json for the routes and their methods."),
    406: ("not_acceptable", "Accept a media type of the route in openapi.json."),
    413: ("too_large", "Send less, or raise TkAIExtensionApp.max_body."),
    415: ("unsupported_media_type", "Send JSON, with `Content-Type: application/json`."),
    503: ("unavailable", "Try again when the server has started."),
}
"""Code and hint by HTTP status, for requests that are refused before they reach a tool."""


def send_at_once(handler: RequestHandler) -> None:
    """Disable Nagle's algorithm (TCP_NODELAY).

    TCP would delay a small chunk until the previous one is acknowledged, up to 40 ms later.
    """
    stream: Any = getattr(handler.request.connection, "stream", None)
    if stream is not None:
        stream.set_nodelay(True)


class _StalePage(HTTPError):
    """The XSRF token is missing or from a previous server process, for example behind a JupyterHub."""

    hint = "Reload the page: its login is older than the server. Programs must send a token."


class _StaleLogin(RouteError, _StalePage):
    """A stale XSRF token that the server cannot distinguish from a missing login."""


BROWSER_HEADERS = (
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "x-tk-caller",
    "x-xsrftoken",
)
"""Headers that a page of an allowed origin may send (CORS)."""

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")

Method = Callable[..., Awaitable[None]]


Action = Literal["read", "write", "execute"]
"""Action for the authorizer."""


def allowed(action: Action) -> Callable[[Method], Method]:
    """Require an authenticated user who is authorized for this action."""

    def decorate(method: Method) -> Method:
        decorator = cast("Callable[[Method], Method]", authorized(action, resource=RESOURCE))
        return cast("Method", authenticated(decorator(method)))

    return decorate


def refusal(status: int, error: BaseException | None) -> Json:
    """Return the typed error for a request that was refused before it reached a tool.

    Args:
        status: The HTTP status.
        error: The exception, which may be Jupyter's.
    """
    server_error = ("internal_error", "See the server's log.")
    code, hint = ROUTE_ERRORS.get(status, server_error if status >= 500 else ROUTE_ERRORS[400])
    if isinstance(error, _StalePage):
        hint = error.hint
    message = f"The request failed with status {status}."
    if isinstance(error, HTTPError):
        why = error.get_message()
        if isinstance(error, RouteError):
            message = why
        elif why:
            message = f"The request failed with status {status}: {why}."
    return {
        "code": code,
        "message": message,
        "hint": hint,
        "retryable": status == 503,
    }


class TypedErrorHandler(JupyterHandler):
    """Responds with typed errors, as JSON, for exceptions of tools and of Jupyter."""

    def write_json(self, value: Any) -> None:
        """Respond with JSON."""
        self.set_header("Content-Type", "application/json")
        self.finish(dumps(value))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Respond with a typed error."""
        error: Any = (kwargs.get("exc_info") or (None, None))[1]
        if status_code == 401:
            self.set_header("WWW-Authenticate", 'Bearer realm="Jupyter Server"')
        if isinstance(error, ToolError):
            self.set_status(error.status)
            found = error.as_dict()
        else:
            found = refusal(status_code, error)
        self.write_json(self.error_body(found))

    def error_body(self, error: Json) -> Json:
        """Return the error as the route sends it: code, message, hint, retryable."""
        return {"error": error}

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log typed errors without a traceback."""
        if isinstance(value, ToolError) and value.status < 500:
            self.log.debug("%s %s: %s", self.request.method, self.request.path, value.message)
        else:
            super().log_exception(typ, value, tb)


@stream_request_body
class TkAIHandler(TypedErrorHandler, APIHandler):
    """A route of the extension.

    In addition to Jupyter's checks (Host, token or cookie, XSRF), it checks before reading the body:

    - the Origin, even of a request with a token, which skips Jupyter's check;
    - that a GET with a cookie comes from the server's pages;
    - that a body is JSON and within the size limit.

    Attributes:
        gone: Set when the client has disconnected, at any time during the request.
        services: The services of the extension.
    """

    auth_resource = RESOURCE
    _is_prepared = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Tornado reports a disconnect once, possibly before the method of the route runs.
        self.gone = asyncio.Event()
        super().__init__(*args, **kwargs)
        self.services: Services = self.settings[SETTINGS_KEY]

    @classmethod
    @cache
    def methods(cls) -> tuple[str, ...]:
        """The HTTP methods of the route, upper case."""
        return tuple(
            name.upper()
            for name in METHODS
            if getattr(cls, name) is not RequestHandler._unimplemented_method  # noqa: SLF001
        )

    async def authorize(self, action: Action) -> None:
        """Check an authorization that depends on the request's body.

        Raises:
            HTTPError: 403.
        """
        user = self.current_user
        if not await ensure_async(
            self.authorizer.is_authorized(self, user, action, self.auth_resource)
        ):
            raise HTTPError(403)

    @property
    def caller(self) -> Caller:
        """Return the caller.

        Raises:
            InvalidArguments: the caller's key is invalid.
        """
        key = self.get_query_argument("caller", None) or self.request.headers.get("X-TK-Caller")
        if self.request.headers.get("User-Agent", "").startswith("nb/"):
            return Caller(user=username(self), key=checked_key(key), interface="nb", name="nb")
        return Caller(user=username(self), key=checked_key(key), interface="rest")

    def on_connection_close(self) -> None:
        """Handle a disconnect."""
        super().on_connection_close()
        self.gone.set()

    async def while_connected(self, working: asyncio.Task[Any]) -> bool:
        """Wait for a task, and cancel it if the client disconnects.

        Returns:
            Whether the task ended before that.
        """
        leaving = asyncio.create_task(self.gone.wait())
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            return working.done()
        finally:
            for task in (working, leaving):
                task.cancel()
            await asyncio.wait((working, leaving))

    async def prepare(self) -> None:  # pyrefly: ignore[bad-override]
        """Check the request."""
        self._chunks: list[bytes] = []
        self._received = 0
        await super().prepare()
        if not self._origin_allowed():
            self.clear_header("Access-Control-Allow-Origin")
            raise RouteError(
                403,
                (
                    f"Pages of this origin may not call the server ({self.get_origin()!s}); "
                    "TkAIExtensionApp.allowed_origins lists others that may."
                ),
            )
        self._set_cors_headers()
        if self.current_user is None and not self._is_preflight():
            raise self._unauthenticated()
        if self.request.method in ("GET", "HEAD"):
            self.check_xsrf_cookie()
        self.check_method()
        self._check_body()
        self._is_prepared = True

    def check_origin(self, origin_to_satisfy_tornado: str = "") -> bool:
        """Return the result of Jupyter's check; False for a malformed origin, on which it fails."""
        try:
            return super().check_origin(origin_to_satisfy_tornado)
        except ValueError:
            return False

    def check_referer(self) -> bool:
        """Return the result of Jupyter's check; False for a malformed referrer, on which it fails."""
        try:
            return super().check_referer()
        except ValueError:
            return False

    def check_xsrf_cookie(self) -> None:
        """Refuse unauthenticated requests with 403: only a login has an XSRF token to compare."""
        if getattr(self, "_jupyter_current_user", True) is None and not self._is_preflight():
            raise self._unauthenticated()
        try:
            super().check_xsrf_cookie()
        except HTTPError as error:
            raise _StalePage(error.status_code, str(error.log_message or "")) from None

    def get_login_url(self) -> str:
        """Refuse instead of redirecting to a login form, which programs cannot follow."""
        raise self._unauthenticated()

    def check_method(self) -> None:
        """Answer 405 for methods that the route lacks."""
        if self.request.method not in self.methods():
            raise RouteError(
                405,
                f"There is no {self.request.method!s} at {self.request.path}.",
            )

    def data_received(self, chunk: bytes) -> None:
        """Collect the body up to the size limit."""
        self._received += len(chunk)
        if self._received <= self.services.settings.max_body:
            self._chunks.append(chunk)

    def body(self) -> bytes:
        """Return the request's body.

        Raises:
            HTTPError: it exceeds the size limit.
        """
        if self._received > self.services.settings.max_body:
            raise self._too_large()
        return b"".join(self._chunks)

    def json_body(self) -> Json:
        """Return the request's body as a JSON object; empty for an empty body.

        Raises:
            InvalidArguments: it is not a JSON object.
        """
        body = self.body()
        if not body.strip():
            return {}
        try:
            found = loads(body)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(f"The body is not JSON: {error!s}.") from None
        if not isinstance(found, dict):
            raise InvalidArguments("The body is not a JSON object.")
        return cast("Json", found)

    def send(self, piece: str | bytes) -> None:
        """Write a chunk of the response; `flush` sends it."""
        self.write(piece)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Respond with a typed error."""
        if status_code == 405:
            self.set_header("Allow", ", ".join(self.methods()))
        if not self._is_prepared:
            # Tornado closes the connection if it has not read the body.
            self.set_header("Connection", "close")
        super().write_error(status_code, **kwargs)

    def options(self, *_args: Any, **_kwargs: Any) -> None:
        """Respond to a CORS preflight request."""
        self.set_header("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE, OPTIONS")
        self.set_header("Access-Control-Allow-Headers", ", ".join(BROWSER_HEADERS))
        self.set_status(204)
        self.finish()

    def _set_cors_headers(self) -> None:
        """Set the CORS headers for a page of an allowed origin."""
        origin = self.get_origin()
        if origin is not None and "Access-Control-Allow-Origin" not in self.settings.get(
            "headers", {}
        ):
            self.set_header("Access-Control-Allow-Origin", origin)
            self.set_header("Access-Control-Expose-Headers", "mcp-session-id")
            self.add_header("Vary", "Origin")

    def _check_body(self) -> None:
        has_body = self.request.headers.get("Content-Length", "0") != "0" or (
            "Transfer-Encoding" in self.request.headers
        )
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if not has_body and (not kind or self.request.method in ("GET", "HEAD", "OPTIONS")):
            return
        if kind != "application/json":
            raise RouteError(415, "The body must be JSON.")
        if int(self.request.headers.get("Content-Length", "0")) > self.services.settings.max_body:
            raise self._too_large()

    def _unauthenticated(self) -> HTTPError:
        sent = "Authorization" in self.request.headers or "token" in self.request.query_arguments
        said = (
            "The server does not accept this token." if sent else "A token or a login is required."
        )
        # JupyterHub treats a page with a stale XSRF token as not logged in.
        is_page = not sent and self.get_cookie("_xsrf") is not None
        return _StaleLogin(401, said) if is_page else RouteError(401, said)

    def _too_large(self) -> HTTPError:
        bound = self.services.settings.max_body
        return RouteError(413, f"The body is larger than {bound:,} bytes.")

    def _is_preflight(self) -> bool:
        return self.request.method == "OPTIONS" and "Origin" in self.request.headers

    def _origin_allowed(self) -> bool:
        return is_origin_allowed(self, self.services.settings.allowed_origins)


def is_own_origin(handler: JupyterHandler) -> bool:
    """Whether a request has no origin or the server's; a malformed origin is neither."""
    origin = handler.get_origin()
    if origin is None:
        return True
    try:
        host = urlsplit(origin).netloc
    except ValueError:
        return False
    return host.lower() == handler.request.host.lower()


def is_origin_allowed(handler: JupyterHandler, listed: Iterable[str]) -> bool:
    """Whether a request has no origin, the server's, or an allowed one.

    Args:
        handler: The request's handler.
        listed: Value of `TkAIExtensionApp.allowed_origins`.
    """
    if is_own_origin(handler):
        return True
    origin = str(handler.get_origin()).lower()
    if origin in {each.lower().rstrip("/") for each in listed}:
        return True
    if handler.allow_origin:
        return handler.allow_origin == "*" or handler.allow_origin.lower() == origin
    # fullmatch on the whole origin: jupyter_server has a function for that only from 2.18 on.
    pattern = handler.allow_origin_pat
    return bool(pattern) and re.fullmatch(pattern, origin) is not None


class NotFoundHandler(TkAIHandler):
    """Unknown routes: a typed error instead of Jupyter's HTML page."""

    def check_method(self) -> None:
        """Answer 404 for all methods."""
        raise RouteError(404, f"There is nothing at {self.request.path}.")


def username(handler: Any) -> str:
    """Return the user of an authenticated request, stable for each person.

    With one shared token or password, Jupyter generates a user for each browser, and a new one for
    each request with the token. Permissions do not depend on that name, but data would be lost with
    it: in that case the user is the one who runs the server.
    """
    if is_shared(handler.identity_provider):
        return handler.services.owner
    return str(handler.current_user.username)


def owner_name(provider: IdentityProvider, runs_server: str) -> str:
    """Return the name of the user who runs the server, as `username` returns it for their requests.

    On JupyterHub another user may have the name of the container's account.

    Args:
        provider: The server's identity provider.
        runs_server: The name of that user in the system.
    """
    if is_shared(provider):
        return runs_server
    return os.environ.get("JUPYTERHUB_USER") or runs_server


def is_shared(provider: IdentityProvider) -> bool:
    """Whether the authentication does not distinguish users, as with Jupyter's default."""
    return _is_shared(type(provider))


@cache
def _is_shared(kind: type[IdentityProvider]) -> bool:
    return all(
        getattr(kind, name) is getattr(IdentityProvider, name)
        for name in ("get_user", "_get_user", "get_user_token", "generate_anonymous_user")
    )
