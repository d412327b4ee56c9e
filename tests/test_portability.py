"""Modules of one operating system alone are imported where they are used, not with the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTS = """
import builtins, importlib, pkgutil, sys
import tk_ai_extension

POSIX = {"fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
real = builtins.__import__

def on_windows(name, globals=None, locals=None, fromlist=(), level=0):
    if name in POSIX and str((globals or {}).get("__name__")).startswith("tk_ai_extension"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = on_windows
modules = [each.name for each in pkgutil.walk_packages(tk_ai_extension.__path__, "tk_ai_extension.")]
assert len(modules) > 200, len(modules)
failed = []
for module in modules:
    if module.endswith("__main__"):
        continue
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as problem:
        failed.append(f"{module}: {problem}")
sys.exit("\\n".join(failed) or 0)
"""


@pytest.mark.proves("fault:portable-imports")
def test_every_module_is_imported_without_the_modules_of_posix() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
