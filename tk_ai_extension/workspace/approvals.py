"""What a person approved, and whether it is still what is about to be done."""

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
        proposal: What the person was shown, whole.
    """

    proposal: Proposal

    @cached_property
    def _sources(self) -> frozenset[str]:
        return frozenset(source_hash(step.code) for step in self.proposal.steps if step.runs)

    def check_kernel(self, kernel_id: str, *, started: bool) -> None:
        """Check that a call is about to use the approved kernel, before anything is done.

        Args:
            kernel_id: The kernel that it would use.
            started: Whether that was started for this call.

        Raises:
            ApprovalOutdated: the person was shown another one.
        """
        kernel = self.proposal.kernel
        shown = None if kernel is None else kernel.id
        if shown != (None if started else kernel_id):
            raise ApprovalOutdated("The kernel was replaced while the user was asked.")

    def check_run(self, path: str | None, sources: Iterable[str]) -> None:
        """Check that just the approved code is about to run, in the approved notebook.

        Raises:
            Conflict: it is not.
        """
        if path != self.proposal.notebook or not self._sources.issuperset(
            map(source_hash, sources)
        ):
            raise Conflict(
                "The code changed after the user approved it; it did not run.",
                hint="Read it, and call again.",
            )
