"""What looks after the kernel of a run that has one for itself."""

from __future__ import annotations

from typing import Protocol

from tk_ai_extension.workspace.running import Run, Step


class Keeper(Protocol):
    """Keeps the kernel of one run; `Executions` calls it as the run goes on."""

    async def before(self, run: Run, step: Step) -> None:
        """Called in the step's turn before its code is sent; may give the run another kernel.

        Raises:
            ToolError: the step does not run, and the run is over.
        """
        ...

    async def after(self, run: Run, step: Step) -> bool:
        """Called in the step's turn when it has ended; whether its code is run once more."""
        ...

    async def stuck(self, run: Run) -> None:
        """Called where a run that was cancelled goes on; has to end it."""
        ...

    async def ended(self, run: Run) -> None:
        """Called once, when the run is over, however it ended."""
        ...
