"""Whether a project's settings require a sandbox: the server and the commands read them alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tk_ai_extension.cli.project_folder import Project


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, False),
        ('{"sandbox": false}', False),
        ('{"sandbox": true}', True),
        ("{}", True),
        ('{"sandbox": fal', True),
        ("\udcff", True),
    ],
)
def test_settings_that_cannot_be_read_require_a_sandbox_and_missing_ones_do_not(
    tmp_path: Path, content: str | None, expected: bool
) -> None:
    folder = tmp_path / ".nb"
    folder.mkdir()
    if content is not None:
        (folder / "project.json").write_text(content, errors="surrogateescape")
    assert Project(str(tmp_path)).has_sandbox() == expected


def test_a_folder_of_settings_that_is_a_loop_requires_a_sandbox(tmp_path: Path) -> None:
    (tmp_path / ".nb").symlink_to(".nb")
    assert Project(str(tmp_path)).has_sandbox()
