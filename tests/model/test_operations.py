"""The outcome of a change that is known late is recorded by all who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tk_ai_extension.model.errors import StateUnavailable
from tk_ai_extension.model.operations import Change, LateOutcome


@pytest.mark.proves("edit:history")
@pytest.mark.parametrize("is_early", [True, False])
async def test_an_outcome_that_one_cannot_record_is_recorded_by_the_others(is_early: bool) -> None:
    """Its caller has an error for it: none from the journal takes its place."""
    outcome, recorded = LateOutcome(), list[object]()

    async def fail(_: Sequence[Change] | None) -> None:
        await asyncio.sleep(0)
        raise StateUnavailable("The journal cannot be written.")

    async def record(changes: Sequence[Change] | None) -> None:
        recorded.append(changes)

    if is_early:
        await outcome.settle(None)
    await outcome.record(fail)
    await outcome.record(record)
    if not is_early:
        assert recorded == []
        await outcome.settle(None)
    assert recorded == [None]
