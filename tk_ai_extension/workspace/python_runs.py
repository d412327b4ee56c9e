"""How the code of a `python` call is run: its surroundings set, its kernel replaced if it crashes."""

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
from tk_ai_extension.model.executions import Execution, ExecutionRequest
from tk_ai_extension.workspace.bridge import Answer
from tk_ai_extension.workspace.python_sessions import TOO_OFTEN, PythonSession, PythonSessions
from tk_ai_extension.workspace.runs import Run, Step

logger = logging.getLogger(__name__)

IGNORED = "interrupt_ignored"
"""What an execution says that was interrupted and still runs."""


@dataclass(eq=False)
class PythonStep(Step):
    """One cell of a `python` call."""

    reset: bool = False
    """Whether the session gets a new kernel before it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What code finds around it.

    Attributes:
        caller: For whom it runs.
        env: The variables that the call sets for it.
        artifacts: The folder of the user's artifacts.
        answer: Calls the tools that the caller has.
    """

    caller: Caller
    env: Mapping[str, str]
    artifacts: Path
    answer: Answer


class SessionKeeper:
    """Keeps a session's kernel for one run: `workspace.runs.Keeper`."""

    def __init__(
        self,
        kernels: Kernels,
        sessions: PythonSessions,
        session: PythonSession,
        surroundings: Surroundings,
    ) -> None:
        self._kernels = kernels
        self._sessions = sessions
        self._session = session
        self._surroundings = surroundings

    async def before(self, run: Run, step: Step) -> None:
        """Has a kernel that lives, reset where the cell asks for it, and sets the surroundings."""
        session = self._session
        if isinstance(step, PythonStep) and step.reset:
            step.reset = False
            await self._sessions.reset(session)
        else:
            await self._sessions.revive(session)
        run.kernel_id = session.kernel_id
        await self._enter()

    async def after(self, run: Run, step: Step) -> bool:
        """Whether the step's code is run once more: it is where the kernel crashed in it."""
        session = self._session
        ended = _said_as_known(step)
        if ended is None:
            return False
        if run.cancelled:
            if ended.status in ("kernel_died", "kernel_restarted"):
                message = "It ignored the interrupt: its kernel was killed, its variables are gone."
                _end(step, replace(ended, status="interrupted", message=message))
            return False
        if ended.status == "timed_out" and IGNORED in ended.message:
            await self._sessions.replace_stuck(session)
            message = (
                f"{ended.message.partition(IGNORED)[0]}The code ignored the interrupt: "
                "its kernel was killed and replaced."
            )
            _end(step, replace(ended, message=message))
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

    async def stuck(self, run: Run) -> None:
        """The run was cancelled and goes on: its kernel is killed."""
        logger.warning("Kernel %s ignores an interrupt: it is killed", run.kernel_id)
        await self._sessions.replace_stuck(self._session)

    async def ended(self, run: Run) -> None:  # noqa: ARG002 - the protocol's
        """The run is over."""
        await self.let_go()

    async def let_go(self) -> None:
        """Leaves the kernel to the session's next run."""
        self._sessions.release(self._session)

    async def _enter(self) -> None:
        """Sets the folder, variables and path of what runs next."""
        await self._evaluate(_entering({**self._surroundings.env, **self._variables()}))

    def _variables(self) -> dict[str, str]:
        session, bridge = self._session, self._sessions.bridge
        if session.apart:  # all that is outside; and what the tools do, they do outside
            return {}
        about = {"session": session.id, "kernel_id": session.kernel_id, "folder": session.folder}
        state = bridge.describe(session.id, about)
        around = self._surroundings
        artifacts = str(around.artifacts)
        return {
            "PI_SESSION_FILE": str(state),
            "ARTIFACTS": artifacts,
            "PI_ARTIFACTS_DIR": artifacts,
            "PI_TOOL_BRIDGE_URL": bridge.url,
            "PI_TOOL_BRIDGE_TOKEN": bridge.token(
                around.caller, session.kernel_id, session.id, around.answer
            ),
            "PI_TOOL_BRIDGE_SESSION": session.id,
        }

    async def _evaluate(self, expression: str) -> None:
        """Evaluates an expression in the kernel, as no code: that would get into logs."""
        kernel_id = self._session.kernel_id
        request = ExecutionRequest("", silent=True, user_expressions={"_": expression})
        async with aclosing(
            self._kernels.executor(kernel_id).execute(kernel_id, request)
        ) as events:
            async for event in events:
                if isinstance(event, Execution):
                    _check(event)


class SingleKeeper(SessionKeeper):
    """Keeps a kernel for one run alone: it is shut down after it."""

    async def after(self, run: Run, step: Step) -> bool:
        """A crash ends the run: there is no session to go on in."""
        ended = _said_as_known(step)
        if ended is not None and run.cancelled:
            _end(step, replace(ended, status="interrupted"))
        return False

    async def let_go(self) -> None:
        """Shuts the kernel down, whatever became of the run."""
        await self._sessions.discard(self._session)


def _said_as_known(step: Step) -> Execution | None:
    """How the step ended, a timeout in the words that programs of `python` look for."""
    ended = step.execution
    if ended is not None and ended.status == "timed_out":
        ended = replace(ended, message=ended.message.replace("Timed out", "Command timed out", 1))
        step.execution = ended
    return ended


def _check(execution: Execution) -> None:
    """Raises where the surroundings could not be set."""
    answer = execution.user_expressions.get("_", {})
    if execution.status != "ok" or answer.get("status") != "ok":
        said = answer.get("evalue") or execution.message or execution.status
        raise ToolError(f"The kernel's surroundings could not be set: {said}.")


def _end(step: Step, execution: Execution) -> None:
    step.execution = execution
    step.status = execution.status


@cache
def _source() -> str:
    """The text of the module `tool_bridge`."""
    return files("tk_ai_extension.workspace").joinpath("bridge_client.py").read_text("utf-8")


def _entering(variables: Mapping[str, str]) -> str:
    """One expression that sets the surroundings, and leaves no name behind.

    The module is made where it is not there: in a new kernel, or one that somebody has restarted.
    """
    return (
        "(lambda sys, source, variables: ('tool_bridge' in sys.modules or "
        "(lambda module: (exec(source, module.__dict__), "
        "setattr(module, 'here', module.Surroundings()), "
        "sys.modules.__setitem__('tool_bridge', module)))(type(sys)('tool_bridge')), "
        "sys.modules['tool_bridge'].here.enter(variables)) and None)"
        f"(__import__('sys'), {_source()!r}, {json.dumps(variables)!r})"
    )
