"""REST routes of permission requests and standing approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tk_ai_extension.server.handlers.base_handler import TkAIHandler, username
from tk_ai_extension.server.handlers.openapi_operations import operation

if TYPE_CHECKING:
    from tk_ai_extension.server.rest_models import (
        AnsweredPermission,
        PermissionAnswer,
        PermissionInfo,
        PermissionList,
        StandingApprovalList,
    )


class PermissionsHandler(TkAIHandler):
    """Pending permission requests."""

    @operation("read", "list_permissions")
    async def get(self) -> PermissionList:
        """List pending permission requests with their proposals, oldest first."""
        await self.services.ready()
        policy, user = self.services.workspace.policy, username(self)
        pending = [request.as_dict() for request in policy.pending(user)]
        return {"permissions": cast("list[PermissionInfo]", pending)}


class PermissionHandler(TkAIHandler):
    """One request."""

    @operation("execute", "answer_permission")
    async def post(self, permission_id: str, body: PermissionAnswer) -> AnsweredPermission:
        """Answer a permission request; with ``deny``, ``message`` tells the caller what to do instead."""
        policy = self.services.workspace.policy
        policy.answer(username(self), permission_id, body.answer, body.message)
        return {"id": permission_id, "answer": body.answer}


class StandingApprovalsHandler(TkAIHandler):
    """The standing approvals."""

    @operation("read", "list_approvals")
    async def get(self) -> StandingApprovalList:
        """List the user's standing approvals: for a chat or an agent's session, or for a notebook."""
        await self.services.ready()
        return {"approvals": self.services.workspace.policy.standing.list(username(self))}


class StandingApprovalHandler(TkAIHandler):
    """One standing approval."""

    @operation("execute", "remove_approval")
    async def delete(self, approval_id: str) -> StandingApprovalList:
        """Remove a standing approval: such calls need approval again."""
        await self.services.ready()
        standing, user = self.services.workspace.policy.standing, username(self)
        standing.remove(user, approval_id)
        return {"approvals": standing.list(user)}
