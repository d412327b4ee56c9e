"""Approvals, and checks that a call still does what the person approved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tk_ai_extension.model.cells import source_hash
from tk_ai_extension.model.errors import ApprovalOutdated, Conflict
from tk_ai_extension.model.proposals import Proposal


@dataclass(frozen=True)
class Approval:
    """A person's approval of one call, bound to its notebook, kernel and sources.

    Attributes:
        proposal: The whole proposal that the person approved.
    """

    proposal: Proposal

    @cached_property
    def _sources(self) -> frozenset[str]:
        return frozenset(source_hash(step.code) for step in self.proposal.steps if step.runs)

    def check_kernel(self, kernel_id: str, *, started: bool) -> None:
        """Check that a call will use the approved kernel, before it changes anything.

        Args:
            kernel_id: The kernel that the call will use.
            started: Whether the kernel was started for this call.

        Raises:
            ApprovalOutdated: The person approved another kernel.
        """
        kernel = self.proposal.kernel
        shown = None if kernel is None else kernel.id
        if shown != (None if started else kernel_id):
            raise ApprovalOutdated("The kernel was replaced before the user answered.")

    def check_run(self, path: str | None, sources: Iterable[str]) -> None:
        """Check that only the approved code will run, in the approved notebook.

        Raises:
            Conflict: The code or the notebook is another.
        """
        if path != self.proposal.notebook or not self._sources.issuperset(
            map(source_hash, sources)
        ):
            raise Conflict(
                "The code changed after the user approved it. It did not run.",
                hint="Read it, then call again.",
            )
