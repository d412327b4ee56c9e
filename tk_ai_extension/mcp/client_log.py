"""Log messages to a client that asked for them."""

from __future__ import annotations

from typing import Any, get_args

import mcp_types as types

from tk_ai_extension.mcp.sdk import Context, connection_of, is_modern

_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
_STATE = "tk_ai.log_level"


class ClientLog:
    """``logging/setLevel`` in a session, the request's own level in the protocol without them.

    Nothing is sent to a client that did not ask.
    """

    async def set_level(
        self, context: Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        """The session wants messages of this level and above."""
        connection_of(context).state[_STATE] = params.level
        return types.EmptyResult()

    async def send(self, context: Context, level: types.LoggingLevel, data: dict[str, Any]) -> None:
        """Sends a message along with the answer to this request, if the client wants it."""
        wanted = _wanted(context)
        if wanted is None or _LEVELS.index(level) < _LEVELS.index(wanted):
            return
        await context.session.send_notification(
            types.LoggingMessageNotification(
                params=types.LoggingMessageNotificationParams(
                    level=level, logger="tk_ai_extension", data=data
                )
            ),
            related_request_id=context.request_id,
        )


def _wanted(context: Context) -> types.LoggingLevel | None:
    if is_modern(context):
        level: Any = (context.meta or {}).get(types.LOG_LEVEL_META_KEY)
        return level if level in _LEVELS else None
    return connection_of(context).state.get(_STATE)
