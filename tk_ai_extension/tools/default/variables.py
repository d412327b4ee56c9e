"""Tools that inspect a Python kernel's variables.

An idle kernel runs no code of their classes. One that is running code is asked through its debugger, as
JupyterLab's debugger panel does; that calls `__repr__`.
"""

from __future__ import annotations

import ast
import asyncio
import json
from contextlib import aclosing
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

from tk_ai_extension.model.background_tasks import run_to_completion
from tk_ai_extension.model.errors import (
    InvalidArguments,
    KernelBusy,
    KernelDied,
    KernelUnsupported,
    NotFound,
    ToolError,
)
from tk_ai_extension.model.executions import Execution, ExecutionRequest, ExecutionStarted
from tk_ai_extension.model.json_values import Json, loads
from tk_ai_extension.model.output_text import cut, sanitise
from tk_ai_extension.tools.parameter_types import Notebook
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.tools.variables_in_kernel import MAX_DETAIL, MAX_VALUE, MAX_VARIABLES
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
    """Run `variables_in_kernel` in the notebook's kernel, or ask its debugger, and return the answer.

    Args:
        context: The context of the call.
        notebook: The notebook; None for the current one.
        call: The query, as JSON values.
        tool: The tool's name, for error messages.

    Returns:
        The answer, as JSON values; with ``running`` if it is the debugger's.

    Raises:
        KernelNotFound: The notebook has no running kernel.
        KernelUnsupported: The kernel is not a Python kernel.
        KernelBusy: The kernel is running code and its debugger does not know, or it did not answer: it was
            interrupted, by this query's timeout or a caller, or the connection was lost.
        KernelDied: The kernel died or was restarted.
    """
    kernel_id = await context.workspace.kernel_id(context.caller, notebook, None, tool=tool)
    async with context.workspace.queries.turn(kernel_id):
        if await _is_running(context.workspace, kernel_id, tool):
            return await _ask_debugger(context.workspace, kernel_id, call)
        # Even if the caller is cancelled: the kernel would still be answering.
        execution = await run_to_completion(_run(context, kernel_id, _request(call)))
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


def _request(call: Json) -> ExecutionRequest:
    source = files("tk_ai_extension.tools").joinpath("variables_in_kernel.py").read_text("utf-8")
    asked = json.dumps(call)
    # A user expression adds no names to the user's namespace and no entry to the history.
    expression = f"(lambda ns: (exec({source!r}, ns), ns['answer'](globals(), {asked!r}))[1])({{}})"
    return ExecutionRequest(
        "", silent=True, timeout=ANSWER_WITHIN, user_expressions={"answer": expression}
    )


async def _is_running(workspace: Workspace, kernel_id: str, tool: str) -> bool:
    """Return whether a Python kernel is running code. Raises KernelNotFound, KernelUnsupported."""
    info = await workspace.kernels.info(kernel_id)
    if info.language != "python":
        raise KernelUnsupported(
            f"{tool} needs a Python kernel; this one runs {info.language or 'another language'}.",
            hint="This tool needs a Python kernel. For other languages, use execute_ipython.",
        )
    return info.state == "busy" or bool(workspace.executions.active(kernel_id=kernel_id))


async def _ask_debugger(workspace: Workspace, kernel_id: str, call: Json) -> Any:
    """Return the answer to a query from a kernel's debugger. Raises KernelBusy, KernelDied."""
    listed = await workspace.kernels.debugger_variables(kernel_id)
    if listed is None:
        raise KernelBusy("The kernel is running code, and has no debugger.")
    # Its other entries are groups, such as "special variables".
    variables: dict[str, dict[str, str]] = {
        each["name"]: each for each in listed if each["name"].isidentifier()
    }
    if call["query"] == "list":
        pattern = call["pattern"] or "*"
        found = [
            {
                "name": name,
                "type": each["type"],
                "value": cut(" ".join(each["value"].split()), MAX_VALUE),
            }
            for name, each in variables.items()
            if fnmatchcase(name, pattern) and each["type"] != "module"
        ]
        more = max(0, len(found) - MAX_VARIABLES)
        return {"variables": found[:MAX_VARIABLES], "more": more, "running": True}
    each = variables.get(call["name"])
    if each is None:
        raise KernelBusy(
            f"The kernel is running code, and its debugger lists no variable `{call['name']}` now."
        )
    return {"type": each["type"], "detail": cut(each["value"], MAX_DETAIL), "running": True}


async def _run(context: ToolContext, kernel_id: str, request: ExecutionRequest) -> Execution:
    now = asyncio.get_running_loop().time
    async with aclosing(context.workspace.kernels.execute(kernel_id, request)) as events:
        try:
            async with asyncio.timeout(ANSWER_WITHIN) as beginning:
                async for event in events:
                    if isinstance(event, ExecutionStarted):
                        # The request's timeout applies now, unless the kernel drops the request
                        # and it waits again.
                        beginning.reschedule(now() + 3 * ANSWER_WITHIN)
                    if isinstance(event, Execution):
                        return event
        except TimeoutError:
            message = f"The kernel did not answer within {ANSWER_WITHIN:.0f} s."
            raise KernelBusy(message) from None
    raise ToolError("The executor ended without a result.")


RUNNING = "[The kernel is running code: values as they are now]"


class Variable(BaseModel):
    """A variable."""

    name: str
    type: str
    shape: str | None = None
    size: int | None = None
    """Size in bytes, if it is cheap to determine."""
    value: str | None = None
    """The value of numbers, short strings and similar types; of all types while code runs, cut."""


class VariableList(Result):
    """A kernel's variables."""

    variables: list[Variable]
    more: int = 0
    running: bool = False
    """Whether the kernel is running code, which may change them."""

    def as_text(self) -> str:
        lines = [RUNNING] * self.running
        lines += [
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
    """List the kernel's variables, also of a busy one: name, type, shape. `pattern`: `df*`. Python only."""
    call = {"query": "list", "pattern": pattern}
    found = await query_kernel(context, notebook, call, tool="list_variables")
    return VariableList(
        variables=[Variable(**entry) for entry in found["variables"]],
        more=found["more"],
        running="running" in found,
    )


class VariableDetail(Result):
    """The details of a variable."""

    name: str
    type: str
    detail: str
    running: bool = False
    """Whether the kernel is running code, which may change it."""

    def as_text(self) -> str:
        return "\n".join([*[RUNNING] * self.running, f"{self.name}: {self.type}", self.detail])


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
    return VariableDetail(
        name=name,
        type=found["type"],
        detail=sanitise(found["detail"]),
        running="running" in found,
    )


def _check_name(name: str) -> None:
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidArguments(
            f"`{name}` is not a variable name.",
            hint="Use a variable's name, with dots for attributes.",
        )
