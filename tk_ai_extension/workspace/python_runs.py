"""Run the code of a `python` call: set up its environment, and replace its kernel if it crashes."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import KernelDied, ToolError
from tk_ai_extension.model.executions import INTERRUPT_IGNORED, Execution, ExecutionRequest
from tk_ai_extension.workspace.python_sessions import TOO_OFTEN, PythonSession, PythonSessions
from tk_ai_extension.workspace.runs import Run, Step
from tk_ai_extension.workspace.tool_bridge import Answer

logger = logging.getLogger(__name__)

KILLED = "Its kernel was killed and replaced."
RUNS_ON = "Its kernel is a notebook's, too, and runs on."


@dataclass(eq=False)
class PythonStep(Step):
    """One cell of a `python` call."""

    reset: bool = False
    """Whether to give the session a new kernel before this cell."""


@dataclass(frozen=True, slots=True)
class PythonCallContext:
    """The caller and environment of a `python` call.

    Attributes:
        caller: The caller that the code runs for.
        env: Environment variables that the call sets.
        artifacts: The folder of the user's artifacts.
        answer: Calls a tool with the caller's permissions.
    """

    caller: Caller
    env: Mapping[str, str]
    artifacts: Path
    answer: Answer


class SessionSupervisor:
    """Supervises a session's kernel during one run (`workspace.runs.RunSupervisor`)."""

    def __init__(
        self,
        kernels: Kernels,
        sessions: PythonSessions,
        session: PythonSession,
        call: PythonCallContext,
    ) -> None:
        self._kernels = kernels
        self._sessions = sessions
        self._session = session
        self._call = call
        self._has_replaced = False

    async def before_step(self, run: Run, step: Step) -> None:
        """Ensure that the session has a live kernel, reset it on request, and set up its environment.

        All of it within the turn of the session's kernel, which is assigned to the run first.
        """
        session = self._session
        if run.kernel_id == session.kernel_id:
            if isinstance(step, PythonStep) and step.reset:
                step.reset = False
                await self._sessions.reset(session)
            else:
                await self._sessions.revive(session)
        if run.kernel_id == session.kernel_id:
            await self._enter()
        run.kernel_id = session.kernel_id

    async def after_step(self, run: Run, step: Step) -> bool:
        """Return whether to run the step again, which is so after the kernel crashed in it."""
        session = self._session
        ended = _with_known_message(step)
        if ended is None:
            return False
        if run.cancelled:
            if ended.status in ("kernel_died", "kernel_restarted"):
                message = (
                    "The code ignored the interrupt. Its kernel was killed; its variables are lost."
                )
                _end(step, replace(ended, status="interrupted", message=message))
            return False
        if ended.status == "timed_out" and INTERRUPT_IGNORED in ended.message:
            is_killed = await self._sessions.replace_stuck(session)
            known = ended.message.partition(INTERRUPT_IGNORED)[0]
            outcome = KILLED if is_killed else RUNS_ON
            _end(step, replace(ended, message=f"{known}The code ignored the interrupt. {outcome}"))
        if ended.status != "kernel_died" or session.stopped:
            return False
        session.died = True
        try:
            await self._sessions.revive(session)
        except KernelDied:
            _end(step, replace(ended, message=f"{ended.message} {TOO_OFTEN}."))
            return False
        logger.warning("Kernel %s crashed in a session: its code runs once more", run.kernel_id)
        return True

    async def on_interrupt_ignored(self, run: Run) -> None:
        """Kill the kernel of a cancelled run that ignored the interrupt, or leave it to its notebook."""
        if self._has_replaced:
            return  # A second restart would end the code of the next run.
        self._has_replaced = True
        logger.warning("Kernel %s ignored an interrupt and is replaced", run.kernel_id)
        try:
            is_killed = await self._sessions.replace_stuck(self._session)
        except BaseException:
            self._has_replaced = False
            raise
        if not is_killed and run.task is not None:
            run.current.warning = f"The code ignored the interrupt. {RUNS_ON}"
            run.task.cancel()

    async def on_end(self, run: Run) -> None:  # noqa: ARG002 - the protocol's
        """Release the session."""
        await self.release()

    async def release(self) -> None:
        """Release the session's kernel for its next run."""
        self._sessions.release(self._session)

    async def _enter(self) -> None:
        """Set the working directory, variables and `sys.path` for the next code."""
        await self._evaluate(_entering({**self._call.env, **self._variables()}))

    def _variables(self) -> dict[str, str]:
        session, bridge = self._session, self._sessions.bridge
        if session.is_isolated:  # The paths and the bridge are unreachable from there.
            return {}
        about = {"session": session.id, "kernel_id": session.kernel_id, "folder": session.folder}
        state = bridge.describe(session.id, about)
        call = self._call
        artifacts = str(call.artifacts)
        return {
            "PI_SESSION_FILE": str(state),
            "ARTIFACTS": artifacts,
            "PI_ARTIFACTS_DIR": artifacts,
            "PI_TOOL_BRIDGE_URL": bridge.url,
            "PI_TOOL_BRIDGE_TOKEN": bridge.token(
                call.caller, session.kernel_id, session.id, call.answer
            ),
            "PI_TOOL_BRIDGE_SESSION": session.id,
        }

    async def _evaluate(self, expression: str) -> None:
        """Evaluate a user expression in the kernel. Code would appear in the kernel's logs."""
        kernel_id = self._session.kernel_id
        request = ExecutionRequest("", silent=True, user_expressions={"_": expression})
        async with aclosing(
            self._kernels.executor(kernel_id).execute(kernel_id, request)
        ) as events:
            async for event in events:
                if isinstance(event, Execution):
                    _check(event)


