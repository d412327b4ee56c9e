"""`nb open --sandbox`: kernels without network that see nothing but the project."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Nb
from tests.cli.test_lab_command import get
from tk_ai_extension.kernels.sandbox.provisioner import private_folder
from tk_ai_extension.kernels.sandbox.sandbox import probe

FINDINGS = list(probe(Path("/nowhere")))
works = pytest.mark.skipif(
    not any(finding.sandbox for finding in FINDINGS),
    reason="no sandbox works here: " + " ".join(finding.detail for finding in FINDINGS),
)

CONNECT = "import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('connected')"
REFUSED = "ConnectionRefusedError"
HOME = "import os; print(os.path.exists({home!r}), os.path.expanduser('~') == {home!r})"
PLOT = """
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
pyplot.plot([1, 2])
pyplot.savefig("a.png")
"""
OUTSIDE = "open({path!r}, 'w')"


@pytest.fixture
def connect() -> Iterator[str]:
    """Code that connects to a listener on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield CONNECT.format(port=listener.getsockname()[1])


@pytest.mark.proves("threat:secrets")
def test_without_a_sandbox_code_reaches_a_listener_and_gets_no_exported_key(
    nb: Nb, connect: str
) -> None:
    nb.environment |= {
        "ANTHROPIC_API_KEY": "sk-canary",
        "MY_TOKEN": "sk-canary",
        "OTHER": "sk-canary",
    }
    nb("open", "a.ipynb")
    assert "connected" in nb("run", connect).out
    assert "sk-canary" not in nb("run", "import os; print(dict(os.environ))").out
    assert "sk-canary" not in (nb.root / ".nb" / "host.log").read_text()


@works
@pytest.mark.proves("nb:sandbox")
def test_code_has_no_network_no_home_and_only_the_project_until_its_setting_changes(
    nb: Nb, tmp_path: Path, connect: str
) -> None:
    nb("open", "--sandbox", "a.ipynb")
    assert REFUSED in nb("run", connect, status=1).out
    home = nb.environment["HOME"]
    assert "False False" in nb("run", HOME.format(home=home)).out
    # What it writes elsewhere is refused, or gone with the sandbox.
    nb("run", OUTSIDE.format(path=str(tmp_path / "outside.txt")), status=None)
    nb("run", OUTSIDE.format(path="/usr/outside.txt"), status=1)
    assert not (tmp_path / "outside.txt").exists()
    nb("run", "open('inside.txt', 'w').write('written')")
    assert (nb.root / "inside.txt").read_text() == "written"
    nb("run", PLOT)
    assert (nb.root / "a.png").read_bytes().startswith(b"\x89PNG")
    check_a_folder_below(nb, connect)
    assert nb.processes() == []
    nb("open", "a.ipynb")
    assert REFUSED in nb("run", connect, status=1).out
    nb("shutdown")
    nb("open", "--no-sandbox", "a.ipynb")
    assert "connected" in nb("run", connect).out
    nb("shutdown")
    assert not (nb.root / ".nb").exists()


def check_a_folder_below(nb: Nb, connect: str) -> None:
    """A folder below does not lead out of the sandbox; all kernels are stopped then."""
    # Code in the sandbox writes another project, for any process that opens it.
    nb("run", "import os; os.makedirs('deep/.nb', 0o700); open('deep/.nb/host.log', 'w').close()")
    below = nb.root / "deep"
    opened = nb("open", "b.ipynb", cwd=below)
    assert f"using {nb.root}" in opened.err
    assert (below / "b.ipynb").exists()
    refused = nb("run", connect, "-n", "b.ipynb", cwd=below, status=1)
    assert REFUSED in refused.out
    assert nb("shutdown", cwd=below).out == "The server and its kernels were stopped.\n"


@works
@pytest.mark.proves("nb:sandbox")
def test_neither_another_notebook_nor_another_host_nor_jupyterlab_leads_out_of_it(
    nb: Nb, connect: str
) -> None:
    nb("open", "--sandbox", "a.ipynb")
    nb("open", "b.ipynb")
    assert REFUSED in nb("run", connect, status=1).out
    folders = [
        private_folder(file.stem.removeprefix("kernel-"))
        for file in (nb.root / ".nb" / "kernels").iterdir()
    ]
    host = psutil.Process(nb.host)
    host.kill()
    host.wait(10)
    nb("open", "b.ipynb")
    assert not any(folder.exists() for folder in folders)
    assert REFUSED in nb("run", connect, status=1).out
    nb("stop", "b.ipynb")
    assert REFUSED in nb("run", connect, "-n", "b.ipynb", status=1).out
    url = nb("lab", "--no-browser", "--json").json["url"]
    kernels = get(url, "api/kernels")
    get(url, "api/kernels", {"name": "python3"})
    assert len(get(url, "api/kernels")) == len(kernels) + 1
    started = [each.cmdline() for each in psutil.Process(nb.host).children()]
    assert [
        each for each in started if "ipykernel_launcher" in each and "bwrap" not in each[0]
    ] == []
    nb("shutdown")
    assert nb.processes() == []


@works
def test_kernels_that_run_outside_are_not_passed_over(shared: Nb) -> None:
    shared("open", "a.ipynb")
    refused = shared("open", "--sandbox", "a.ipynb", status=2)
    assert "has kernels outside of a sandbox" in refused.err
    assert "`nb shutdown`" in refused.err


@pytest.mark.proves("nb:sandbox")
def test_without_a_sandbox_nothing_runs(nb: Nb, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    nb.environment["PATH"] = str(tools)
    refused = nb("open", "--sandbox", "a.ipynb", status=2)
    assert "kernel_unsupported" in refused.err
    assert "apt install bubblewrap" in refused.err
    assert nb("ps", "--json").json["kernels"] == []
    findings = {look["name"]: look for look in nb("doctor", "--json").json["looks"]}
    assert not findings["sandbox: bubblewrap"]["ok"]
