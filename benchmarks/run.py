"""Run the benchmarks, and write the results and their table.

    python benchmarks/run.py [latency outputs ...] [--repetitions N]

All of them write `benchmarks/results.json`; some by name print their table, and write only where
--results says so. Timings depend on the machine: nothing fails if a goal is missed. The exit code is 1
if something could not be measured.
"""

from __future__ import annotations

import argparse
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
from measure import PROJECT, Row, skipped, text_table

HERE = Path(__file__).resolve().parent
FAMILIES = ("latency", "edits", "callers", "outputs", "runs", "reading", "start", "panel")
RESULTS = HERE / "results.json"
PACKAGES = (
    *("tk-ai-extension", "ipykernel", "jupyter_client", "jupyter_server", "jupyterlab", "mcp"),
    *("nbclient", "papermill"),
)


def rows_of(family: str, options: list[str]) -> list[Row]:
    """Run a script in a separate process."""
    with tempfile.TemporaryDirectory(prefix="tk-ai-bench-") as folder:
        rows = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / f"{family}.py"), "--rows", str(rows), *options]
        ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if ran.returncode:
            print(ran.stderr, file=sys.stderr)
            return [skipped("all of it", f"it failed with exit code {ran.returncode}")]
        return [Row(**each) for each in json.loads(rows.read_text(encoding="utf-8"))]


def machine() -> dict[str, Any]:
    """Return the machine's description, without its name."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
    }


def processor() -> str:
    """Return the processor's model, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    """Return the installed versions of what is measured."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> int:
    """Run the given scripts; return the exit code."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("families", nargs="*", metavar="family", help=f"of {', '.join(FAMILIES)}")
    options.add_argument("--repetitions", type=int, help="of each measurement, at most")
    options.add_argument("--results", type=Path, help="file for the results of some families")
    given = options.parse_args()
    unknown = set(given.families) - set(FAMILIES)
    if unknown:
        options.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    passed = [] if given.repetitions is None else ["--repetitions", str(given.repetitions)]

    began = time.monotonic()
    results: dict[str, list[Row]] = {}
    for family in given.families or FAMILIES:
        print(f"-- {family}", flush=True)
        results[family] = rows_of(family, passed)
        print(text_table(results[family]), flush=True)
    path = given.results or (None if given.families else RESULTS)
    if path is not None:
        content = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "machine": machine(),
            "versions": versions(),
            "seconds": round(time.monotonic() - began),
            "families": {name: [row.as_dict() for row in rows] for name, rows in results.items()},
        }
        text = json.dumps(content, indent=1, ensure_ascii=False)
        path.write_text(f"{text}\n", encoding="utf-8")
        print(f"Written to {path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path}.")
    goals = [row.met for rows in results.values() for row in rows if row.met is not None]
    print(f"{sum(goals)} of {len(goals)} goals met in {time.monotonic() - began:.0f} s.")
    return int(any(row.skipped for rows in results.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
