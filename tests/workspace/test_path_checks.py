"""Nothing outside the root has a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tk_ai_extension.model.errors import InvalidArguments, PathRefused
from tk_ai_extension.model.paths import contain, folder_path, notebook_path

pytestmark = pytest.mark.proves("threat:path")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with ways out of it, next to a secret in a folder with a name that begins like the root's."""
    base = tmp_path_factory.mktemp("paths")
    root = base / "work"
    (root / "notes" / "deep").mkdir(parents=True)
    (root / "notes" / "a.ipynb").write_text("{}")
    (root / ".secrets").mkdir()
    (root / ".secrets" / "key.txt").write_text("canary")
    (base / "work-secret").mkdir()
    (base / "work-secret" / "a.ipynb").write_text("{}")
    (root / "out").symlink_to(base / "work-secret")
    (root / "out.ipynb").symlink_to(base / "work-secret" / "a.ipynb")
    (root / "dangling.ipynb").symlink_to(base / "not-made-yet.ipynb")
    (root / "hop").symlink_to("notes/../../work-secret")
    (root / "notes" / "deep" / "chain.ipynb").symlink_to("../../out.ipynb")
    (root / "up").symlink_to("..")
    (root / "shown.txt").symlink_to(".secrets/key.txt")
    (root / "circle").symlink_to("circle")
    (root / "inside.ipynb").symlink_to("notes/a.ipynb")
    (base / "alias").symlink_to(root)
    return root


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        ("/", "outside"),
        (".", "root folder itself"),
        ("././/", "root folder itself"),
        ("{root}", "root folder itself"),
        ("..", "`..`"),
        ("../work-secret/a.ipynb", "`..`"),
        ("notes/../../work-secret/a.ipynb", "`..`"),
        ("notes/../notes/a.ipynb", "`..`"),
        ("notes/..", "`..`"),
        ("/etc/passwd", "outside"),
        ("//etc/passwd", "outside"),
        ("{root}-secret/a.ipynb", "outside"),
        ("{root}/../work-secret/a.ipynb", "`..`"),
        ("out/a.ipynb", "through a link"),
        ("out/not-there.ipynb", "through a link"),
        ("out.ipynb", "through a link"),
        ("dangling.ipynb", "through a link"),
        ("hop/a.ipynb", "through a link"),
        ("notes/deep/chain.ipynb", "through a link"),
        ("up/work-secret/a.ipynb", "through a link"),
        ("{root}/out.ipynb", "through a link"),
        ("shown.txt", "hidden file or folder through a link"),
        ("up/work/.secrets/key.txt", "hidden"),
        ("circle", "loop of links"),
        ("circle/a.ipynb", "loop of links"),
        (".secrets/key.txt", "hidden"),
        (".env", "hidden"),
        ("notes/.git/config", "hidden"),
        ("...", "hidden"),
        ("{root}/.env", "hidden"),
        ("a\0.ipynb", "control character"),
        ("notes/a.ipynb\0.txt", "control character"),
        ("a\nb.ipynb", "control character"),
        ("a\x7f.ipynb", "control character"),
        ("a\x85.ipynb", "control character"),
        ("a\udcff.ipynb", "control character"),
        ("..\\work-secret\\a.ipynb", "backslash"),
        ("\\\\server\\share\\a.ipynb", "backslash"),
        ("C:\\a.ipynb", "backslash"),
        ("C:/a.ipynb", "drive"),
        ("c:a.ipynb", "drive"),
        ("./C:/a.ipynb", "drive"),
        ("{root}/C:/a.ipynb", "drive"),
        ("a" * 256, "too long"),
        ("é" * 128, "too long"),
        ("a/" * 2048 + "a", "too long"),
    ],
)
def test_a_way_out_is_refused_with_its_reason(root: Path, path: str, reason: str) -> None:
    with pytest.raises(PathRefused, match=reason) as refused:
        contain(root, path.format(root=root))
    assert "canary" not in refused.value.as_text()
    assert len(refused.value.message) < 400


