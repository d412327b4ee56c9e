"""Run the tests, then those that failed once more and alone.

    python scripts/tests.py tests -n 4 --dist worksteal

Beside hundreds of kernels on two cores a machine may stall for seconds, so a test that failed runs once
more, one at a time. A test that fails alone has failed. When more than three tests needed their second
run, all of it has failed: that many are no stall of the machine. Which tests needed it is printed. The
arguments are pytest's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAST_FAILED = Path(".pytest_cache", "v", "cache", "lastfailed")
MOST = 3
"""So many tests may need their second run."""
FAILED = 1
"""pytest's exit code where tests failed; any other one is no matter of single tests."""


def run(arguments: list[str], folder: Path) -> int:
    """Runs pytest in a folder; its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=folder, check=False
    ).returncode


def main(arguments: list[str], folder: Path = ROOT) -> int:
    """Runs the tests of a folder once or twice; the exit code."""
    # What failed in other runs is no matter of this one.
    (folder / LAST_FAILED).unlink(missing_ok=True)
    code = run([*arguments, "--junitxml=reports/junit.xml"], folder)
    if code != FAILED:
        return code
    failed = sorted(json.loads((folder / LAST_FAILED).read_text(encoding="utf-8")))
    if len(failed) > MOST:
        print(
            f"== {len(failed)} tests failed; at most {MOST} are run once more:", *failed, sep="\n"
        )
        return code
    print("== pytest, once more and alone:", *failed, sep="\n", flush=True)
    code = run([*failed, "--junitxml=reports/again.xml"], folder)
    if not code:
        print("== passed in their second run only:", *failed, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
