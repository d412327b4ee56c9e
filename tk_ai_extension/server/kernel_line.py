"""The line by which a cell asks Claude (`%tk`): a local socket, and a pass for each kernel.

A kernel gets the line's address and its pass in the environment of its process, and neither a token of
the server's nor a key of the model's. The pass is good in that kernel's processes alone, where the
system says who is at the other end of a socket, and until that kernel ends.

One question a connection, JSON a line each way: the first line has the ``pass`` and what is asked; what
comes of it is for whoever answers to say.
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

from tk_ai_extension.model.errors import (
    InternalError,
    InvalidArguments,
    LimitReached,
    PermissionDenied,
    ToolError,
)
from tk_ai_extension.workspace.socket_listener import SocketListener

logger = logging.getLogger(__name__)

LINE = "TK_AI_LINE"
"""The variable with the line's address in a kernel's environment."""
PASS = "TK_AI_PASS"  # noqa: S105 - the name of a variable
"""The variable with the kernel's pass."""

MAX_LINE = 4_000_000
"""Bytes of one line from a kernel."""
MAX_QUESTIONS = 32
"""How many cells may ask at once."""


class Wire:
    """A cell's end of the conversation, as who answers sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, message: Mapping[str, Any]) -> None:
        """Sends a line; nothing happens where nobody listens any more."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next line; None where the cell has gone.

        Raises:
            InvalidArguments: it is no JSON object, or has no end.
        """
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        except ValueError:
            raise InvalidArguments(f"A line may have {MAX_LINE:,} bytes.") from None
        if not line.endswith(b"\n"):
            return None
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(f"The line is not JSON: {error}.") from None
        if not isinstance(found, dict):
            raise InvalidArguments("The line is no JSON object.")
        return cast("dict[str, Any]", found)


Answer = Callable[[str, dict[str, Any], Wire], Awaitable[None]]
"""Answers what a cell of a kernel asks: the kernel's id, the question, the wire."""


class KernelLine:
    """Listens from the first kernel on; it is the `KernelCredentials` of a server's kernels.

    Args:
        answer: Answers a question.
        process_of: Says which process a kernel is, None where nobody knows; raises KernelNotFound.
    """

    def __init__(self, answer: Answer, process_of: Callable[[str], Awaitable[int | None]]) -> None:
        self._answer = answer
        self._process_of = process_of
        self._passes: dict[str, str] = {}
        self._listener = SocketListener("line.sock", self._hear, MAX_LINE)

    async def issue(self, kernel_id: str) -> Mapping[str, str]:
        """The line's address and a new pass, for a kernel whose process is about to begin.

        Nothing where there can be no line: a kernel is worth more than what it may ask.
        """
        try:
            path = await self._listener.open()
        except OSError as error:
            logger.warning("Kernels get no line, by which cells could ask Claude: %s", error)
            path = None
        if path is None:
            return {}
        self._passes[kernel_id] = secrets.token_urlsafe(24)
        return {LINE: str(path), PASS: self._passes[kernel_id]}

    def revoke(self, kernel_id: str) -> None:
        """A kernel has ended: its pass is good for nothing."""
        self._passes.pop(kernel_id, None)

    async def close(self) -> None:
        """Ends all questions and removes the socket."""
        await self._listener.close()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._respond(Wire(reader, writer), writer)

    async def _respond(self, wire: Wire, writer: asyncio.StreamWriter) -> None:
        try:
            self._check_bound()
            question = await wire.receive()
            if question is not None:
                kernel_id = await self._admit(question, writer.get_extra_info("socket"))
                await self._answer(kernel_id, question, wire)
        except ToolError as error:
            await wire.send({"error": error.as_dict()})
        except HTTPError as error:
            await wire.send({"error": ToolError(str(error.log_message)).as_dict()})
        except Exception as error:
            logger.exception("A question of a cell failed")
            failed = InternalError(f"The question failed: {type(error).__name__}: {error}")
            await wire.send({"error": failed.as_dict()})

    def _check_bound(self) -> None:
        if len(self._listener) > MAX_QUESTIONS:
            raise LimitReached(f"{MAX_QUESTIONS} cells ask at once already.")

    async def _admit(self, question: dict[str, Any], line: Any) -> str:
        """The kernel whose pass is shown, from within that kernel.

        Raises:
            PermissionDenied: it is nobody's, or another kernel's.
            KernelNotFound.
        """
        shown = str(question.pop("pass", "")).encode()
        kernel_id = next(
            (
                kernel_id
                for kernel_id, known in self._passes.items()
                if secrets.compare_digest(known.encode(), shown)
            ),
            None,
        )
        if kernel_id is None:
            raise PermissionDenied(
                "The server does not know this pass.", hint="Restart the kernel: it gets a new one."
            )
        pid = await self._process_of(kernel_id)
        from tk_ai_extension.workspace.peers import comes_from, peer_of

        peer = peer_of(line)
        if pid and peer and not await asyncio.to_thread(comes_from, peer, pid):
            raise PermissionDenied("The pass is good in the kernel that it was given to, alone.")
        return kernel_id
