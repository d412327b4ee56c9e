"""Approvals through the client by elicitation."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast, get_args

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.proposals import Proposal, one_line
from tk_ai_extension.workspace.permission_requests import Answer, PermissionReply, PermissionRequest
from tk_ai_extension.workspace.permissions import MAX_MESSAGE

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Request | None]
"""Context that the SDK passes to a handler; ``request`` is None without HTTP (stdio)."""

_QUESTIONS = {
    "once": "Approve once",
    "chat": "Approve in this session",
    "chat_tool": "Approve this tool in this session",
    "notebook": "Approve in this notebook",
    "notebook_tool": "Approve this tool in this notebook",
    "deny": "Deny",
}


def is_modern(context: Context) -> bool:
    """Whether the request uses the protocol without sessions (2026-07-28 and later)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


class ElicitingApprover:
    """Approver that asks through the client: within the call in a session, else in a second round.

    Without sessions a server cannot send requests: it responds with the question, and the client
    repeats the call with the person's answer. `question` is then the response.

    Args:
        context: The call's request.
        responses: The client's answers from the first round.
        gone: Set when the client disconnects.
    """

    def __init__(
        self, context: Context, responses: types.InputResponses | None, gone: asyncio.Event
    ) -> None:
        self._context = context
        self._gone = gone
        self._responses = responses or {}
        self.question: types.InputRequiredResult | None = None

    async def ask(self, request: PermissionRequest) -> PermissionReply | None:
        """Return the person's answer, or None if it arrives with the next round."""
        if not is_modern(self._context):
            return await self._ask_now(request)
        # The key identifies the question: ignore answers to other ones.
        key = f"permission:{request.arguments_hash}"
        response = self._responses.get(key)
        if isinstance(response, types.ElicitResult):
            return _answer(response)
        form = types.ElicitRequestFormParams(
            message=_message(request), requested_schema=_schema(request)
        )
        self.question = types.InputRequiredResult(
            input_requests={key: types.ElicitRequest(params=form)}
        )
        return None

    async def _ask_now(self, request: PermissionRequest) -> PermissionReply | None:
        asking = asyncio.create_task(
            self._context.session.elicit_form(
                _message(request), _schema(request), related_request_id=self._context.request_id
            )
        )
        leaving = asyncio.create_task(self._gone.wait())
        try:
            await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
            # After a disconnect the request stays pending for an answer elsewhere.
            return _answer(asking.result()) if asking.done() else None
        except MCPError as error:
            logger.warning("The client cannot ask: %s", error)
            return None
        finally:
            for task in (asking, leaving):
                task.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)


def _message(request: PermissionRequest) -> str:
    proposal = request.proposal
    where = f" in {one_line(request.notebook)}" if request.notebook else ""
    who = one_line(request.caller.author)
    return f"{who} wants to call {request.tool}{where}{_kernel(proposal)}:\n\n{request.preview}"


def _kernel(proposal: Proposal) -> str:
    if proposal.kernel is None:
        return ""
    return f", kernel {proposal.kernel.id[:8]}" if proposal.kernel.id else ", in a new kernel"


def _schema(request: PermissionRequest) -> Json:
    return {
        "type": "object",
        "properties": {
            "answer": {
                "type": "string",
                "title": "Your answer",
                "enum": list(request.answers),
                "enumNames": [_QUESTIONS[answer] for answer in request.answers],
                "default": "once",
            },
            "message": {
                "type": "string",
                "title": "If you deny it: what to do instead (optional)",
                "maxLength": MAX_MESSAGE,
            },
        },
        "required": ["answer"],
    }


def _answer(result: types.ElicitResult) -> PermissionReply | None:
    """Return the person's answer; None if they closed the form."""
    content = result.content or {}
    said = content.get("message", "")
    message = said[:MAX_MESSAGE] if isinstance(said, str) else ""
    if result.action == "decline":
        return PermissionReply("deny", message)
    if result.action != "accept":
        return None
    answer = content.get("answer", "once")
    if answer not in get_args(Answer) or answer == "deny":
        return PermissionReply("deny", message)
    return PermissionReply(cast("Answer", answer))
