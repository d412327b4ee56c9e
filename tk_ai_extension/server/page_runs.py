"""Runs that people start in pages of JupyterLab: they go on in the notebook without the page.

JupyterLab names the cell in the metadata of its requests to a kernel. The outputs arrive on this server's
connection to the kernel, which loses none: Jupyter's own connection for the page drops messages of a flood.
Nothing is written while the page is connected, since it has the outputs itself. Once it is gone, its runs
go on like an agent's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_server.services.kernels.connection import base
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.notebooks.browser_pages import GRACE, BrowserPages
from tk_ai_extension.server.handlers.base_handler import is_shared
from tk_ai_extension.server.handlers.page_websocket import GOING_AWAY

if TYPE_CHECKING:
    from tk_ai_extension.kernels.kernel_run import OtherClientRun
    from tk_ai_extension.server.services import Services

logger = logging.getLogger(__name__)
_jupyter: Any = base  # its functions are not annotated

CONNECTION = "kernel_websocket_connection_class"
"""Key of the class of pages' connections to kernels, in the web application's settings."""

Client = tuple[str, str]
"""A kernel, and the session id of a page's connection to it, which stays when the page reconnects."""


class PageRunKeeper:
    """The runs of connected pages, and of pages that may reconnect.

    A page that reconnects in time gets from Jupyter what it has missed, and nothing is done here. Otherwise
    its runs are taken over. If it comes back after that, it does not get their outputs over its connection
    to the kernel: they are written to its tab, or it finds them in the file.

    Args:
        services: The server's services.
        pages: The pages of JupyterLab.
    """

    def __init__(self, services: Services, pages: BrowserPages) -> None:
        self._services = services
        self._pages = pages
        self._connected: dict[Client, Any] = {}
        self._away: dict[Client, asyncio.TimerHandle] = {}
        # By the id of the request: the cell and its run. A run that has ended is not kept.
        self._runs: dict[Client, dict[str, tuple[str, OtherClientRun]]] = {}
        # The requests that were taken over.
        self._taken: dict[Client, set[str]] = {}
        self._tasks = BackgroundTasks(logger)

    async def prepare(self, kernel_id: str) -> None:
        """Wait for the connection to a kernel: what runs before that is not followed."""
        with suppress(Exception):  # Pages use kernels also where the workspace cannot be built.
            await self._services.ready()
            await self._services.workspace.kernels.wait_ready(kernel_id)

    def connected(self, connection: Any) -> set[str]:
        """Handle a new connection; return the requests whose outputs it must not get."""
        client = _client(connection)
        if (timer := self._away.pop(client, None)) is not None:
            timer.cancel()
        # Another client has now made Jupyter drop what it kept. The former connection was dead.
        lost = [each for each in self._away if each[0] == client[0]]
        for each in [*lost, *([client] if client in self._connected else ())]:
            self._take_over(each, connection)
        self._connected[client] = connection
        return self._taken.setdefault(client, set())

    def disconnected(self, connection: Any) -> None:
        """Handle the end of a connection."""
        client = _client(connection)
        if self._connected.get(client) is not connection:
            return
        del self._connected[client]
        if not self._taken[client]:
            del self._taken[client]
        # Jupyter keeps the messages for the last client of a kernel.
        is_kept = any(not stream.closed() for stream in connection.channels.values())
        if not is_kept or connection.websocket_handler.close_code in GOING_AWAY:
            self._take_over(client, connection)
        elif client in self._runs:
            call_later = asyncio.get_running_loop().call_later
            self._away[client] = call_later(GRACE, self._take_over, client, connection)

    def sent(self, connection: Any, message: str | bytes) -> None:
        """Follow a page's request if it runs a cell."""
        # JupyterLab's pages have this subprotocol.
        if not isinstance(message, bytes) or b"execute_request" not in message:
            return
        # Without this package's labextension, nothing would write the outputs to the page's tab.
        if not (self._pages.has_tabs and self._services.is_ready and connection.subprotocol):
            return
        _, parts = _jupyter.deserialize_msg_from_ws_v1(message)
        header, metadata, content = (json.loads(parts[index]) for index in (0, 2, 3))
        cell, request = metadata.get("cellId"), header["msg_id"]
        if header["msg_type"] != "execute_request" or not isinstance(cell, str):
            return
        client = _client(connection)
        run = self._services.workspace.kernels.follow(client[0], request, content["code"])
        if run is not None:
            self._runs.setdefault(client, {})[request] = cell, run
            run.on_done = partial(self._on_done, client, request, run.on_done)

    def _on_done(self, client: Client, request: str, ended: Callable[[], object]) -> None:
        ended()
        runs = self._runs.get(client, {})
        runs.pop(request, None)
        if not runs:
            self._runs.pop(client, None)

    async def close(self) -> None:
        """Stop following runs: the server stops."""
        for timer in self._away.values():
            timer.cancel()
        self._runs.clear()
        await self._tasks.close()

    def _take_over(self, client: Client, connection: Any) -> None:
        self._away.pop(client, None)
        if runs := self._runs.pop(client, None):
            self._taken.setdefault(client, set()).update(runs)
            handler = connection.websocket_handler
            is_owner = is_shared(handler.identity_provider)
            user = self._services.owner if is_owner else str(handler.current_user.username)
            carrying = self._carry_on(Caller(user, key="page"), client, runs)
            self._tasks.spawn(carrying, f"Taking over runs of {client[0]}")

    async def _carry_on(
        self, caller: Caller, client: Client, runs: dict[str, tuple[str, OtherClientRun]]
    ) -> None:
        workspace = self._services.workspace
        try:
            for path in await workspace.sessions.paths_of(client[0]):
                snapshot = await (await workspace.store.open(path)).read()
                ids = {cell.id for cell in snapshot.cells}
                found = {each: runs.pop(each) for each in list(runs) if runs[each][0] in ids}
                if found:
                    workspace.executions.carry_on(caller, client[0], path, found.values())
        finally:
            # No stored notebook has these cells: the page gets their outputs if it comes back.
            self._taken.get(client, set[str]()).difference_update(runs)


