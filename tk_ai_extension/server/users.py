"""Users of requests."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from jupyter_server.auth import IdentityProvider


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

    On JupyterHub another user may have the name that its container's account has.

    Args:
        provider: The server's identity provider.
        runs_server: The name of that user in the system.
    """
    if is_shared(provider):
        return runs_server
    return os.environ.get("JUPYTERHUB_USER") or runs_server


def is_shared(provider: IdentityProvider) -> bool:
    """Whether the authentication does not distinguish users, as Jupyter's own."""
    return _is_shared(type(provider))


@cache
def _is_shared(kind: type[IdentityProvider]) -> bool:
    return all(
        getattr(kind, name) is getattr(IdentityProvider, name)
        for name in ("get_user", "_get_user", "get_user_token", "generate_anonymous_user")
    )
