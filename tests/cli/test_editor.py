"""`nb edit --editor`: whatever the editor is and leaves, the change is made once and reported rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Nb

pytestmark = pytest.mark.proves("nb:commands")


def test_files_that_an_editor_leaves_are_removed(shared: Nb, tmp_path: Path) -> None:
    nb = shared
    nb.notebook("a.ipynb", "x = 1")
    editor = tmp_path / "an editor"
    editor.write_text('#!/bin/sh\ncp "$1" "$1~"; mkdir "$1.d"; echo "x = 2" > "$1"\n')
    editor.chmod(0o755)
    ended = nb(
        *("edit", "0", "--editor", "-n", "a.ipynb"),
        env={"EDITOR": f"'{editor}'", "TMPDIR": str(tmp_path)},
    )
    assert ended.err == ""
    assert nb.read("a.ipynb").cells[0].source == "x = 2"
    assert not list(tmp_path.glob("nb-*"))


@pytest.mark.parametrize("editor", ["vi 'x", "/nowhere/vi", "rm -f", "false"])
def test_an_editor_that_cannot_be_used_is_reported(shared: Nb, tmp_path: Path, editor: str) -> None:
    shared.notebook("a.ipynb", "x = 1")
    ended = shared(
        *("edit", "0", "--editor", "-n", "a.ipynb"),
        env={"EDITOR": editor, "TMPDIR": str(tmp_path)},
        status=2,
    )
    assert ended.err.startswith(("nb: ", "false ended with status 1"))
    assert "Traceback" not in ended.err
    assert shared.read("a.ipynb").cells[0].source == "x = 1"


def test_the_whole_notebook_is_edited_as_text(shared: Nb, tmp_path: Path) -> None:
    shared.notebook("a.ipynb", "x = 1", "y = 2")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed "s/x = 1$/x = 10/; s/y = 2$/y = 20/" -i "$1"\n')
    editor.chmod(0o755)
    shared("edit", "--editor", "-n", "a.ipynb", env={"EDITOR": str(editor)})
    assert [cell.source for cell in shared.read("a.ipynb").cells] == ["x = 10", "y = 20"]
