"""The tool that verifies a notebook."""

from __future__ import annotations

from tk_ai_extension.tools.parameters import Notebook, Wait
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.tools.verification import (
    CellTimeout,
    VerificationPlan,
    plan_verification,
    verify,
)


@tool("EXECUTE", carry_out=verify, command="verify notebook")
async def verify_notebook(
    context: ToolContext,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: CellTimeout = None,
) -> VerificationPlan:
    """Run all code cells in a fresh kernel. Returns cells that fail or whose outputs differ from the stored
    ones. The notebook and its kernel do not change.
    """
    return await plan_verification(context, notebook, wait=wait, timeout=timeout)
