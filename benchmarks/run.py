"""Run the benchmarks, each beside its floor, and write the table, the results and the plots.

    python benchmarks/run.py [latency outputs ...] [--repetitions N]

All of them write `benchmarks/results.json`, `results.md` and the plots; some by name print their
table, and write only where --results says so. Timings depend on the machine: nothing fails where a
goal is missed, the table says it. The exit code is 1 where something could not be measured.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
from family import PROJECT, parser
from measure import Row, skipped
from table import markdown_table, text_table

HERE = Path(__file__).resolve().parent
FAMILIES = (
    "sizes",
    "latency",
    "commands",
    "kernels",
    "start",
    "outputs",
    "runs",
    "notebooks",
    "reading",
    "chat",
    "completion",
    "panel",
    "growth",
)
RESULTS = HERE / "results.json"
PACKAGES = (
    "tk-ai-extension",
    "claude-agent-sdk",
    "ipykernel",
    "jupyter_client",
    "jupyter-collaboration",
    "jupyter_server",
    "jupyter_server_nbmodel",
    "jupyterlab",
    "mcp",
    "nbclient",
    "nbformat",
    "pydantic",
    "pyzmq",
    "tornado",
)


def rows_of(family: str, options: list[str]) -> list[Row]:
    """Runs a family in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="tk-ai-bench-") as folder:
        rows = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / f"{family}.py"), "--rows", str(rows), *options]
        # What servers and kernels say besides is of interest where something went wrong.
        ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if ran.returncode:
            print(ran.stderr, file=sys.stderr)
            return [skipped("all of it", f"it failed with exit code {ran.returncode}")]
        known = set(Row.__dataclass_fields__)
        return [
            Row(**{key: value for key, value in each.items() if key in known})
            for each in json.loads(rows.read_text(encoding="utf-8"))
        ]


def machine() -> dict[str, Any]:
    """What it ran on, without its name."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
    }


def processor() -> str:
    """The processor's model, where the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    """What is installed of what is measured."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def report(results: dict[str, list[Row]], path: Path, took: float) -> None:
    """Writes the results, and the table beside them."""
    rows = [row for rows in results.values() for row in rows]
    head = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
        "seconds": round(took),
    }
    families = {family: [row.as_dict() for row in rows] for family, rows in results.items()}
    content = json.dumps(head | {"families": families}, indent=1, ensure_ascii=False)
    path.write_text(f"{content}\n", encoding="utf-8")
    where = head["machine"]
    path.with_suffix(".md").write_text(
        f"Measured on {head['date']} with Python {where['python']}, {where['cores']} cores of "
        f"{where['processor']}, {where['memory_gb']} GB, {where['system']}.\n\n"
        f"{markdown_table(rows)}\n",
        encoding="utf-8",
    )


def main() -> int:
    """Runs what is asked for; returns the exit code."""
    options = parser(__doc__)
    options.add_argument("families", nargs="*", metavar="family", help=f"of {', '.join(FAMILIES)}")
    options.add_argument("--results", type=Path, help="file for the results of some families")
    given = options.parse_args()
    unknown = set(given.families) - set(FAMILIES)
    if unknown:
        options.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    passed = ["--plots", str(given.plots)]
    if given.repetitions is not None:
        passed += ["--repetitions", str(given.repetitions)]

    began = time.monotonic()
    results: dict[str, list[Row]] = {}
    for family in given.families or FAMILIES:
        print(f"-- {family}", flush=True)
        since = time.monotonic()
        results[family] = rows_of(family, passed)
        print(text_table(results[family]))
        print(f"({time.monotonic() - since:.0f} s)\n", flush=True)
    path = given.results or (None if given.families else RESULTS)
    if path is not None:
        report(results, path, time.monotonic() - began)
        shown = path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path
        print(f"Written to {shown}, and as a table beside it.")
    goals = [row.met for rows in results.values() for row in rows if row.met is not None]
    print(f"{sum(goals)} of {len(goals)} goals met in {time.monotonic() - began:.0f} s.")
    return int(any(row.skipped for rows in results.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
