"""Whether a project's settings require a sandbox: the server and the commands read them alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tk_ai_extension.cli.project import Project

FILE = Path(".nb", "project.json")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, False),
        ('{"sandbox": false}', False),
        ('{"sandbox": true}', True),
        ('{"sandbox": null}', True),
        ("{}", True),
        ("[]", True),
        ('{"sandbox": fal', True),
        ("[" * 100_000, True),
        ("\udcff", True),
    ],
)
def test_settings_that_cannot_be_read_require_a_sandbox_and_missing_ones_do_not(
    tmp_path: Path, content: str | None, expected: bool
) -> None:
    (tmp_path / FILE.parent).mkdir()
    if content is not None:
        (tmp_path / FILE).write_text(content, errors="surrogateescape")
    assert Project(str(tmp_path)).has_sandbox() == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(lambda _: None, False, id="no folder"),
        pytest.param(lambda folder: (folder / ".nb").write_text(""), False, id="a file as folder"),
        pytest.param(
            lambda folder: (folder / FILE).mkdir(parents=True), True, id="a folder as file"
        ),
        pytest.param(lambda folder: (folder / ".nb").symlink_to(".nb"), True, id="a loop"),
    ],
)
def test_whatever_stands_in_their_place(tmp_path: Path, made: object, expected: bool) -> None:
    made(tmp_path)  # type: ignore[operator]
    assert Project(str(tmp_path)).has_sandbox() == expected
