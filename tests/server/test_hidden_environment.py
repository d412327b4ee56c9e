"""A process hides its environment from other processes of the same user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tk_ai_extension.server import process_privacy

ORDINARY = 65_433
"""A user who owns nothing on this machine."""
FOR_ALL = "/var/tmp"
"""Pytest's temporary folders are its own user's alone."""

HIDDEN = """
import runpy, subprocess, sys
hide = runpy.run_path(sys.argv[1])["hide_process"]
assert hide()
look = '''
import sys
for name in ("environ", "mem", "maps"):
    try:
        print(name, len(open(f"/proc/{sys.argv[1]}/{name}", "rb").read(10)))
    except OSError as error:
        print(name, type(error).__name__)
'''
import os
print(subprocess.run([sys.executable, "-I", "-S", "-c", look, str(os.getpid())],
                     capture_output=True, text=True).stdout)
"""


@pytest.mark.proves("threat:secrets")
@pytest.mark.skipif(sys.platform != "linux", reason="Linux has it")
def test_a_child_of_a_hidden_process_cannot_read_its_environment() -> None:
    root = os.geteuid() == 0
    python = shutil.which("python3", path="/usr/bin:/bin") if root else sys.executable
    if python is None:
        pytest.skip("no Python here is for everybody")
    with TemporaryDirectory(dir=FOR_ALL) as folder:
        # Where an ordinary user reads it, too.
        Path(folder).chmod(0o755)
        module = shutil.copy(process_privacy.__file__, folder)
        output = subprocess.run(
            [python, "-c", HIDDEN, module],
            user=ORDINARY if root else None,
            env={"CANARY": "canary"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    assert output[:4] == ["environ", "PermissionError", "mem", "PermissionError"]
