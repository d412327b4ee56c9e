"""Requests for permission, for a person (or the program that shows them) to answer."""

from __future__ import annotations

from typing import cast, get_args

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.server.handlers.base import TkAIHandler, allowed
from tk_ai_extension.server.users import username


class PermissionsHandler(TkAIHandler):
    """The requests that wait."""

    @allowed("read")
    async def get(self) -> None:
        """Lists those that wait for this user, the oldest first, with what each would do."""
        await self.services.ready()
        pending = self.services.workspace.policy.pending(username(self))
        self.write_json({"permissions": [request.as_dict() for request in pending]})


class PermissionHandler(TkAIHandler):
    """One request."""

    @allowed("execute")
    async def post(self, permission_id: str) -> None:
        """Answers it: ``{"answer": "once"}``, ``chat``, ``notebook`` or ``deny``."""
        body = self.json_body()
        await self.services.ready()
        from tk_ai_extension.workspace.permissions import Answer

        answer = body.get("answer")
        if answer not in get_args(Answer) or len(body) > 1:
            raise InvalidArguments(
                "The body is not an answer.",
                hint=f'Send {{"answer": "…"}} with one of: {", ".join(get_args(Answer))}.',
            )
        self.services.workspace.policy.answer(username(self), permission_id, cast("Answer", answer))
        self.write_json({"id": permission_id, "answer": answer})
