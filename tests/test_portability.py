"""Modules of one operating system alone are imported where they are used, not with the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WINDOWS = Path(__file__).with_name("windows")
IMPORTS = """
import importlib, pkgutil, sys
import tk_ai_extension

modules = [each.name for each in pkgutil.walk_packages(tk_ai_extension.__path__, "tk_ai_extension.")]
assert len(modules) > 200, len(modules)
failed = []
for module in modules:
    if module.endswith("__main__"):
        continue
    try:
        importlib.import_module(module)
    except (AttributeError, ImportError) as problem:
        failed.append(f"{module}: {problem}")
sys.exit("\\n".join(failed) or 0)
"""


@pytest.mark.proves("fault:portable-imports")
def test_every_module_is_imported_without_the_modules_of_posix() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS],
        env={**os.environ, "PYTHONPATH": str(WINDOWS)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
