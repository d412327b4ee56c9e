"""The cell-marked text: rendered, parsed, written back."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.cells import Cell, CellContent, CellType, Snapshot, cell_keys
from tk_ai_extension.model.celltext import (
    CellRef,
    parse,
    render,
    select_lines,
)
from tk_ai_extension.model.errors import Conflict, InvalidArguments
from tk_ai_extension.model.merging import merge
from tk_ai_extension.model.operations import Delete, Insert, Move, Operation, Replace

Kind = tuple[str | None, str] | tuple[str | None, str, CellType]


def typed(snapshot: Snapshot) -> list[Kind]:
    """The cells of a snapshot, to make another of."""
    return [(cell.id, cell.source, cell.type) for cell in snapshot.cells]


def notebook(*cells: Kind, path: str = "n.ipynb") -> Snapshot:
    """A snapshot of cells given as id, source and type."""
    keys = cell_keys([cell[0] for cell in cells])
    return Snapshot(
        path,
        tuple(
            Cell(index, keys[index], cell[2] if len(cell) > 2 else "code", cell[1], cell[0])
            for index, cell in enumerate(cells)
        ),
    )


THREE = notebook(
    ("318aaaaa", "import pandas as pd"), ("77b0aaaa", "## Load", "markdown"), ("9c9caaaa", "df")
)


def done(snapshot: Snapshot, operations: Sequence[Operation]) -> list[tuple[CellType, str]]:
    """Types and sources after the operations."""
    order: list[tuple[str | None, CellType, str]] = [
        (cell.key, cell.type, cell.source) for cell in snapshot.cells
    ]

    def at(key: str) -> int:
        return next(index for index, cell in enumerate(order) if cell[0] == key)

    for operation in operations:
        match operation:
            case Replace(key, source, new_type):
                old = order[at(key)]
                order[at(key)] = (key, new_type or old[1], source)
            case Delete(key):
                del order[at(key)]
            case Move(key, to):
                order.insert(to, order.pop(at(key)))
            case Insert(content, index):
                assert index is not None
                order.insert(index, (None, content.type, content.source))
            case _:
                raise AssertionError(operation)
    return [(kind, source) for _, kind, source in order]


# --- rendering and parsing


@pytest.mark.proves("text:read")
def test_a_notebook_reads_as_marked_text_with_short_ids() -> None:
    assert render(THREE) == (
        f"# %% notebook: n.ipynb rev:{THREE.revision}\n"
        "# %% [code] @318a\n"
        "import pandas as pd\n"
        "# %% [markdown] @77b0\n"
        "## Load\n"
        "# %% [code] @9c9c\n"
        "df\n"
    )


def test_ids_that_begin_alike_are_distinguished_and_versions_are_there_on_request() -> None:
    alike = notebook(("aaaa1111", "x"), ("aaaa1222", "y"))
    assert "@aaaa11\n" in render(alike)
    assert f"@aaaa11.{alike.cells[0].hash[:8]}\n" in render(alike, versioned=True)
    assert merge(alike, alike, parse(render(alike, versioned=True))) == []


def test_cells_without_a_usable_id_are_numbered() -> None:
    odd = notebook((None, "a"), ("with space", "b"), ("twice", "c"), ("twice", "d"))
    assert [line for line in render(odd).splitlines() if line.startswith("# %% [")] == [
        f"# %% [code] cell:{number}" for number in range(4)
    ]
    assert merge(odd, odd, parse(render(odd))) == []


@pytest.mark.proves("text:merge", "text:ranges")
def test_a_part_carries_its_range() -> None:
    text = render(THREE, [0, 2])
    assert text.splitlines()[0].endswith("cells:0,2")
    assert "## Load" not in text
    assert parse(text).ranges == "0,2"


def test_the_header_is_read_whatever_the_path() -> None:
    path = "my rev:12 cells:3 notes.ipynb"
    parsed = parse(render(notebook(("aaaa", "x"), path=path), [0]))
    assert (parsed.path, parsed.ranges) == (path, "0")


@pytest.mark.parametrize("source", ["", "\n", "\n\n", "a", "a\n", "\na", "a\n\n", "a\r\nb", "a\rb"])
def test_a_source_is_what_is_between_two_markers(source: str) -> None:
    parsed = parse(render(notebook(("aaaa", source), ("bbbb", "next"), ("cccc", source))))
    assert [cell.source for cell in parsed.cells] == [source, "next", source]


@pytest.mark.proves("text:round-trip")
@given(
    st.lists(
        st.tuples(
            st.text(st.sampled_from("# %[]code\n\r\ufeffé")) | st.text(),
            st.sampled_from(["code", "markdown", "raw"]),
        )
    )
)
def test_every_source_survives_the_round_trip(cells: list[tuple[str, CellType]]) -> None:
    made: list[Kind] = [(f"c{n:07}", source, kind) for n, (source, kind) in enumerate(cells)]
    snapshot = notebook(*made)
    parsed = parse(render(snapshot))
    assert [(cell.source, cell.type) for cell in parsed.cells] == cells
    assert merge(snapshot, snapshot, parsed) == []


@pytest.mark.proves("text:strict-start")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\n# %% [code]\nx",
        "x = 1\n",
        " # %% [code]\n",
        "# %%% [code]\n",
        "# %% notebook: n.ipynb rev:abc\n\n# %% [code]\n",
        "# %% notebook: n.ipynb rev:abc\nx\n",
    ],
)
def test_text_before_the_first_marker_is_an_error(text: str) -> None:
    with pytest.raises(InvalidArguments, match="before the first cell marker"):
        parse(text)


@pytest.mark.parametrize(
    "line", ["# %% Title", "# %% [python]", "# %%", "# %% [code] 318a", "# %% [code] @a b"]
)
def test_a_line_that_is_neither_marker_nor_escaped_is_an_error(line: str) -> None:
    with pytest.raises(InvalidArguments, match="Line 3") as raised:
        parse(f"# %% [code]\nx\n{line}\n")
    assert "# %%%" in raised.value.hint


def test_a_header_alone_is_a_notebook_without_cells() -> None:
    assert parse("# %% notebook: n.ipynb rev:abc").cells == ()


@pytest.mark.parametrize("change", ["\r\n", "bom", "no end"])
def test_line_endings_and_byte_order_marks_make_no_change(change: str) -> None:
    text = render(THREE)
    if change == "bom":
        text = "\ufeff" + text
    elif change == "no end":
        text = text.rstrip("\n")
    else:
        text = text.replace("\n", change)
    assert merge(THREE, THREE, parse(text)) == []


def test_markers_name_cells_by_id_by_version_and_by_number() -> None:
    cells = parse(
        "# %% [code] @318a\n# %% [raw] cell:2\n# %% [code] @9c9c.0123abcd\n# %% [code]"
    ).cells
    assert [cell.ref for cell in cells] == [
        CellRef("@318a", prefix="318a"),
        CellRef("cell:2", number=2),
        CellRef("@9c9c.0123abcd", prefix="9c9c.0123abcd"),
        None,
    ]
    assert [cell.line for cell in cells] == [1, 2, 3, 4]


@pytest.mark.proves("text:ranges")
def test_lines_are_selected_from_one() -> None:
    assert select_lines(render(THREE), "2-3,6-") == (
        "# %% [code] @318a\nimport pandas as pd\n# %% [code] @9c9c\ndf\n"
    )
    with pytest.raises(InvalidArguments):
        select_lines("a\n", "0")


# --- writing back


@pytest.mark.proves("text:metadata")
def test_a_changed_source_and_type_replace_what_was_seen() -> None:
    text = render(THREE).replace("[markdown] @77b0\n## Load", "[raw] @77b0\nload")
    assert merge(THREE, THREE, parse(text)) == [
        Replace("77b0aaaa", "load", "raw", keep_outputs=True, expect=THREE.cells[1].hash)
    ]


@pytest.mark.proves("text:merge")
def test_changes_of_others_stay() -> None:
    current = notebook(
        ("new00000", "theirs"),
        ("318aaaaa", "import pandas as pd"),
        ("77b0aaaa", "## Their title", "markdown"),
        ("9c9caaaa", "df"),
    )
    text = render(THREE).replace("\ndf\n", "\ndf.head()\n")
    assert done(current, merge(THREE, current, parse(text))) == [
        ("code", "theirs"),
        ("code", "import pandas as pd"),
        ("markdown", "## Their title"),
        ("code", "df.head()"),
    ]


@pytest.mark.proves("text:merge")
def test_a_cell_that_both_changed_shows_both() -> None:
    current = notebook(
        ("318aaaaa", "theirs"), ("77b0aaaa", "## Load", "markdown"), ("9c9caaaa", "df")
    )
    text = render(THREE).replace("import pandas as pd", "mine").replace("\ndf\n", "\nmine too\n")
    with pytest.raises(Conflict) as raised:
        merge(THREE, current, parse(text))
    assert raised.value.details["cells"] == [
        {
            "cell": "318aaaaa",
            "address": current.address(current.cells[0]),
            "source": "theirs",
            "yours": "mine",
        }
    ]
    assert "theirs\n# yours: \nmine" in raised.value.as_text()


def test_the_same_change_on_both_sides_is_none() -> None:
    current = notebook(("318aaaaa", "same"), *typed(THREE)[1:])
    text = render(THREE).replace("import pandas as pd", "same")
    assert merge(THREE, current, parse(text)) == []


def test_a_cell_that_others_deleted_stays_deleted_unless_it_was_changed() -> None:
    current = notebook(("318aaaaa", "import pandas as pd"), ("77b0aaaa", "## Load", "markdown"))
    assert merge(THREE, current, parse(render(THREE))) == []
    with pytest.raises(Conflict) as raised:
        merge(THREE, current, parse(render(THREE).replace("\ndf\n", "\nmine\n")))
    (cell,) = raised.value.details["cells"]
    assert (cell["source"], cell["yours"]) == (None, "mine")


@pytest.mark.proves("text:merge")
def test_a_cell_that_others_changed_is_not_deleted() -> None:
    current = notebook(
        ("318aaaaa", "theirs"), ("77b0aaaa", "## Load", "markdown"), ("9c9caaaa", "df")
    )
    text = render(THREE).replace("# %% [code] @318a\nimport pandas as pd\n", "")
    with pytest.raises(Conflict):
        merge(THREE, current, parse(text))
    assert done(THREE, merge(THREE, THREE, parse(text))) == [
        ("markdown", "## Load"),
        ("code", "df"),
    ]


@pytest.mark.proves("text:merge")
def test_an_unknown_an_ambiguous_and_a_repeated_id_are_errors() -> None:
    alike = notebook(("aaaa1111", "x"), ("aaaa1222", "y"))
    for text in ("# %% [code] @zzzz\n", "# %% [code] @aaaa\n", "# %% [code] @aaaa11\n" * 2):
        with pytest.raises(InvalidArguments, match="Line"):
            merge(alike, alike, parse(text))


def test_another_version_than_the_one_read_is_a_conflict() -> None:
    text = render(THREE, versioned=True).replace(THREE.cells[2].hash[:8], "00000000")
    with pytest.raises(Conflict):
        merge(THREE, THREE, parse(text))


@pytest.mark.proves("text:cell-n")
def test_numbers_mean_the_cells_of_the_revision_that_was_read() -> None:
    current = notebook(("new00000", "theirs"), *typed(THREE))
    text = "# %% [code] cell:0\nimport pandas as pd\n# %% [markdown] cell:1\nmine\n# %% [code] cell:2\ndf\n"
    assert done(current, merge(THREE, current, parse(text)))[1:] == [
        ("code", "import pandas as pd"),
        ("markdown", "mine"),
        ("code", "df"),
    ]


@pytest.mark.proves("text:cell-n", "text:metadata")
def test_a_number_that_is_used_or_does_not_exist_makes_a_new_cell() -> None:
    text = render(THREE) + "# %% [code] cell:0\nagain\n# %% [code] cell:9\nnew\n"
    operations = merge(THREE, THREE, parse(text))
    assert operations == [
        Insert(CellContent("code", "again"), index=3),
        Insert(CellContent("code", "new"), index=4),
    ]


def test_new_cells_go_after_the_cell_before_them() -> None:
    current = notebook(
        ("318aaaaa", "import pandas as pd"),
        ("theirs00", "theirs"),
        ("77b0aaaa", "## Load", "markdown"),
        ("9c9caaaa", "df"),
    )
    lines = render(THREE).splitlines(keepends=True)
    text = "".join(
        [lines[0], "# %% [code]\nfirst\n", *lines[1:3], "# %% [code]\nafter\n", *lines[3:]]
    )
    assert [source for _, source in done(current, merge(THREE, current, parse(text)))] == [
        "first",
        "import pandas as pd",
        "after",
        "theirs",
        "## Load",
        "df",
    ]


def test_a_new_cell_in_a_part_stays_there_though_all_of_the_part_goes() -> None:
    header = render(THREE, [1]).splitlines()[0]
    operations = merge(THREE, THREE, parse(f"{header}\n# %% [code]\nnew\n"))
    assert done(THREE, operations) == [
        ("code", "import pandas as pd"),
        ("code", "new"),
        ("code", "df"),
    ]


@given(st.permutations(range(7)))
def test_the_fewest_cells_are_moved(order: list[int]) -> None:
    base = notebook(*((f"c{n}aaaaaa", f"source {n}") for n in range(7)))
    header, *cells = render(base).split("# %% [")
    text = "# %% [".join([header, *(cells[n] for n in order)])
    operations = merge(base, base, parse(text))
    assert all(isinstance(operation, Move) for operation in operations)
    assert [source for _, source in done(base, operations)] == [f"source {n}" for n in order]
    longest = max(
        sum(1 for n in order if chosen >> n & 1)
        for chosen in range(1 << 7)
        if (kept := [n for n in order if chosen >> n & 1]) == sorted(kept)
    )
    assert len(operations) == 7 - longest


def test_cells_without_ids_are_found_by_what_is_in_them() -> None:
    base = notebook(*((None, source) for source in "abcd"))
    current = notebook(*((None, source) for source in ["new", "a", "theirs", "c", "d"]))
    text = render(base).replace("\nd\n", "\nmine\n")
    assert [source for _, source in done(current, merge(base, current, parse(text)))] == [
        "new",
        "a",
        "theirs",
        "c",
        "mine",
    ]
    with pytest.raises(Conflict):
        merge(base, current, parse(render(base).replace("\nb\n", "\nmine\n")))


@given(st.integers(0, 10_000))
def test_a_merge_does_what_both_sides_did_or_nothing(seed: int) -> None:
    """Both sides edit, delete, add and rearrange at random; no change of either is lost."""
    chance = random.Random(seed)
    base = notebook(*((f"c{n}aaaaaa", f"base {n}") for n in range(5)))
    theirs = [(c.id, c.source) for c in base.cells]
    changed: dict[str | None, str] = {}
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(theirs))
        changed[theirs[at][0]] = f"theirs {at}"
        theirs[at] = (theirs[at][0], f"theirs {at}")
    for _ in range(chance.randrange(3)):
        theirs.insert(chance.randrange(len(theirs) + 1), (f"new{len(theirs)}aaaa", "their new"))
    chance.shuffle(theirs) if chance.random() < 0.3 else None
    current = notebook(*theirs)
    ours = [(f"@{base.short_keys[c.key]}", c.id, c.source) for c in base.cells]
    mine: dict[str | None, str] = {}
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(ours))
        mine[ours[at][1]] = f"mine {at}"
        ours[at] = (ours[at][0], ours[at][1], f"mine {at}")
    chance.shuffle(ours) if chance.random() < 0.3 else None
    ours.insert(chance.randrange(len(ours) + 1), ("", None, "my new"))
    text = "".join(f"# %% [code] {ref}\n{source}\n" for ref, _, source in ours)
    clash = {key for key in mine if key in changed}
    if clash:
        with pytest.raises(Conflict) as raised:
            merge(base, current, parse(text))
        assert {cell["cell"] for cell in raised.value.details["cells"]} == clash
        return
    found = [source for _, source in done(current, merge(base, current, parse(text)))]
    expected = [mine.get(cell.id, cell.source) for cell in current.cells] + ["my new"]
    assert sorted(found) == sorted(expected)
