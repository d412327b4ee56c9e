"""The bridge through which code in a kernel calls tools on behalf of the caller who runs it."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tk_ai_extension.kernels.service import Kernels
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, PermissionDenied, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.workspace.peers import comes_from, peer_of
from tk_ai_extension.workspace.socket_listener import SocketListener

logger = logging.getLogger(__name__)

Answer = Callable[[Caller, str, Json], Awaitable[Json]]
"""Calls one of a caller's tools and returns its structured result."""

MAX_LINE = 64_000_000
"""Maximum bytes of one call."""
MAX_CALLS = 64
"""Maximum concurrent calls."""


@dataclass(frozen=True, slots=True)
class _Grant:
    """The rights of a token."""

    caller: Caller
    kernel_id: str
    session: str
    answer: Answer


class ToolBridge:
    """A Unix socket in a folder of mode 0700. Each connection carries one call: a line of JSON each way.

    A token is valid for one caller and one kernel. Where the system provides peer credentials, only
    the kernel's processes may use it. A web page cannot reach a Unix socket.

    Args:
        kernels: The kernels, for their process ids.
    """

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._grants: dict[str, _Grant] = {}
        self._listener = SocketListener("bridge.sock", self._serve, MAX_LINE)
        self.open = self._listener.open
        self.close = self._listener.close

    @property
    def url(self) -> str:
        """The URL of the socket."""
        return f"unix://{self._listener.folder / 'bridge.sock'}"

    def variables(
        self, caller: Caller, kernel_id: str, session: str, folder: str, answer: Answer
    ) -> dict[str, str]:
        """Return the environment variables for a caller's code in a kernel.

        The token is the caller's in this kernel, with the caller's current mode and tools.
        """
        state = self._listener.folder / f"{session}.json"
        state.touch(mode=0o600)
        about = {"session": session, "kernel_id": kernel_id, "folder": folder}
        state.write_text(json.dumps(about), encoding="utf-8")
        holder = (caller.identity, kernel_id)
        found = (
            token
            for token, known in self._grants.items()
            if (known.caller.identity, known.kernel_id) == holder
        )
        token = next(found, None) or secrets.token_urlsafe(24)
        self._grants[token] = _Grant(caller, kernel_id, session, answer)
        return {
            "PI_SESSION_FILE": str(state),
            "PI_TOOL_BRIDGE_URL": self.url,
            "PI_TOOL_BRIDGE_TOKEN": token,
            "PI_TOOL_BRIDGE_SESSION": session,
        }

    def forget(self, session: str) -> None:
        """Remove the file of a session that has ended."""
        (self._listener.folder / f"{session}.json").unlink(missing_ok=True)

    def revoke(self, kernel_id: str) -> None:
        """Revoke the tokens of a kernel that has ended or was replaced."""
        self._grants = {
            token: grant for token, grant in self._grants.items() if grant.kernel_id != kernel_id
        }

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                writer.write(json.dumps(await self._respond(line, writer)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:  # Disconnected, or the line is too long.
            logger.info("A call over the bridge was aborted: %s", error)

    async def _respond(self, line: bytes, writer: asyncio.StreamWriter) -> Json:
        try:
            if len(self._listener) > MAX_CALLS:
                raise LimitReached(f"The bridge already has {MAX_CALLS} concurrent calls.")
            request = _parsed(line)
            grant = await self._authorize(request, writer.get_extra_info("socket"))
            result = await grant.answer(grant.caller, request["tool"], request["arguments"])
            return {"result": result}
        except ToolError as error:
            return {"error": error.as_dict()}

    async def _authorize(self, request: Json, connection: socket.socket) -> _Grant:
        """Return the rights of a request's token for the process that sent it.

        Raises:
            PermissionDenied: The token is unknown or belongs to another kernel.
        """
        grant = self._grants.get(request["token"])
        if grant is None or grant.session != request["session"]:
            raise PermissionDenied("The bridge does not know this token in this session.")
        if grant.kernel_id not in self._kernels.ids():
            raise PermissionDenied("The kernel of this token has ended.")
        pid = (await self._kernels.info(grant.kernel_id)).pid
        peer = peer_of(connection)
        if pid and peer and not await asyncio.to_thread(comes_from, peer, pid):
            raise PermissionDenied("The token is valid only in the kernel that it was issued to.")
        return grant


def _parsed(line: bytes) -> Json:
    try:
        request = json.loads(line)
        types = {"token": str, "session": str, "tool": str, "arguments": dict}
        if all(isinstance(request[name], kind) for name, kind in types.items()):
            return request
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InvalidArguments("A call must be a line of JSON with token, session, tool and arguments.")
