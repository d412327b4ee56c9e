"""`nb search` in a folder, however it is written, with a server and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Nb
from tests.cli.test_help import typed
from tk_ai_extension.cli.commands.examples import EXAMPLES


@pytest.mark.proves("nb:commands")
def test_a_search_takes_a_folder_in_every_way_of_writing_it(nb: Nb, tmp_path: Path) -> None:
    (example,) = (line for line in EXAMPLES["search"] if " -n " in line)
    ((*words, folder),) = typed(example)
    nb.notebook("top.ipynb", "read_csv('top')")
    nb.notebook(f"{folder}/deep/a.ipynb", "read_csv('deep')")
    nb.notebook(f"{folder}/b.ipynb", "x = 1")
    link = tmp_path / "link-to-the-project"
    link.symlink_to(nb.root)
    everything = {"top.ipynb", f"{folder}/deep/a.ipynb"}

    def found(where: str, cwd: Path = nb.root) -> set[str]:
        answer = nb(*words, where, "--json", cwd=cwd).json
        return {match["notebook"] for match in answer["matches"]}

    for _ in ("without a server", "with one"):
        below = (folder, f"{folder}/", f"./{folder}", str(nb.root / folder), str(link / folder))
        for where in below:
            assert found(where) == {f"{folder}/deep/a.ipynb"}, where
        for where in (".", "./", str(nb.root), f"{folder}/.."):
            assert found(where) == everything, where
        missing = nb(*words, "nowhere/", "--json", status=2).json["error"]
        assert missing["code"] == "file_not_found"
        assert "nowhere" in missing["message"]
        nb("open", "top.ipynb")
    # The folder below is in the server's project now.
    assert found(".", nb.root / folder) == {f"{folder}/deep/a.ipynb"}
    assert found("..", nb.root / folder) == everything
