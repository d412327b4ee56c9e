"""What a sandbox record, which anybody may have written, can change about a kernel's sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tk_ai_extension.kernels.sandbox.bubblewrap import Bubblewrap
from tk_ai_extension.kernels.sandbox.confinement import Confinement
from tk_ai_extension.model.errors import SandboxUnavailable

pytestmark = pytest.mark.proves("nb:sandbox")


@pytest.fixture
def bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bubblewrap:
    """The only sandbox there is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    executable = folder / "bwrap"
    executable.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    executable.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return Bubblewrap(str(executable))


@pytest.fixture
def made() -> Iterator[Path]:
    """The folder of a sandbox."""
    with TemporaryDirectory(prefix="nb-") as folder:
        yield Path(folder)


def test_it_names_neither_the_program_nor_options_of_its_own(
    bubblewrap: Bubblewrap, made: Path, tmp_path: Path
) -> None:
    here = Confinement(bubblewrap, tmp_path / "project", (), made, (".nb",))
    note = here.as_note()
    assert Confinement.from_note(note) == here
    assert Confinement.from_note(note | {"executable": "/bin/sh"}) == here
    own = {"project": str(tmp_path)}  # with a program of its own
    for change in ({"options": ["--bind", "/", "/"]}, {"kind": "podman"}, {"kind": "sh"}, own):
        with pytest.raises(SandboxUnavailable):
            Confinement.from_note(note | change)


def test_it_names_no_folder_but_that_of_a_sandbox(
    bubblewrap: Bubblewrap, made: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "nb-victim"
    victim.mkdir()
    link = made.with_name(made.name + "-link")
    link.symlink_to(victim)
    try:
        for folder in (victim, link, made / ".." / link.name, made / "..", made.parent, Path()):
            other = Confinement(bubblewrap, tmp_path, (), folder)
            with pytest.raises(ValueError, match="is not the folder of a sandbox"):
                Confinement.from_note(other.as_note())
            assert link.is_symlink()
    finally:
        link.unlink()


def test_a_folder_that_is_not_of_a_sandbox_is_not_removed(
    bubblewrap: Bubblewrap, made: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "nb-victim"
    victim.mkdir()
    Confinement(bubblewrap, tmp_path, (), victim).remove()
    assert victim.is_dir()
    within = made / "nb-within"
    within.mkdir()
    Confinement(bubblewrap, tmp_path, (), within).remove()
    assert within.is_dir()
