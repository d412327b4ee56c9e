"""What an agent's own tools may read without asking: what is below the root, and not hidden."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.agent.acp.conftest import AcpTalk
from tests.harness import ToolHarness
from tk_ai_extension.agent.acp.calls import ReportedCall
from tk_ai_extension.agent.acp.paths import UNKNOWN, AgentFolder, concerned_paths
from tk_ai_extension.agent.acp.session import _lines

pytestmark = pytest.mark.proves("perm:agent-reads", "threat:path")

KEYS = (
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "dir_path",
    "paths",
    "url",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x0cb\nc\nd", ["a\x0cb\n", "c\n", "d"]),
        ("a\u2028b\r\nc\rd\n", ["a\u2028b\r\n", "c\r", "d\n"]),
        ("a\x85\x0b\x1c\n\nb", ["a\x85\x0b\x1c\n", "\n", "b"]),
    ],
)
def test_an_agent_counts_lines_as_editors_do(text: str, expected: list[str]) -> None:
    assert [_lines(text, number, 1) for number in range(1, len(expected) + 2)] == [*expected, ""]
    assert _lines(text, 2, None) == "".join(expected[1:])
    assert _lines(text, None, None) == text


def read(raw: Any = None, *locations: object, kind: str = "read") -> dict[str, Any]:
    """A request to read."""
    call: dict[str, Any] = {"kind": kind, "title": "Read"}
    if raw is not None:
        call["rawInput"] = raw
    if locations:
        call["locations"] = [{"path": str(each)} for each in locations]
    return {"toolCall": call}


@pytest.fixture
def root(harness: ToolHarness) -> Path:
    """A root with files, notebooks, hidden files and links that lead out of it."""
    root = harness.root
    harness.write("a.ipynb", "a = 1")
    (root / "sub").mkdir()
    (root / "sub" / "data.txt").write_text("data")
    (root / ".env").write_text("KEY=1")
    (root.parent / "outside.txt").write_text("secret")
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    (root / "out").symlink_to(root.parent)
    return root


def inside(root: Path, own: Path) -> list[Path]:
    """Paths that may be read."""
    names = ("", "sub", "sub/data.txt", "sub/", "a.ipynb", "missing.txt")
    return [*(root / name for name in names), own, own / "notes.txt"]


def outside(root: Path) -> list[str]:
    """Paths that may not be read without asking."""
    names = (".env", ".git/config", "link.txt", "out", "out/outside.txt", "../outside.txt")
    return [
        *(f"{root}/{name}" for name in names),
        *("/etc/passwd", "/", "//etc/passwd", "~/.ssh/id_rsa", "~", "file:///etc/passwd"),
        *(
            str(root.parent),
            f"{root}-other/a.txt",
            "../../etc/passwd",
            "{/etc,/var}/passwd",
            "a\0b",
        ),
    ]


async def test_what_is_below_the_root_is_read_without_a_card_in_every_mode(
    asking: AcpTalk, root: Path
) -> None:
    places = inside(root, asking.folder.with_name("asking"))
    requests = [
        *(read(None, place) for place in places),
        *(read({key: str(place)}, kind="read") for key, place in product(KEYS[:-1], places)),
        *(read({"pattern": ".*a|b", "path": str(place)}, kind="search") for place in places),
        read({"pattern": r"\bdef (\w+)", "-n": True}, kind="search"),
        read({"pattern": f"{root}/**/*.py"}, kind="search"),
        read({"file_path": "notes.txt"}),
    ]
    for mode in ("plan", "ask", "edit", "auto"):
        assert await asking.chosen(requests, mode) == (["once"] * len(requests), [])


async def test_what_is_elsewhere_is_a_card_and_refused_in_plan(asking: AcpTalk, root: Path) -> None:
    ok, elsewhere = root / "a.ipynb", outside(root)
    requests = [
        read(),
        read({"command": "x"}),
        read({"file_path": ""}),
        *(read(None, path) for path in elsewhere),
        *(read({key: path}) for key, path in product(KEYS, elsewhere)),
        *(read({"file_path": str(ok)}, ok, path) for path in elsewhere),
        *(read({"file_path": str(ok), "options": [{"path": path}]}, ok) for path in elsewhere),
        *(read({"path": path, "pattern": "x"}, kind="search") for path in elsewhere),
        *(read({"pattern": path}, kind="search") for path in elsewhere if path[0] in "/~{.f"),
        read({"pattern": f"{root}/{{../x,/etc}}/*"}, kind="search"),
    ]
    refused = ["no"] * len(requests)
    assert await asking.chosen(requests, "plan") == (refused, [])
    answers, cards = await asking.chosen(requests, "ask")
    assert (answers, len(cards)) == (refused, len(requests))
    assert {each["effect"] for each in cards} == {"EXECUTE"}
    assert (await asking.chosen(requests[3:9], "edit", "once"))[0] == ["once"] * 6
    assert await asking.chosen(requests, "auto") == (["once"] * len(requests), [])


def test_every_path_that_is_named_counts(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path, own=True)
    generator = random.Random(3)

    def nested(value: object, depth: int) -> object:
        """A value below arguments, with others beside it."""
        for _ in range(depth):
            other = generator.choice(["x", 5, None, True, str(tmp_path / "own.txt")])
            value = generator.choice(
                [[other, value], {"note": other, generator.choice(KEYS): value}]
            )
        return value

    for _ in range(2_000):
        raw = {generator.choice(KEYS): nested("/etc/passwd", generator.randrange(6))}
        kind = generator.choice(["read", "search"])
        call = ReportedCall("1", kind=kind, raw=raw, locations=[str(tmp_path / "own.txt")])
        assert {"/etc/passwd", UNKNOWN} & {*concerned_paths(call, folder, writes=False)}, raw


def test_only_a_folder_of_its_own_is_the_agents(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    own, shared = AgentFolder(tmp_path, own=True), AgentFolder(tmp_path, own=False)

    def paths(folder: AgentFolder, raw: Mapping[str, Any], kind: str = "read") -> Any:
        return concerned_paths(ReportedCall("1", kind=kind, raw=raw), folder, writes=False)

    assert paths(own, {"path": "a/b.txt"}) == paths(own, {"path": str(tmp_path)}) == ()
    assert paths(own, {"pattern": "x"}, "search") == ()
    assert paths(shared, {"pattern": "x"}, "search") == (str(tmp_path),)
    assert paths(shared, {"path": ".env"}) == (str(tmp_path / ".env"),)
    for path in ("link/passwd", "../x", f"{tmp_path}-other", f"{tmp_path}/../x"):
        assert paths(own, {"path": path}) != (), path
