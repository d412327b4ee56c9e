"""What a family of benchmarks is given, and how it is started: each in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
# How a server is started and a model scripted is said once.
sys.path += [str(PROJECT / "scripts"), str(PROJECT)]

from measure import Row, skipped  # noqa: E402
from serving import own_folders  # noqa: E402
from table import text_table  # noqa: E402

DEADLINE = 150
"""Seconds that a family may take. What it has measured by then counts."""
PLOTS = PROJECT / "docs" / "performance"


@dataclass(frozen=True, slots=True)
class Options:
    """What a family is given.

    Attributes:
        folder: An empty folder, gone afterwards.
        plots: Where plots go.
        repetitions: How often each thing is measured; None leaves it to the benchmark.
    """

    folder: Path
    plots: Path
    repetitions: int | None = None

    def count(self, usual: int) -> int:
        """How often to measure what is measured ``usual`` times."""
        return usual if self.repetitions is None else min(self.repetitions, usual)

    def new_folder(self, name: str) -> Path:
        """A new empty folder in it."""
        path = self.folder / name
        path.mkdir()
        return path


Measure = Callable[[Options], AsyncGenerator[Row]]
"""Gives its rows one after the other, as they are measured."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that the runner and each family have in common."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, help="of each measurement, at most")
    parser.add_argument("--plots", type=Path, default=PLOTS, help="folder of the growth plots")
    return parser


async def measured(measure: Measure, options: Options) -> list[Row]:
    """The rows of a family, as far as time suffices."""
    rows: list[Row] = []
    try:
        async with asyncio.timeout(DEADLINE), aclosing(measure(options)) as found:
            async for row in found:
                rows.append(row)  # noqa: PERF401 - those before the time is over are kept
    except TimeoutError:
        rows.append(skipped("the rest", f"{DEADLINE} s were over"))
    return rows


def main(measure: Measure, description: str | None) -> None:
    """Runs a family by itself: prints its table, or writes its rows for the runner."""
    arguments = parser(description)
    arguments.add_argument("--rows", type=Path, help="file for the rows, instead of a table")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="tk-ai-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        temporary = folder / "t"
        temporary.mkdir()
        # Jupyter reads it when it looks for its folders: this process's servers and kernels are
        # apart from the user's, and have no extensions but those that a benchmark asks for.
        os.environ.update(own_folders(folder), JUPYTER_NO_CONFIG="1")
        # Without a configuration, each process of Jupyter leaves an empty temporary folder.
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        work = folder / "work"
        work.mkdir()
        os.chdir(work)
        options = Options(work, given.plots.resolve(), given.repetitions)
        rows = asyncio.run(measured(measure, options))
        os.chdir(PROJECT)
    if given.rows is None:
        print(text_table(rows))
    else:
        given.rows.write_text(json.dumps([row.as_dict() for row in rows]), encoding="utf-8")
