"""Tools that inspect a Python kernel's variables without running code of their classes."""

from __future__ import annotations

import ast
import asyncio
import json
from contextlib import aclosing
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.encoding import loads
from tk_ai_extension.model.errors import (
    InvalidArguments,
    KernelBusy,
    KernelDied,
    KernelUnsupported,
    NotFound,
    ToolError,
)
from tk_ai_extension.model.executions import Execution, ExecutionRequest, Started
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_text import sanitise
from tk_ai_extension.tools.parameters import Notebook
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.workspace.workspace import Workspace

ANSWER_WITHIN = 5.0
"""Seconds within which an idle kernel must start to answer; then the same time to finish."""


async def query_kernel(
    context: ToolContext,
    notebook: str | None,
    call: Json,
    *,
    tool: str,
) -> Any:
    """Run `kernel_variables` in the notebook's kernel and return its answer.

    Args:
        context: The context of the call.
        notebook: The notebook; None for the current one.
        call: The query, as JSON values.
        tool: The tool's name, for error messages.

    Returns:
        The answer, as JSON values.

    Raises:
        KernelNotFound: The notebook has no running kernel.
        KernelUnsupported: The kernel is not a Python kernel.
        KernelBusy: The kernel is running code, or did not answer: it was interrupted, by this query's
            timeout or a caller, or the connection was lost.
        KernelDied: The kernel died or was restarted.
    """
    kernel_id = await context.workspace.kernel_id(context.caller, notebook, None, tool=tool)
    source = files("tk_ai_extension.tools").joinpath("kernel_variables.py").read_text("utf-8")
    asked = json.dumps(call)
    # A user expression adds no names to the user's namespace and no entry to the history.
    expression = f"(lambda ns: (exec({source!r}, ns), ns['answer'](globals(), {asked!r}))[1])({{}})"
    request = ExecutionRequest(
        "", silent=True, timeout=ANSWER_WITHIN, user_expressions={"answer": expression}
    )

    async with context.workspace.queries.turn(kernel_id):
        await _check_idle(context.workspace, kernel_id, tool)
        # Even if the caller is cancelled: the kernel would still be answering.
        execution = await run_to_completion(_run(context, kernel_id, request))
    if execution.status == "timed_out":
        raise KernelBusy(
            f"The kernel did not answer: {execution.message}",
            hint="An object may be slow to describe. Inspect it with execute_ipython.",
        )
    if execution.status in {"kernel_died", "kernel_restarted"}:
        raise KernelDied(f"The kernel could not answer: {execution.message or execution.status}.")
    if execution.status != "ok":
        raise KernelBusy(
            f"The kernel did not answer: {execution.message or execution.status}",
            hint="Call again.",
        )
    answer = execution.user_expressions.get("answer", {})
    if answer.get("status") != "ok":
        raise ToolError(
            f"The kernel could not answer: {answer.get('ename')}: {answer.get('evalue')}"
        )
    return loads(ast.literal_eval(answer["data"]["text/plain"]))


async def _check_idle(workspace: Workspace, kernel_id: str, tool: str) -> None:
    """Check that a kernel can answer a query at once.

    Raises:
        KernelNotFound, KernelUnsupported, KernelBusy.
    """
    info = await workspace.kernels.info(kernel_id)
    if info.language != "python":
        raise KernelUnsupported(
            f"{tool} needs a Python kernel; this one runs {info.language or 'another language'}.",
            hint="This tool needs a Python kernel. For other languages, use execute_ipython.",
        )
    if info.state == "busy" or workspace.executions.active(kernel_id=kernel_id):
        raise KernelBusy("The kernel is running code.")


async def _run(context: ToolContext, kernel_id: str, request: ExecutionRequest) -> Execution:
    now = asyncio.get_running_loop().time
    async with aclosing(context.workspace.kernels.execute(kernel_id, request)) as events:
        try:
            async with asyncio.timeout(ANSWER_WITHIN) as beginning:
                async for event in events:
                    if isinstance(event, Started):
                        # The request's timeout applies now, unless the kernel drops the request
                        # and it waits again.
                        beginning.reschedule(now() + 3 * ANSWER_WITHIN)
                    if isinstance(event, Execution):
                        return event
        except TimeoutError:
            message = f"The kernel did not answer within {ANSWER_WITHIN:.0f} s."
            raise KernelBusy(message) from None
    raise ToolError("The executor ended without a result.")


class Variable(BaseModel):
    """A variable."""

    name: str
    type: str
    shape: str | None = None
    size: int | None = None
    """Size in bytes, if it is cheap to determine."""
    value: str | None = None
    """The value of numbers, short strings and similar types."""


class VariableList(Result):
    """A kernel's variables."""

    variables: list[Variable]
    more: int = 0

    def as_text(self) -> str:
        lines = [
            f"{v.name}: {v.type}"
            + (f" {v.shape}" if v.shape else "")
            + (f" = {v.value}" if v.value is not None else "")
            + (f", {v.size:,} B" if v.size is not None and v.value is None else "")
            for v in self.variables
        ]
        if self.more:
            lines.append(f"[{self.more} more: use a pattern]")
        return "\n".join(lines) or "No variables."


@tool("READ", command="vars pattern")
async def list_variables(
    context: ToolContext, notebook: Notebook = None, pattern: str | None = None
) -> VariableList:
    """List the kernel's variables: name, type, shape, size. `pattern`: such as `df*`. Python only."""
    call = {"query": "list", "pattern": pattern}
    found = await query_kernel(context, notebook, call, tool="list_variables")
    return VariableList(
        variables=[Variable(**entry) for entry in found["variables"]], more=found["more"]
    )


class VariableDetail(Result):
    """The details of a variable."""

    name: str
    type: str
    detail: str

    def as_text(self) -> str:
        return f"{self.name}: {self.type}\n{self.detail}"


@tool("READ", command="var name")
async def inspect_variable(
    context: ToolContext, name: str, notebook: Notebook = None
) -> VariableDetail:
    """Show details of a variable: a table's head and dtypes, a function's signature and docstring."""
    _check_name(name)
    call = {"query": "inspect", "name": name}
    found = await query_kernel(context, notebook, call, tool="inspect_variable")
    if found is None:
        raise NotFound(f"No variable `{name}`.", hint="Call list_variables to see the variables.")
    return VariableDetail(name=name, type=found["type"], detail=sanitise(found["detail"]))


def _check_name(name: str) -> None:
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidArguments(
            f"`{name}` is not a variable name.",
            hint="Use a variable's name, with dots for attributes.",
        )
