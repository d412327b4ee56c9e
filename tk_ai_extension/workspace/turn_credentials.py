"""Credentials that prove that a call belongs to a turn, for agents that call through any interface.

The interface alone proves nothing: an agent's process may call by MCP over HTTP with its user's token,
like any other client of that user. The journal, approvals and undo depend on the turn.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tk_ai_extension.model.agent_errors import InvalidTurnCredential
from tk_ai_extension.model.callers import Caller

if TYPE_CHECKING:
    import mcp_types as types


class ActiveTurn(Protocol):
    """A turn in progress."""

    @property
    def caller(self) -> Caller:
        """The caller: the chat, with its mode, in this turn."""
        ...

    async def call(
        self, call: str | None, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        """Run a call within the turn, which its events, approvals and changes belong to.

        Args:
            call: The id with which the agent reports the call; None if it does not report it.
            tool: The tool's name.
            arguments: The arguments.
        """
        ...


@dataclass(frozen=True, slots=True)
class TurnCredential:
    """The credential of one turn.

    Attributes:
        turn: The turn's id.
        token: A secret. It is valid only for the user of the turn.
    """

    turn: str
    token: str = field(repr=False)


class TurnCredentials:
    """The credentials of a server's active turns, kept in memory."""

    def __init__(self) -> None:
        self._turns: dict[str, ActiveTurn] = {}

    def issue(self, turn: ActiveTurn) -> TurnCredential:
        """Return a new credential for a turn that starts."""
        token = secrets.token_urlsafe(32)
        self._turns[token] = turn
        return TurnCredential(turn.caller.turn or "", token)

    def revoke(self, credential: TurnCredential) -> None:
        """Revoke the credential of a turn that was stopped or has ended. Idempotent."""
        self._turns.pop(credential.token, None)

    def turn_of(self, token: str, user: str) -> ActiveTurn:
        """Return the turn of a credential.

        Args:
            token: The token of the call.
            user: The authenticated user.

        Raises:
            InvalidTurnCredential: The token is unknown, its turn has ended, or it belongs to another
                user.
        """
        turn = self._turns.get(token)
        if turn is None or turn.caller.user != user:
            raise InvalidTurnCredential("The turn has ended, or it belongs to another user.")
        return turn
