"""The bridge by which code in a kernel calls the tools, for the caller who runs it and nobody else."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, PermissionDenied, ToolError
from tk_ai_extension.workspace.peers import comes_from, peer_of
from tk_ai_extension.workspace.socket_listener import SocketListener

logger = logging.getLogger(__name__)

Answer = Callable[[Caller, str, Json], Awaitable[Json]]
"""Calls a tool for a caller, of those that they have; its structured answer."""

MAX_LINE = 64_000_000
"""Bytes of one call."""
MAX_CALLS = 64
"""How many calls there may be at once."""


@dataclass(frozen=True, slots=True)
class _Grant:
    """What a token is good for."""

    caller: Caller
    kernel_id: str
    session: str
    answer: Answer


class ToolBridge:
    """A socket in a folder of its own, of mode 0700: one call a connection, a line of JSON each way.

    A token is good for one caller and one kernel: where the system says who is at the other end of
    a socket, only that kernel's processes may use it. No web page reaches such a socket.

    Args:
        kernels: Says which process a kernel is.
    """

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._grants: dict[str, _Grant] = {}
        self._listener = SocketListener("bridge.sock", self._hear, MAX_LINE)

    def describe(self, session: str, about: Json) -> Path:
        """Write down what a session's code may know of it; where that stands."""
        path = self._listener.folder / f"{session}.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(about), encoding="utf-8")
        return path

    def forget(self, session: str) -> None:
        """A session is over: its file goes."""
        if self._listener.has_folder:
            (self._listener.folder / f"{session}.json").unlink(missing_ok=True)

    async def open(self) -> None:
        """Listens, unless it does already."""
        await self._listener.open()

    @property
    def url(self) -> str:
        """Its address."""
        return f"unix://{self._listener.folder / 'bridge.sock'}"

    def token(self, caller: Caller, kernel_id: str, session: str, answer: Answer) -> str:
        """The token of a caller in a kernel, who acts with the mode and tools that they have now."""
        grant = _Grant(caller, kernel_id, session, answer)
        for token, known in self._grants.items():
            if (known.caller.identity, known.kernel_id) == (caller.identity, kernel_id):
                self._grants[token] = grant
                return token
        token = secrets.token_urlsafe(24)
        self._grants[token] = grant
        return token

    def revoke(self, kernel_id: str) -> None:
        """A kernel is gone, or another's: its tokens are good for nothing."""
        for token, grant in list(self._grants.items()):
            if grant.kernel_id == kernel_id:
                del self._grants[token]

    async def close(self) -> None:
        """End all calls and removes the folder."""
        await self._listener.close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                writer.write(json.dumps(await self._respond(line, writer)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:  # it is gone, or its line has no end
            logger.info("A call over the bridge was cut off: %s", error)

    async def _respond(self, line: bytes, writer: asyncio.StreamWriter) -> Json:
        try:
            if len(self._listener) > MAX_CALLS:
                raise LimitReached(f"{MAX_CALLS} calls are under way over the bridge.")
            asked = _parsed(line)
            grant = await self._admit(asked, writer.get_extra_info("socket"))
            return {"result": await grant.answer(grant.caller, asked["tool"], asked["arguments"])}
        except ToolError as error:
            return {"error": error.as_dict()}

    async def _admit(self, asked: Json, line: Any) -> _Grant:
        """What the token is good for, at the other end of this socket.

        Raises:
            PermissionDenied: it is nobody's, or another kernel's.
        """
        grant = self._grants.get(asked["token"])
        if grant is None or grant.session != asked["session"]:
            raise PermissionDenied("The bridge does not know this token in this session.")
        if grant.kernel_id not in self._kernels.ids():
            raise PermissionDenied("The kernel of this token is gone.")
        pid = (await self._kernels.info(grant.kernel_id)).pid
        peer = peer_of(line)
        if pid and peer and not await asyncio.to_thread(comes_from, peer, pid):
            raise PermissionDenied("The token is good in the kernel that it was given to, alone.")
        return grant


def _parsed(line: bytes) -> Json:
    try:
        asked = json.loads(line)
        kinds = {"token": str, "session": str, "tool": str, "arguments": dict}
        if all(isinstance(asked[name], kind) for name, kind in kinds.items()):
            return asked
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InvalidArguments("A call is a line of JSON with token, session, tool and arguments.")
