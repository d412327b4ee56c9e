"""Requests for permission, for a person (or the program that shows them) to answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast, get_args

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.server.handlers.base import TkAIHandler, allowed
from tk_ai_extension.server.handlers.streaming import StreamingHandler
from tk_ai_extension.server.users import username

if TYPE_CHECKING:
    from tk_ai_extension.workspace.permission_feed import PermissionEvent


class PermissionsHandler(StreamingHandler):
    """The requests that wait, and what becomes of them."""

    @allowed("read")
    async def get(self) -> None:
        """Lists those that wait for this user, the oldest first, with what each would do.

        As server-sent events: the same list, then each that is asked or settled.
        """
        await self.services.ready()
        policy, user = self.services.workspace.policy, username(self)
        if "text/event-stream" in self.request.headers.get("Accept", ""):
            await self.stream(_frames(policy.follow(user)))
            return
        pending = policy.pending(user)
        self.write_json({"permissions": [request.as_dict() for request in pending]})


class PermissionHandler(TkAIHandler):
    """One request."""

    @allowed("execute")
    async def post(self, permission_id: str) -> None:
        """Answer it: ``{"answer": "once"}``, ``chat``, ``notebook`` or ``deny`` (``message``)."""
        body = self.json_body()
        await self.services.ready()
        from tk_ai_extension.workspace.permissions import Answer

        answer = body.get("answer")
        message = body.get("message", "")
        if (
            answer not in get_args(Answer)
            or not isinstance(message, str)
            or body.keys() - {"answer", "message"}
        ):
            raise InvalidArguments(
                "The body is not an answer.",
                hint=f'Send {{"answer": "…"}} with one of: {", ".join(get_args(Answer))}; '
                "with `deny` also a `message`.",
            )
        policy = self.services.workspace.policy
        policy.answer(username(self), permission_id, cast("Answer", answer), message)
        self.write_json({"id": permission_id, "answer": answer})


async def _frames(events: AsyncIterator[PermissionEvent]) -> AsyncIterator[str]:
    async for event in events:
        yield f"event: {event.kind}\ndata: {json.dumps(event.as_dict())}\n\n"
