"""`nb serve`: people's programs in the kernel that an agent works in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.cli.conftest import DEADLINE, Nb

GUEST = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, kernel_name=sys.argv[2], timeout=60).execute()
print(notebook.cells[0].outputs[0].text)
"""


def guest(nb: Nb, kernelspec: str, source: str, folder: Path) -> str:
    """What a person's program prints that runs a cell by this kernelspec."""
    path = folder / "guest.ipynb"
    cells = [nbformat.v4.new_code_cell(source)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    run = subprocess.run(
        [sys.executable, "-c", GUEST, str(path), kernelspec],
        env=nb.environment,
        capture_output=True,
        timeout=DEADLINE,
        check=True,
    )
    return run.stdout.decode()


@pytest.mark.proves("nb:serve")
def test_a_person_sees_what_the_agent_computed_and_the_agent_what_the_person_did(
    nb: Nb, tmp_path: Path
) -> None:
    nb("open", "a.ipynb")
    nb("run", "X = 42")
    shared = nb("serve", "--json").json
    assert shared["display_name"] == "Python (nb shared kernel)"
    assert "42" in guest(nb, shared["kernelspec"], "print(X); Y = X + 1", tmp_path)
    # The guest has shut its kernel down, and this one lives.
    assert "43" in nb("run", "Y").out
    specs = Path(nb.environment["JUPYTER_DATA_DIR"], "kernels")
    assert [spec.name for spec in specs.iterdir()] == [shared["kernelspec"]]
    argv = json.loads((specs / shared["kernelspec"] / "kernel.json").read_text())["argv"]
    assert "{connection_file}" in argv  # VS Code launches it: the relay
    nb("shutdown")
    assert list(specs.iterdir()) == []
    assert not (nb.root / ".nb").exists()


@pytest.mark.proves("nb:serve")
def test_a_kernel_that_takes_its_place_is_shared_instead(nb: Nb, tmp_path: Path) -> None:
    nb("open", "a.ipynb")
    kernelspec = nb("serve", "--json").json["kernelspec"]
    pid = int(nb("run", "import os; print(os.getpid())").out.split()[-1])
    os.kill(pid, 9)
    nb("run", "X = 'another'")
    assert "another" in guest(nb, kernelspec, "print(X)", tmp_path)
    assert "Shared no more" in nb("serve", "--off").out
    assert "Nothing was shared" in nb("serve", "--off").out


def test_what_has_no_kernel_is_not_shared(nb: Nb) -> None:
    nb.notebook("a.ipynb")
    nb.notebook("b.ipynb")
    nb("open", "a.ipynb")
    assert "kernel_not_found" in nb("serve", "b.ipynb", status=3).err
    assert not (nb.root / ".nb" / "shared").exists()
