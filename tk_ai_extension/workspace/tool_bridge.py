"""The bridge through which code in a kernel calls tools on behalf of the caller who runs it."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.workspace.private_socket import PrivateSocket, comes_from

logger = logging.getLogger(__name__)

Answer = Callable[[Caller, str, Json], Awaitable[Json]]
"""Calls one of a caller's tools and returns its structured result."""

MAX_LINE = 64_000_000
"""Maximum bytes of one call."""


class _Grant(NamedTuple):
    """The rights of a token."""

    caller: Caller
    kernel_id: str
    answer: Answer


class _Call(BaseModel):
    token: str
    tool: str
    arguments: Json


class ToolBridge:
    """A private Unix socket. Each connection carries one call: a line of JSON each way.

    A token is valid for one caller and one kernel, until the kernel ends. Where the system provides peer
    credentials, only the kernel's processes may use it. A web page cannot reach a Unix socket.

    Args:
        kernels: The kernels, for their process ids.
    """

    def __init__(self, kernels: KernelService) -> None:
        self._kernels = kernels
        self._secret = secrets.token_bytes()
        self._grants: dict[str, _Grant] = {}
        self._socket = PrivateSocket(self._serve, MAX_LINE)
        self.close = self._socket.close

    async def variables(
        self, caller: Caller, kernel_id: str, session: str, folder: str, answer: Answer
    ) -> dict[str, str]:
        """Return the environment variables for a caller's code in a kernel.

        The token is for the caller in this kernel, with the caller's current mode and tools.
        """
        path = await self._socket.open()
        state = path.with_name(f"{kernel_id}.json")
        state.touch(mode=0o600)
        about = {"session": session, "kernel_id": kernel_id, "folder": folder}
        state.write_text(json.dumps(about), encoding="utf-8")
        holder = f"{caller.identity}\n{kernel_id}".encode()
        token = hmac.digest(self._secret, holder, "sha256").hex()
        self._grants[token] = _Grant(caller, kernel_id, answer)
        return {
            "PI_SESSION_FILE": str(state),
            "PI_TOOL_BRIDGE_URL": f"unix://{path}",
            "PI_TOOL_BRIDGE_TOKEN": token,
            "PI_TOOL_BRIDGE_SESSION": session,
        }

    def forget(self, kernel_id: str) -> None:
        """Revoke the tokens of a kernel that has ended."""
        grants = self._grants.items()
        self._grants = {token: grant for token, grant in grants if grant.kernel_id != kernel_id}

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
            call = _Call.model_validate_json(line)
            grant = self._grants.get(call.token)
            if grant is None:
                raise PermissionDenied("The bridge does not know this token, or its kernel ended.")
            pid = (await self._kernels.info(grant.kernel_id)).pid
            if pid and not await comes_from(writer, pid):
                raise PermissionDenied("The token is valid only in the kernel it was issued to.")
            return {"result": await grant.answer(grant.caller, call.tool, call.arguments)}
        except ValidationError:
            error = InvalidArguments("A call is a line of JSON with token, tool and arguments.")
            return {"error": error.as_dict()}
        except ToolError as error:
            return {"error": error.as_dict()}
