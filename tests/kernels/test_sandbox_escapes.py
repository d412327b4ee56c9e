"""Ways out of the bubblewrap sandbox, tried in it as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tk_ai_extension.kernels.sandbox.sandbox import find_sandbox, probe

ESCAPES = Path(__file__).with_name("escapes.py")
ORDINARY = 65_433
"""A user who owns nothing on this machine."""
NOWHERE = Path("/nowhere")
FOR_ALL = "/var/tmp"
"""Pytest's temporary folders are its own user's alone."""

pytestmark = pytest.mark.skipif(
    not any(finding.sandbox for finding in probe(NOWHERE) if finding.name == "bubblewrap"),
    reason="bubblewrap does not work here",
)


def interpreter(user: int) -> str | None:
    """A Python that this user may run, of the system's or of the tests'."""
    for found in (sys.executable, shutil.which("python3", path="/usr/bin:/bin")):
        try:
            if found and subprocess.run([found, "-c", ""], user=user, check=False).returncode == 0:
                return found
        except PermissionError:
            continue
    return None


@pytest.mark.proves("nb:sandbox", "threat:sandbox-escapes")
@pytest.mark.parametrize("user", [os.geteuid(), ORDINARY], ids=["own", "ordinary"])
def test_nothing_leads_out_of_it(user: int) -> None:
    if user != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if user != os.geteuid() and interpreter(user) is None:
        pytest.skip("no Python here is for everybody")
    sandbox = find_sandbox(NOWHERE)
    python = [interpreter(user) or "", "-I", "-S"]
    with (
        TemporaryDirectory(prefix="nb-", dir=FOR_ALL) as folder,
        TemporaryDirectory(prefix="out-", dir=FOR_ALL) as elsewhere,
        socket.create_server(("127.0.0.1", 0)) as network,
        socket.socket(socket.AF_UNIX) as file_socket,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        project, secret = Path(folder, "project"), Path(elsewhere, "secret")
        secret.write_text("canary")
        path, name = Path(elsewhere, "socket"), f"canary-{os.getpid()}"
        file_socket.bind(str(path))
        abstract.bind(f"\0{name}")
        for listener in (file_socket, abstract):
            listener.listen()
        project.mkdir()
        script = project / "escapes.py"
        shutil.copy(ESCAPES, script)
        for each in (*Path(folder).rglob("*"), Path(folder), Path(elsewhere), secret, path):
            os.chown(each, user, -1)
        private = Path(folder, "nb-escapes")
        private.mkdir()
        for each in (private, project):
            os.chown(each, user, -1)
        known = [str(secret), str(os.getpid()), str(network.getsockname()[1]), str(path), name]
        started = replace(sandbox, project=project).command(
            [*python, str(script), *known],
            private,
            folder=project,
            environment={"PATH": os.defpath},
        )
        with started as (command, descriptors):
            for each in private.rglob("*"):
                os.chown(each, user, -1)
            tried = subprocess.run(
                command,
                env={"PATH": os.defpath},
                pass_fds=descriptors,
                user=user,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                check=False,
            )
    assert tried.returncode == 0, tried.stderr.decode()
    assert json.loads(tried.stdout) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's processes could write there")
def test_a_sandbox_that_leaves_the_machine_s_settings_writable_is_not_taken(tmp_path: Path) -> None:
    real = find_sandbox(NOWHERE).executable
    leaking = tmp_path / "bwrap"
    leaking.write_text(
        f"""#!{sys.executable}
import os, sys
words = sys.argv[1:]
while "/proc/sys" in words:
    at = words.index("/proc/sys") - 1
    del words[at : at + 3]
os.execv({real!r}, [{real!r}, *words])
""",
        encoding="utf-8",
    )
    leaking.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:/nowhere"}
    code = (
        "from pathlib import Path; from tk_ai_extension.kernels.sandbox.sandbox import probe; "
        "print(next(probe(Path('/nowhere'))))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert "sandbox=None" in output
    assert "it can write settings of the operating system's kernel" in output
