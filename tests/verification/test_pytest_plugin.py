"""The plug-in of pytest, as a project uses it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest

from tests.proofs import ROOT

PLUGIN = "tk_ai_extension.verification.pytest_plugin"

LOADED = (PLUGIN, "tk_ai_extension.verification")
"""What of the package is imported without the option."""

pytestmark = pytest.mark.proves("verify:run")


def write(folder: Path, name: str, source: str, text: str) -> None:
    output = nbformat.v4.new_output("stream", text=text)
    cell = nbformat.v4.new_code_cell(source, id="cella", outputs=[output], execution_count=1)
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": spec})
    nbformat.write(notebook, folder / name)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_each_notebook_is_a_test_and_its_failure_is_the_report(tmp_path: Path) -> None:
    write(tmp_path, "good.ipynb", "print('v1')", "v2\n")
    write(tmp_path, "bad.ipynb", "print('new')", "old\n")
    write(tmp_path, "failing.ipynb", "1 / 0", "")
    write(tmp_path, "usage.ipynb", "%nosuchmagic", "")
    write(tmp_path, "empty.ipynb", "", "")
    (tmp_path / "broken.ipynb").write_text("{")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    write(tmp_path / ".ipynb_checkpoints", "x.ipynb", "1 / 0", "")
    (tmp_path / "rules.cfg").write_text("regex: v\\d\nreplace: V\n")
    ended = run(tmp_path, "--nb-verify", "--nb-verify-sanitize-with", "rules.cfg")
    assert ended.returncode == 1
    shown = ended.stdout
    assert "good.ipynb::verify PASSED" in shown
    for name in ("bad", "failing", "usage", "broken"):
        assert f"{name}.ipynb::verify FAILED" in shown
    assert "Cell 1 @cella: stdout differs\n  @@ -1 +1 @@\n  -old\n  +new\n" in shown
    assert "Cell 1 @cella failed: ZeroDivisionError: division by zero" in shown
    assert "UsageError: Line magic function `%nosuchmagic` not found" in shown
    assert "4 failed, 1 passed, 1 skipped" in shown
    assert "pytest_plugin.py" not in shown


def test_without_the_option_it_collects_and_imports_nothing(tmp_path: Path) -> None:
    write(tmp_path, "bad.ipynb", "print('new')", "old\n")
    (tmp_path / "test_a.py").write_text(
        "import sys\n\n\ndef test_it():\n"
        "    ours = {name for name in sys.modules if name.startswith('tk_ai_extension.')}\n"
        f"    assert ours == {{'tk_ai_extension._version', *{LOADED!r}}}\n"
        "    assert 'jupyter_client' not in sys.modules\n"
    )
    ended = run(tmp_path, "-p", "no:jupyter_server", "-p", "no:pytest_jupyter")
    assert "1 passed" in ended.stdout, ended.stdout


def test_pytest_finds_it_where_the_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"tk-ai-verify": PLUGIN}
