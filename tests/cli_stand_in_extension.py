"""A server extension that gives the chats of a server process the stand-in for Claude's CLI."""

from __future__ import annotations

from typing import Any

CONFIG = f"c.ServerApp.jpserver_extensions[{__name__!r}] = True\n"
"""What loads it in a server."""


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(_app: Any) -> None:
    from tests import cli_stand_in
    from tk_ai_extension.agent.claude import client

    client.started_by_launcher = cli_stand_in.started
