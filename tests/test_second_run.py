"""Tests that fail run once more and alone, unless they are many; linters run beside them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from scripts import tests
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


@pytest.mark.parametrize(("end", "expected"), [("0", "passed"), ("3", "failed")])
def test_a_command_beside_the_tests_is_shown_and_fails_the_run_where_it_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], end: str, expected: str
) -> None:
    text = f"import sys; print('linted'); sys.exit({end})"
    (tmp_path / "lint.py").write_text(text, encoding="utf-8")
    (tmp_path / "test_it.py").write_text("def test_it(): pass", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]", encoding="utf-8")
    command = f"{sys.executable} lint.py"
    passes = f"{sys.executable} -c pass"
    beside = ["--beside", command, "--beside", passes]
    assert main([*beside, "test_it.py", "-q"], tmp_path) == int(end)
    out = capfd.readouterr().out
    assert f"linted\n== {command}: {expected}" in out
    assert f"\n== {passes}: passed" in out


def test_a_command_ends_with_the_tests_that_are_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(tests, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        main(["--beside", "sleep 600"], tmp_path)
