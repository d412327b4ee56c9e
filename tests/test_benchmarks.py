"""`make bench`: that its scripts run and write what they measured, never how long things take."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proofs import ROOT

FAMILIES = {"latency", "edits", "callers", "outputs", "runs", "reading", "start", "panel"}


def run(*arguments: object, seconds: float = 100) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def check(ran: subprocess.CompletedProcess[str], results: Path, families: set[str]) -> None:
    """What was measured is written, with where, and names neither the machine nor its folders."""
    assert ran.returncode == 0, ran.stderr
    written = results.read_text(encoding="utf-8")
    measured = json.loads(written)
    assert set(measured["families"]) == families
    assert measured["versions"]["tk-ai-extension"]
    assert measured["machine"]["python"] == platform.python_version()
    assert platform.node() not in written
    assert str(ROOT) not in written
    for row in (row for rows in measured["families"].values() for row in rows):
        assert row["value"] >= 0
        assert row["work"] in ran.stdout


def test_benchmarks_write_what_they_measured_and_where(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    ran = run("reading", "--repetitions", 2, "--results", results)
    check(ran, results, {"reading"})


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_every_benchmark_runs(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    options = ("--repetitions", 1, "--results", results)
    ran = run(*sorted(FAMILIES), *options, seconds=840)
    check(ran, results, FAMILIES)


def test_a_benchmark_that_there_is_not_is_refused() -> None:
    ran = run("lattency")
    assert ran.returncode == 2
    assert "latency" in ran.stderr
