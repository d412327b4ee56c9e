"""Local socket by which cells ask Claude (`%tk`), with a credential for each kernel.

A kernel receives the socket's address and its credential in its environment, and neither a token of the
server nor a key of the provider. The credential is valid until the kernel ends, and only in that kernel's
processes if the system can identify the peer of a socket.

Each connection carries one question as lines of JSON: the first line has the ``pass`` and the question;
the handler sends the responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from tornado.web import HTTPError

from tk_ai_extension.model.encoding import loads
from tk_ai_extension.model.errors import (
    InternalError,
    InvalidArguments,
    LimitReached,
    PermissionDenied,
    ToolError,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.workspace.socket_listener import SocketListener

logger = logging.getLogger(__name__)

SOCKET = "TK_AI_SOCKET"
"""Environment variable of a kernel with the socket's address."""
DEPRECATED_SOCKET = "TK_AI_LINE"
"""The same, for a `%tk` of the previous release."""
CREDENTIAL = "TK_AI_CREDENTIAL"
"""Environment variable with the kernel's credential."""
DEPRECATED_CREDENTIAL = "TK_AI_PASS"
"""The same, for a `%tk` of the previous release."""

MAX_LINE = 4_000_000
"""Maximum length of a line from a kernel, in bytes."""
MAX_QUESTIONS = 32
"""Maximum number of concurrent questions."""


class JsonLineConnection:
    """Connection to a cell: lines of JSON."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; ignored after a disconnect."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()

    async def receive(self) -> Json | None:
        """Return the next message; None after a disconnect.

        Raises:
            InvalidArguments: it is not a JSON object, or too long.
        """
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        except ValueError:
            raise InvalidArguments(f"The line is longer than {MAX_LINE:,} bytes.") from None
        if not line.endswith(b"\n"):
            return None
        try:
            found = loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(f"The line is not JSON: {error}.") from None
        if not isinstance(found, dict):
            raise InvalidArguments("The line is not a JSON object.")
        return cast("Json", found)


Answer = Callable[[str, Json, JsonLineConnection], Awaitable[None]]
"""Answers what a cell of a kernel asks: the kernel's id, the question, the connection."""


class KernelChatServer:
    """Listens from the first kernel on; implements `KernelCredentials` for the server's kernels.

    Args:
        answer: Answers a question.
        process_of: Returns a kernel's process id, None if unknown; raises KernelNotFound.
    """

    def __init__(self, answer: Answer, process_of: Callable[[str], Awaitable[int | None]]) -> None:
        self._answer = answer
        self._process_of = process_of
        self._credentials: dict[str, str] = {}
        self._listener = SocketListener("chat.sock", self._accept, MAX_LINE)

    async def issue(self, kernel_id: str) -> Mapping[str, str]:
        """Return the socket's address and a new credential for a kernel that is about to start.

        Empty if the socket cannot be opened: the kernel starts anyway.
        """
        try:
            path = await self._listener.open()
        except OSError as error:
            logger.warning("Cells cannot ask Claude, the socket cannot be opened: %s", error)
            path = None
        if path is None:
            return {}
        credential = self._credentials[kernel_id] = secrets.token_urlsafe(24)
        return {
            **dict.fromkeys((SOCKET, DEPRECATED_SOCKET), str(path)),
            **dict.fromkeys((CREDENTIAL, DEPRECATED_CREDENTIAL), credential),
        }

    def revoke(self, kernel_id: str) -> None:
        """Revoke the credential of an ended kernel."""
        self._credentials.pop(kernel_id, None)

    async def close(self) -> None:
        """Cancel all questions and remove the socket."""
        await self._listener.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._respond(JsonLineConnection(reader, writer), writer)

    async def _respond(self, connection: JsonLineConnection, writer: asyncio.StreamWriter) -> None:
        try:
            self._check_bound()
            question = await connection.receive()
            if question is not None:
                kernel_id = await self._admit(question, writer.get_extra_info("socket"))
                await self._answer(kernel_id, question, connection)
        except ToolError as error:
            await connection.send({"error": error.as_dict()})
        except HTTPError as error:
            await connection.send({"error": ToolError(str(error.get_message())).as_dict()})
        except Exception as error:
            logger.exception("A question of a cell failed")
            failed = InternalError(f"The question failed: {type(error).__name__}: {error}")
            await connection.send({"error": failed.as_dict()})

    def _check_bound(self) -> None:
        if len(self._listener) > MAX_QUESTIONS:
            raise LimitReached(f"{MAX_QUESTIONS} cells are already asking.")

    async def _admit(self, question: Json, connection: Any) -> str:
        """Return the kernel of a question's credential, checked against the peer's process.

        Raises:
            PermissionDenied: the credential is unknown, or another kernel's.
            KernelNotFound.
        """
        deprecated = question.pop("pass", "")  # of a `%tk` of the previous release
        shown = str(question.pop("credential", deprecated)).encode()
        kernel_id = next(
            (
                kernel_id
                for kernel_id, known in self._credentials.items()
                if secrets.compare_digest(known.encode(), shown)
            ),
            None,
        )
        if kernel_id is None:
            raise PermissionDenied(
                "The server does not know this credential.",
                hint="Restart the kernel to get a new one.",
            )
        pid = await self._process_of(kernel_id)
        from tk_ai_extension.workspace.peers import comes_from, peer_of

        peer = peer_of(connection)
        if pid and peer and not await asyncio.to_thread(comes_from, peer, pid):
            raise PermissionDenied("The credential is only valid in the kernel that received it.")
        return kernel_id
