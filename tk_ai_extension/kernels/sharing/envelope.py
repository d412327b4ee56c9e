"""The signed outside of a message: checked with one kernel's key, signed anew with another's."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from jupyter_client.session import DELIM

SIGNED = 4
"""Header, parent header, metadata and content are signed; buffers are not."""


class Forged(Exception):
    """A message that is not signed with the right key, or that is no message of the protocol."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message whose signature was right.

    Attributes:
        identities: The route back to who sent it; on iopub the topic.
        body: Header, parent header, metadata, content and buffers, as they came.
        header: The first of them, read.
    """

    identities: list[bytes]
    body: list[bytes]
    header: Mapping[str, Any]

    @classmethod
    def open(cls, session: Any, parts: list[bytes]) -> Envelope:
        """Checks what came from a socket.

        Raises:
            Forged: nothing of it may be used.
        """
        try:
            end = parts.index(DELIM)
        except ValueError:
            raise Forged("it has no delimiter") from None
        signature, body = parts[end + 1 : end + 2], parts[end + 2 :]
        if len(body) < SIGNED:
            raise Forged("it is not whole")
        if not hmac.compare_digest(session.sign(body[:SIGNED]), signature[0]):
            raise Forged("its signature is wrong")
        return cls(parts[:end], body, _mapping(session, body[0]))

    @property
    def kind(self) -> str:
        """The message's type, such as ``execute_request``."""
        return str(self.header.get("msg_type", ""))

    @property
    def id(self) -> str:
        """The message's own id."""
        return str(self.header.get("msg_id", ""))

    def answers(self, session: Any) -> str:
        """The id of the request that it answers; empty where it answers none.

        Raises:
            Forged: its parent header cannot be read.
        """
        return str(_mapping(session, self.body[1]).get("msg_id", ""))

    def sealed(self, session: Any) -> list[bytes]:
        """The same message, signed for where another key holds.

        The identities are kept, so that each of several clients gets its own replies.
        """
        return [*self.identities, DELIM, session.sign(self.body[:SIGNED]), *self.body]


def _mapping(session: Any, packed: bytes) -> Mapping[str, Any]:
    try:
        unpacked: object = session.unpack(packed)
    except ValueError as problem:
        raise Forged(f"it cannot be read: {problem}") from None
    if not isinstance(unpacked, Mapping):
        raise Forged("it cannot be read")
    return cast(Mapping[str, Any], unpacked)
