"""Results of `nb approve`: pending requests and answers."""

from __future__ import annotations

import time
from typing import Any, assert_never

from pydantic import BaseModel

from tk_ai_extension.cli.proposals import lines_of
from tk_ai_extension.tools.context import Result
from tk_ai_extension.workspace.permissions import Answer, PermissionRequest


class PendingRequest(BaseModel):
    """A call that needs approval, with its proposal."""

    id: str
    author: str
    interface: str
    tool: str
    effect: str
    notebook: str | None
    proposal: dict[str, Any]
    preview: str
    answers: list[str]
    created: float

    def heading(self) -> str:
        """Return who wants to call what, and since when."""
        where = f" in {self.notebook}" if self.notebook else ""
        ago = max(time.time() - self.created, 0)
        return f"{self.author} ({self.interface}) wants to call {self.tool}{where}, {ago:.0f} s ago"

    def ways(self) -> str:
        """Return the commands that answer the request."""
        lasting = "|".join(answer for answer in self.answers if answer not in ("once", "deny"))
        longer = f" [--for {lasting}]" if lasting else ""
        return f"nb approve {self.id}{longer}\nnb approve {self.id} --deny [MESSAGE]"


class PendingRequests(Result):
    """All pending requests, the oldest first."""

    permissions: list[PendingRequest]

    @classmethod
    def of(cls, requests: list[PermissionRequest]) -> PendingRequests:
        """Create the list of requests."""
        return cls(
            permissions=[PendingRequest.model_validate(request.as_dict()) for request in requests]
        )

    def as_text(self) -> str:
        """Return each request with its preview and the commands that answer it."""
        asked = [
            "\n".join((one.heading(), *(line for line, _ in lines_of(one.proposal)), one.ways()))
            for one in self.permissions
        ]
        return "\n\n".join(asked) or "No requests are waiting."


class Answered(Result):
    """A given answer."""

    id: str
    answer: Answer
    tool: str
    notebook: str | None
    author: str

    def as_text(self) -> str:
        """Return the effect of the answer."""
        what = f"{self.tool} in {self.notebook}" if self.notebook else self.tool
        who, others = self.author, f"{self.tool}, and tools with the same effect,"
        match self.answer:
            case "once":
                return f"{who} may call {what} once."
            case "chat":
                return f"{who} may call {others} in this session."
            case "chat_tool":
                return f"{who} may call {self.tool} in this session."
            case "notebook":
                return f"Agents may call {others} in {self.notebook}."
            case "notebook_tool":
                return f"Agents may call {self.tool} in {self.notebook}."
            case "deny":
                return f"{who} may not call {what}."
            case _:
                assert_never(self.answer)
