"""What the calls of an agent prove with that they belong to a turn, whichever way they come in.

The way in says nothing: an agent's process may call by MCP over HTTP with the token of its user, like
any other client of that user. The journal, approvals and undo go by the turn.
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
    """A turn that has begun and has not ended."""

    @property
    def caller(self) -> Caller:
        """Who acts in it: the chat, in its mode, in this turn."""
        ...

    async def call(
        self, call: str | None, tool: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        """Carry out a call in the turn: its events, its approvals and its changes are the turn's.

        Args:
            call: The id by which the agent reports the call; None where it does not report it.
            tool: The tool's name.
            arguments: Its arguments.
        """
        ...


@dataclass(frozen=True, slots=True)
class TurnCredential:
    """The credential of one turn.

    Attributes:
        turn: The turn's id.
        token: A secret. It is authority only together with the user whose turn it is.
    """

    turn: str
    token: str = field(repr=False)


class TurnCredentials:
    """The credentials of the turns under way in a server, in memory alone."""

    def __init__(self) -> None:
        self._turns: dict[str, ActiveTurn] = {}

    def issue(self, turn: ActiveTurn) -> TurnCredential:
        """Return a new credential; called when a turn begins."""
        token = secrets.token_urlsafe(32)
        self._turns[token] = turn
        return TurnCredential(turn.caller.turn or "", token)

    def revoke(self, credential: TurnCredential) -> None:
        """Accept a credential no more; called when its turn is stopped or ends, or both."""
        self._turns.pop(credential.token, None)

    def turn_of(self, token: str, user: str) -> ActiveTurn:
        """Return the turn whose credential this is.

        Args:
            token: What the call came with.
            user: The user whom the way in has authenticated.

        Raises:
            InvalidTurnCredential: It was never issued, its turn is over, or it is another user's.
        """
        turn = self._turns.get(token)
        if turn is None or turn.caller.user != user:
            raise InvalidTurnCredential("The turn is over, or was never yours.")
        return turn
