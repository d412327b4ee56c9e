"""Proposals as tools make them, for tests of approvals."""

from __future__ import annotations

from tk_ai_extension.model.proposals import Proposal, ProposalKernel, ProposalStep, marked


def running(code: str, notebook: str | None = "n.ipynb", kernel: str | None = None) -> Proposal:
    """Code that would run in a notebook's kernel."""
    step = ProposalStep("code", "Run code", runs=True, lines=marked(" ", code))
    return Proposal("Run code", (step,), notebook, ProposalKernel(kernel))
