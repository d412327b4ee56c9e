"""A cell that prints 10 MB in 10,000 flushed lines, beside a client that only drains it."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncGenerator

from contents import LINE, LINES, cell_id, cells_of, printed_lines, printing, write
from family import Options, main
from harness import BenchmarkHarness, start_harness
from kept import KeptClient, kernel_alone
from measure import Heartbeat, Row, at_most, interleaved, skipped, timed

ROUNDS = 3
STALL = 200
"""Milliseconds for which the loop may be held."""
STRETCH = 50
"""Milliseconds of its own work after which the loop has to look at what else there is."""


async def measure(options: Options) -> AsyncGenerator[Row]:
    """Both executors, into a file and into a live room."""
    for executor, live, times in (
        ("direct", False, 1.5),
        ("stack", False, 2.5),
        ("direct", True, 2.5),
        ("stack", True, 2.5),
    ):
        work = f"10 MB printed, {executor}, into a {'live room' if live else 'file'}"
        if live and importlib.util.find_spec("jupyter_server_ydoc") is None:
            yield skipped(work, "jupyter-collaboration is not installed")
            continue
        root = options.new_folder(f"{executor}-{'room' if live else 'file'}")
        async with start_harness(root, executor, live=live) as here, kernel_alone() as client:
            for row in await flood(here, client, work, times, options.count(ROUNDS), live=live):
                yield row


async def flood(
    here: BenchmarkHarness, client: KeptClient, work: str, times: float, rounds: int, *, live: bool
) -> list[Row]:
    """One combination, in turns with the floor; each counts its lines."""
    path = write(here.root / "flood.ipynb", [printing()])
    document = await here.workspace.store.open(path.name)
    if (document.backend == "room") is not live:
        return [skipped(work, f"notebooks are held as {document.backend} here")]
    await here.call("use_notebook", notebook=path.name)
    beats: list[Heartbeat] = []
    drained: list[int] = []

    async def drain() -> None:
        drained.append(await client.execute(printing()) // LINE)

    async def execute() -> None:
        with Heartbeat() as beat:
            await here.call("execute_cell", cell="0", wait=120)
        beats.append(beat)

    floor, ours = await interleaved(rounds, drain, execute, warm_ups=1)
    # A room is saved a moment later.
    outputs = await document.outputs(cell_id(0)) if live else cells_of(path)[0].outputs
    kept = printed_lines(outputs)
    worst = max(beats, key=lambda beat: beat.stall)
    return [
        timed(
            work,
            ours,
            floor,
            times=times,
            unit="s",
            lines=kept,
            floor_lines=min(drained),
            peak_mb=round(max(beat.peak for beat in beats) / 1e6),
        ),
        at_most(
            f"{work}: longest loop stall",
            worst.stall * 1_000,
            STALL,
            "ms",
            cpu_ms=round(worst.stall_cpu * 1_000, 1),
            loop_cpu_ms=round(worst.stall_loop_cpu * 1_000, 1),
        ),
        at_most(
            f"{work}: most that the loop computed at a stretch",
            max(beat.held for beat in beats) * 1_000,
            STRETCH,
            "ms",
        ),
        at_most(f"{work}: lines lost of {LINES:,}", LINES - kept, 0, ""),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
