"""Leave to call a tool: which notebook a call concerns, what a person is shown, what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from tk_ai_extension.model.errors import PermissionDenied, PermissionRequired
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.workspace.permissions import Decision, Effect


async def concerned_notebook(context: ToolContext, arguments: BaseModel) -> str | None:
    """The path of the one notebook that a call concerns; None where it is none, or several.

    It is the one whose execution is named, or whose kernel, else the one that `notebook` means. An
    approval for a notebook holds for calls that concern it alone, however they name it.

    Raises:
        ExecutionNotFound, PathRefused, NotANotebook.
    """
    workspace, caller = context.workspace, context.caller
    execution_id: str | None = getattr(arguments, "execution_id", None)
    if execution_id is not None:
        return workspace.executions.get(caller, execution_id).path
    notebook: str | None = getattr(arguments, "notebook", None)
    kernel_id: str | None = getattr(arguments, "kernel_id", None)
    if kernel_id is None:
        return context.current_path(notebook)
    paths = set(await workspace.sessions.paths_of(kernel_id))
    paths |= {managed.path for managed in workspace.notebooks.with_kernel(kernel_id)}
    if notebook is not None and (path := context.current_path(notebook)) is not None:
        paths.add(path)
    return paths.pop() if len(paths) == 1 else None


class Leave:
    """Whether one call may be made, as the mode and the people say.

    Attributes:
        needed: Whether a person has to be asked about just this call.
    """

    def __init__(
        self,
        context: ToolContext,
        tool: str,
        effect: Effect,
        arguments: BaseModel,
        path: str | None,
    ) -> None:
        self._context = context
        self._tool = tool
        self._effect: Effect = effect
        self._arguments = arguments.model_dump(mode="json", exclude_defaults=True)
        self._path = path
        decision = context.workspace.policy.decision(context.caller, effect, path)
        self.needed = decision is Decision.ASK
        self._refused = decision is Decision.REFUSE

    async def refuse(self) -> None:
        """Ends a call that the mode refuses.

        Raises:
            PermissionDenied.
        """
        if self._refused:
            await self.ask("")

    async def ask(self, preview: str | None = None) -> None:
        """Asks for leave to do what the preview says; the arguments, where the tool has none.

        Raises:
            PermissionDenied, PermissionRequired, LimitReached.
        """
        workspace, caller = self._context.workspace, self._context.caller
        try:
            await workspace.policy.check(
                caller,
                self._tool,
                self._effect,
                arguments=self._arguments,
                notebook=self._path,
                preview=_as_lines(self._arguments) if preview is None else preview,
                approver=self._context.approver,
            )
        except (PermissionDenied, PermissionRequired) as refusal:
            await workspace.journal.record(
                caller,
                self._path or "",
                self._tool,
                f"refused: {refusal.message}",
                kind="refused",
                state="failed",
                note=refusal.code,
            )
            raise


def _as_lines(arguments: Mapping[str, Any]) -> str:
    """The arguments as lines, code and text whole."""
    return "\n".join(
        f"{name}:\n{value}" if isinstance(value, str) and "\n" in value else f"{name}: {value}"
        for name, value in arguments.items()
    )
