"""Agents, a person and another program in one notebook at once, by random schedules."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from random import SystemRandom

import pytest

from tests.concurrency.benches import BENCHES, SERVED
from tk_ai_extension.testing.concurrency.rounds import run_rounds

STEPS = {"file": 700, "contents": 200, "room": 220, "tab": 200}
"""What costs about two and a half seconds of a processor each; `make soak` plays far more."""
SERVED_STEPS = 80
"""Over HTTP and in real kernels."""
PAIRS = ("file direct", "room stack", "tab direct")
"""Each document with an executor, and each executor with a document; `make soak` plays all."""
SOAK, SERVED_SOAK, PIECE = 100_000, 10_000, 2_500
"""Steps of a soak, of one over HTTP, and of each server: a seed plays again what failed, and no more."""

_log = logging.getLogger(__name__)


def first_seed() -> int:
    """The seed of ``TK_SEED``, to play one again, else a new one, which a failure names."""
    return int(os.environ.get("TK_SEED") or SystemRandom().randrange(1_000_000))


async def play(documents: str, folder: Path, seed: int, steps: int, record: object) -> None:
    """Plays with a seed, as many steps as ``TK_STEPS`` says if it is set."""
    async with (BENCHES | SERVED)[documents](folder) as bench:
        began = time.perf_counter()
        tally = await run_rounds(bench, seed, int(os.environ.get("TK_STEPS") or steps))
    rate = tally.steps / (time.perf_counter() - began)
    assert callable(record)
    record("seed", seed)
    record("steps a second", round(rate))
    _log.warning("%s, seed %d: %.0f steps a second, %s", documents, seed, rate, tally)


@pytest.mark.timeout(600)
@pytest.mark.proves(
    "edit:linearizable",
    "edit:journal-replays",
    "exec:own-source",
    "exec:restart-among-callers",
)
@pytest.mark.parametrize("documents", BENCHES)
async def test_a_serial_order_explains_all_answers(
    documents: str, tmp_path: Path, record_property: object
) -> None:
    await play(documents, tmp_path, first_seed(), STEPS[documents], record_property)


@pytest.mark.timeout(600)
@pytest.mark.proves("edit:linearizable", "edit:journal-replays", "exec:own-source")
@pytest.mark.parametrize("documents", PAIRS)
async def test_a_serial_order_explains_all_answers_over_http(
    documents: str, tmp_path: Path, record_property: object
) -> None:
    await play(documents, tmp_path, first_seed(), SERVED_STEPS, record_property)


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(
    ("documents", "steps"),
    [*((each, SOAK) for each in BENCHES), *((each, SERVED_SOAK) for each in SERVED)],
)
async def test_a_serial_order_explains_all_answers_of_a_soak(
    documents: str, steps: int, tmp_path: Path, record_property: object
) -> None:
    first = first_seed()
    for seed in range(first, first + steps // PIECE):
        folder = tmp_path / str(seed)
        folder.mkdir()
        await play(documents, folder, seed, PIECE, record_property)
