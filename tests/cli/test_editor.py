"""`nb edit --editor`: whatever the editor is and leaves, the change is made once and reported rightly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Nb

pytestmark = pytest.mark.proves("nb:commands")


def folders(place: Path) -> list[str]:
    return [each.name for each in place.iterdir() if each.name.startswith("nb-edit-")]


@pytest.mark.parametrize("is_open", [False, True], ids=["alone", "with a server"])
def test_files_that_an_editor_leaves_are_removed(nb: Nb, tmp_path: Path, is_open: bool) -> None:
    nb.notebook("a.ipynb", "x = 1")
    if is_open:
        nb("open", "a.ipynb")
    editor = tmp_path / "an editor"
    editor.write_text('#!/bin/sh\ncp "$1" "$1~"; mkdir "$1.d"; echo "x = 2" > "$1"\n')
    editor.chmod(0o755)
    ended = nb(
        *("edit", "0", "--editor", "-n", "a.ipynb"),
        env={"EDITOR": f"'{editor}'", "TMPDIR": str(tmp_path)},
    )
    assert ended.err == ""
    assert nb.read("a.ipynb").cells[0].source == "x = 2"
    assert folders(tmp_path) == []


@pytest.mark.parametrize("is_open", [False, True], ids=["alone", "with a server"])
@pytest.mark.parametrize("editor", ["vi 'x", "/nowhere/vi", "rm -f"])
def test_an_editor_that_cannot_be_used_is_reported_in_a_sentence(
    nb: Nb, tmp_path: Path, editor: str, is_open: bool
) -> None:
    nb.notebook("a.ipynb", "x = 1")
    if is_open:
        nb("open", "a.ipynb")
    ended = nb(
        *("edit", "0", "--editor", "-n", "a.ipynb"),
        env={"EDITOR": editor, "TMPDIR": str(tmp_path)},
        status=2,
    )
    assert f"nb: the text cannot be edited with {editor}: " in ended.err
    assert "Nothing was changed" in ended.err
    assert "Traceback" not in ended.err
    assert nb.read("a.ipynb").cells[0].source == "x = 1"