class SingleRunSupervisor(SessionSupervisor):
    """Supervises a kernel that is started for one run and shut down after it."""

    async def after_step(self, run: Run, step: Step) -> bool:
        """Return False: a crash ends the run, because there is no session to continue in."""
        ended = _with_known_message(step)
        if ended is not None and run.cancelled:
            _end(step, replace(ended, status="interrupted"))
        return False

    async def release(self) -> None:
        """Shut the kernel down."""
        await self._sessions.discard(self._session)


def _with_known_message(step: Step) -> Execution | None:
    """Return how the step ended; a timeout has the message that clients of `python` match."""
    ended = step.execution
    if ended is not None and ended.status == "timed_out":
        ended = replace(ended, message=ended.message.replace("Timed out", "Command timed out", 1))
        step.execution = ended
    return ended


def _check(execution: Execution) -> None:
    """Raise an error if the environment could not be set up."""
    answer = execution.user_expressions.get("_", {})
    if execution.status != "ok" or answer.get("status") != "ok":
        reason = answer.get("evalue") or execution.message or execution.status
        raise ToolError(f"The kernel's environment could not be set up: {reason}.")


def _end(step: Step, execution: Execution) -> None:
    step.execution = execution
    step.status = execution.status


@cache
def _source() -> str:
    """Return the source of the module `tool_bridge`."""
    return files("tk_ai_extension.workspace").joinpath("tool_bridge_client.py").read_text("utf-8")


def _entering(variables: Mapping[str, str]) -> str:
    """Return one expression that sets up the environment without adding names to the namespace.

    It creates the module `tool_bridge` if the kernel is new or was restarted.
    """
    return (
        "(lambda sys, source, variables: ('tool_bridge' in sys.modules or "
        "(lambda module: (exec(source, module.__dict__), "
        "setattr(module, 'here', module.CallEnvironment()), "
        "sys.modules.__setitem__('tool_bridge', module)))(type(sys)('tool_bridge')), "
        "sys.modules['tool_bridge'].here.enter(variables)) and None)"
        f"(__import__('sys'), {_source()!r}, {json.dumps(variables)!r})"
    )