@pytest.mark.parametrize(
    ("path", "contained"),
    [
        ("notes/a.ipynb", "notes/a.ipynb"),
        ("./notes//a.ipynb", "notes/a.ipynb"),
        ("notes/a.ipynb/", "notes/a.ipynb"),
        ("new folder/ünïcode 数.ipynb", "new folder/ünïcode 数.ipynb"),
        ("a..b/c...ipynb", "a..b/c...ipynb"),
        ("%2e%2e/a.ipynb", "%2e%2e/a.ipynb"),
        ("~/a.ipynb", "~/a.ipynb"),
        ("$HOME/*.ipynb", "$HOME/*.ipynb"),
        ("inside.ipynb", "inside.ipynb"),
        ("{root}/notes/a.ipynb", "notes/a.ipynb"),
        ("{root}/inside.ipynb", "inside.ipynb"),
        ("{alias}/notes/a.ipynb", "notes/a.ipynb"),
        ("/{root}/notes/a.ipynb", "notes/a.ipynb"),
    ],
)
def test_a_path_inside_gets_the_api_path(root: Path, path: str, contained: str) -> None:
    alias = root.parent / "alias"
    assert contain(root, path.format(root=root, alias=alias)) == contained
    assert contain(alias, path.format(root=root, alias=alias)) == contained


def test_hidden_files_are_reached_where_the_administrator_allows_it(root: Path) -> None:
    assert contain(root, ".secrets/key.txt", allow_hidden=True) == ".secrets/key.txt"
    assert contain(root, "shown.txt", allow_hidden=True) == "shown.txt"
    with pytest.raises(PathRefused, match="through a link"):
        contain(root, "out.ipynb", allow_hidden=True)


def test_a_root_in_a_hidden_folder_is_not_hidden_itself(tmp_path: Path) -> None:
    root = tmp_path / ".local" / "work"
    root.mkdir(parents=True)
    assert contain(root, "a.ipynb") == "a.ipynb"
    assert contain(root, f"{root}/a.ipynb") == "a.ipynb"


def test_the_root_of_the_file_system_contains_everything() -> None:
    assert contain(Path("/"), "/usr/a.ipynb") == "usr/a.ipynb"


def test_without_files_the_rules_on_names_alone_hold() -> None:
    assert contain(None, "/a/b.ipynb") == "a/b.ipynb"
    for path in ("../a.ipynb", ".env", "a\0b", "C:/a"):
        with pytest.raises(PathRefused):
            contain(None, path)


def test_a_notebook_ends_in_ipynb(root: Path) -> None:
    assert notebook_path(root, "notes/a.ipynb") == "notes/a.ipynb"
    for path in ("notes/a.txt", "notes", "a.ipynb.bak", "a.IPYNB"):
        with pytest.raises(InvalidArguments):
            notebook_path(root, path)
    with pytest.raises(PathRefused):
        notebook_path(root, "out.ipynb")
    with pytest.raises(InvalidArguments):
        notebook_path(root, ".ipynb", allow_hidden=True)


def test_a_folder_may_be_the_root_itself(root: Path) -> None:
    assert [folder_path(root, path) for path in ("", ".", "/", "./", str(root), f"{root}/")] == [
        ""
    ] * 6
    assert folder_path(root, "notes/") == "notes"
    for path in ("out", "..", "/etc", ".secrets", "up"):
        with pytest.raises(PathRefused):
            folder_path(root, path)


PARTS = st.sampled_from(
    [
        "..", ".", "", "notes", "deep", "a.ipynb", "out", "out.ipynb", "up", "hop", "work", "circle",
        "work-secret", "inside.ipynb", "shown.txt", ".secrets", "%2e%2e", "..%2f", "C:", "~", "\\..",
    ]
)  # fmt: skip
PATHS = st.one_of(
    st.text(max_size=60),
    st.lists(PARTS | st.text(max_size=5), max_size=8).map("/".join),
)


@given(path=PATHS, absolute=st.booleans(), allow_hidden=st.booleans())
def test_whatever_is_let_through_is_below_the_root(
    root: Path, path: str, absolute: bool, allow_hidden: bool
) -> None:
    asked = f"{root}/{path}" if absolute else path
    try:
        contained = contain(root, asked, allow_hidden=allow_hidden)
    except PathRefused as refused:
        # What it repeats of the path can be sent on.
        event(refused.as_text().encode().decode().rpartition("`")[2])
        return
    parts = contained.split("/")
    assert all(part not in ("", ".", "..") for part in parts)
    assert allow_hidden or not any(part.startswith(".") for part in parts)
    real, real_root = os.path.realpath(root / contained), os.path.realpath(root)
    assert os.path.commonpath([real, real_root]) == real_root
    # It names itself, and by its absolute name too.
    assert contain(root, contained, allow_hidden=allow_hidden) == contained
    assert contain(root, f"{root}/{contained}", allow_hidden=allow_hidden) == contained
