"""Which user a request acts for."""

from __future__ import annotations

import os
from typing import Any

from jupyter_server.auth import IdentityProvider

from tk_ai_extension.model.errors import PermissionDenied


def username(handler: Any) -> str:
    """The user of an authenticated request, the same for each request of one person.

    Where everybody shares one token or password, Jupyter invents a user for each browser and a new
    one for each request that brings only the token. What a request may do does not depend on that
    name, and things would be lost with it: there, the one user is the one who runs the server.
    """
    if is_shared(handler.identity_provider):
        return handler.services.owner
    return str(handler.current_user.username)


def user_of_cells(provider: IdentityProvider, runs_server: str) -> str:
    """The user for whom cells ask: a kernel does not know which person runs a cell in it.

    Args:
        provider: The server's.
        runs_server: The name of the user who runs it.

    Raises:
        PermissionDenied: the server has several users.
    """
    if is_shared(provider):
        return runs_server
    # A server of JupyterHub is one user's, whomever it lets in besides.
    name = os.environ.get("JUPYTERHUB_USER")
    if not name:
        raise PermissionDenied(
            "This server has several users, and a cell does not say who runs it.",
            hint="Ask in the chat: there the server knows who you are.",
        )
    return name


def is_shared(provider: IdentityProvider) -> bool:
    """Whether the server's authentication does not tell users apart (Jupyter's own does not)."""
    kind = type(provider)
    return all(
        getattr(kind, name) is getattr(IdentityProvider, name)
        for name in ("get_user", "_get_user", "get_user_token", "generate_anonymous_user")
    )
