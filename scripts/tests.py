"""Run the tests, and other commands at the same time with a lower priority.

    python scripts/tests.py tests -n 4
    python scripts/tests.py --beside 'make lint' --beside 'make jest' tests -n 4

Tests wait for much of their time. The output of a command of `--beside` is shown when it has ended. If
one fails, the run fails. The last line has the processor seconds of everything that ran. Other arguments
are pytest's.
"""

from __future__ import annotations

import argparse
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".pytest_cache"
NICE = "5"
"""The niceness of commands next to the tests. With the lowest priority much of their work would remain at
the end, when it does not keep all processors busy."""


def run(arguments: list[str], stdout: int | None = None) -> int:
    """Run pytest and return its exit code."""
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=stdout, check=False).returncode


@contextmanager
def beside(command: str) -> Generator[Callable[[], int]]:
    """Run a command with a low priority.

    Returns:
        A function that waits for its end and returns its exit code.
    """
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            ["nice", "-n", NICE, *shlex.split(command)], cwd=ROOT, stdout=output, stderr=output
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


def main(arguments: list[str]) -> int:
    """Run the tests and the commands, and return the exit code."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--beside", action="append", default=[])
    options, arguments = parser.parse_known_args(arguments)
    # A job in the background ignores Ctrl-C, and so would all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ExitStack() as stack:
        waits = [stack.enter_context(beside(command)) for command in options.beside]
        if not CACHE.exists():
            # On a fresh clone, each worker would compile all modules and tests.
            run([*arguments, "--collect-only"], stdout=subprocess.DEVNULL)
        code = run([*arguments, "--junitxml=reports/junit.xml"])
        other = max([0, *(wait() for wait in waits)])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"== {used.ru_utime + used.ru_stime:.0f} processor seconds")
    return code or other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
