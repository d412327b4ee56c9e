"""Run the tests, then those that failed once more and alone.

    python scripts/tests.py tests -n 4 --dist worksteal
    python scripts/tests.py --beside 'make lint' --beside 'make jest' tests -n 4

Beside hundreds of kernels on two cores a machine may stall for seconds, so a test that failed runs once
more, one at a time. A test that fails alone has failed. When more than three tests needed their second
run, all of it has failed: that many are no stall of the machine. Which tests needed it is printed. The
arguments are pytest's.

Tests wait for much of their time. The commands of `--beside` run at once, with less of the processors
than the tests; what one prints is shown when it has ended, and where one fails, all of it has failed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAST_FAILED = Path(".pytest_cache", "v", "cache", "lastfailed")
MOST = 3
"""So many tests may need their second run."""
NICE = "5"
"""The niceness of commands beside the tests. With the lowest priority much of their work would be left at
the end, where it does not keep all processors busy."""
FAILED = 1
"""pytest's exit code where tests failed; any other one is no matter of single tests."""


def run(arguments: list[str], folder: Path, stdout: int | None = None) -> int:
    """Runs pytest in a folder; its exit code."""
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=folder, stdout=stdout, check=False).returncode


@contextmanager
def beside(command: str, folder: Path) -> Generator[Callable[[], int]]:
    """Run a command with a low priority.

    Returns:
        What waits for its end and returns its exit code.
    """
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            ["nice", "-n", NICE, *shlex.split(command)], cwd=folder, stdout=output, stderr=output
        )

        def show() -> None:
            end = "passed" if process.wait() == 0 else "failed"
            output.seek(0)
            print(f"\n{output.read()}== {command}: {end}", flush=True)

        shown = threading.Thread(target=show)
        shown.start()

        def wait() -> int:
            shown.join()
            return process.returncode

        try:
            yield wait
        finally:
            process.terminate()
            shown.join()


def main(arguments: list[str], folder: Path = ROOT) -> int:
    """Runs the tests of a folder once or twice; the exit code."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--beside", action="append", default=[])
    options, arguments = parser.parse_known_args(arguments)
    # What failed in other runs is no matter of this one.
    (folder / LAST_FAILED).unlink(missing_ok=True)
    with ExitStack() as stack:
        waits = [stack.enter_context(beside(command, folder)) for command in options.beside]
        if not (folder / LAST_FAILED).parent.exists():
            # On a fresh clone, each worker would compile all modules and tests.
            run([*arguments, "--collect-only"], folder, stdout=subprocess.DEVNULL)
        code = run([*arguments, "--junitxml=reports/junit.xml"], folder)
        other = max([0, *(wait() for wait in waits)])
    return (once_more(folder) if code == FAILED else code) or other


def once_more(folder: Path) -> int:
    """Runs the tests that have failed, if they are few; the exit code."""
    failed = sorted(json.loads((folder / LAST_FAILED).read_text(encoding="utf-8")))
    if len(failed) > MOST:
        print(
            f"== {len(failed)} tests failed; at most {MOST} are run once more:", *failed, sep="\n"
        )
        return FAILED
    print("== pytest, once more and alone:", *failed, sep="\n", flush=True)
    code = run([*failed, "--junitxml=reports/again.xml"], folder)
    if not code:
        print("== passed in their second run only:", *failed, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