def followed(configured: Any, runs: PageRunKeeper) -> Any:
    """Return Jupyter's class of connections with `PageRunKeeper`; a gateway's class is returned unchanged."""
    if not issubclass(configured, ZMQChannelsWebsocketConnection):
        return configured

    class FollowedConnection(configured):
        taken: frozenset[str] | set[str] = frozenset()

        async def prepare(self) -> None:
            await super().prepare()
            await runs.prepare(self.kernel_id)

        def connect(self) -> Any:
            self.taken = runs.connected(self)
            return super().connect()

        def disconnect(self) -> None:
            super().disconnect()
            runs.disconnected(self)

        def handle_incoming_message(self, incoming_msg: Any) -> None:
            try:
                runs.sent(self, incoming_msg)
            except Exception:
                logger.exception("A page's request could not be followed")
            super().handle_incoming_message(incoming_msg)

        def handle_outgoing_message(self, stream: Any, outgoing_msg: list[bytes]) -> None:
            if not (self.taken and _is_output_of(self.session, outgoing_msg, self.taken)):
                super().handle_outgoing_message(stream, outgoing_msg)

    return FollowedConnection


def _client(connection: Any) -> Client:
    return connection.kernel_id, connection.session.session


def _is_output_of(session: Any, message: list[bytes], requests: frozenset[str] | set[str]) -> bool:
    """Return whether a kernel's message is an output of one of these requests."""
    from tk_ai_extension.kernels.output_collector import OUTPUT_MESSAGES

    _, (_, header, parent, *_) = session.feed_identities(message)
    is_theirs = json.loads(parent).get("msg_id") in requests
    return is_theirs and json.loads(header)["msg_type"] in OUTPUT_MESSAGES
