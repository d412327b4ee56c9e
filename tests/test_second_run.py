"""Tests that fail run once more and alone, unless they are many."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts.tests import FAILED, MOST, main

SUITE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_that_passes_the_second_time(number):
    been = Path(f"been-{{number}}")
    first = not been.exists()
    been.touch()
    assert not first or {steady}

def test_that_fails():
    assert {steady}
"""


@pytest.fixture(autouse=True)
def no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run below is one of its own."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize(
    ("count", "code", "expected"),
    [
        (MOST, 0, "passed in their second run only"),
        (MOST + 1, FAILED, f"{MOST + 1} tests failed"),
        (0, FAILED, "once more and alone"),
    ],
    ids=["few", "many", "again"],
)
def test_few_tests_may_need_a_second_run_and_are_listed(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    count: int,
    code: int,
    expected: str,
) -> None:
    text = SUITE.format(count=count, steady="False")
    if count:
        text = text.partition("def test_that_fails")[0]
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]", encoding="utf-8")
    assert main(["test_it.py", "-q"], tmp_path) == code
    out = capfd.readouterr().out
    assert expected in out
    if code == 0:
        assert out.count("test_that_passes_the_second_time[0]") >= 1
    shutil.rmtree(tmp_path / "reports")
