"""What `make bench` measured: the table of its last run."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.docs.markdown import page, sentence, table

Json = Mapping[str, Any]

ABOUT = """\
*For people who want to know what a call costs.*

Each figure is shown with a floor or a peer measured in the same run on the same machine: compare the
ratios rather than the milliseconds. `make bench` measures again. Tests never assert timings."""


def performance_page(benchmarks: Path) -> str:
    """Return the results by family, or a note that nothing was measured.

    Args:
        benchmarks: The folder of the benchmarks, and of `results.json` once they have run.
    """
    results = benchmarks / "results.json"
    if not results.exists():
        return page("Performance", ABOUT, "**Nothing has been measured yet.**")
    measured: Json = json.loads(results.read_text(encoding="utf-8"))
    families: Mapping[str, list[Json]] = measured["families"]
    return page(
        "Performance",
        ABOUT,
        _where(measured),
        *(
            part
            for family, rows in families.items()
            for part in (
                f"## {family.capitalize()}",
                _about(benchmarks / f"{family}.py"),
                _rows(rows),
            )
        ),
        "## Versions",
        table(["package", "version"], measured["versions"].items()),
    )


def _where(measured: Json) -> str:
    machine: Json = measured["machine"]
    goals = [row["met"] for rows in measured["families"].values() for row in rows]
    return (
        f"Measured on {measured['date']} in {measured['seconds']} s with Python {machine['python']}, "
        f"{machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB, "
        f"{machine['system']}. Of {sum(goal is not None for goal in goals)} goals {goals.count(True)} "
        "were met."
    )


def _rows(rows: list[Json]) -> str:
    return table(
        ["work", "median", "floor", "ratio", "goal", "met"],
        (
            [row["work"], f"not measured: {row['skipped']}", "", "", "", ""]
            if row.get("skipped")
            else [
                row["work"],
                _number(row["value"], row["unit"]),
                _number(row.get("floor"), row["unit"]),
                "" if row.get("ratio") is None else f"{row['ratio']:.2f}",
                row.get("goal", ""),
                {True: "yes", False: "**no**", None: ""}[row.get("met")],
            ]
            for row in rows
        ),
    )


def _number(value: float | None, unit: str) -> str:
    """A number with its unit and its significant digits."""
    if value is None:
        return ""
    digits = 0 if unit == "characters" or value >= 1_000 else 1 if value >= 100 else 2
    return f"{value:,.{digits}f} {unit}"


def _about(module: Path) -> str:
    """What a family measures, as its module says it."""
    if not module.exists():
        return ""
    return sentence(ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))))
