"""`make bench`: that its scripts run and write what they measured, never how long things take."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

from tests.proofs import ROOT


def test_benchmarks_write_what_they_measured_and_where(tmp_path: Path) -> None:
    """It names neither the machine nor its folders."""
    results = tmp_path / "results.json"
    script = ROOT / "benchmarks" / "run.py"
    command = [sys.executable, script, "reading", "--repetitions", "2", "--results", results]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    written = results.read_text(encoding="utf-8")
    measured = json.loads(written)
    assert set(measured["families"]) == {"reading"}
    assert measured["versions"]["tk-ai-extension"]
    assert measured["machine"]["python"] == platform.python_version()
    assert platform.node() not in written
    assert str(ROOT) not in written
    for row in measured["families"]["reading"]:
        assert row["value"] >= 0
        assert row["work"] in ran.stdout
