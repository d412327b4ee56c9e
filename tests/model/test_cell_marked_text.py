"""The cell-marked text: rendered, parsed, written back."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.cell_marked_text import (
    parse,
    render,
)
from tk_ai_extension.model.cell_operations import Delete, Insert, Move, Operation, Replace
from tk_ai_extension.model.cells import Cell, CellData, CellType, Snapshot, cell_keys
from tk_ai_extension.model.errors import Conflict, InvalidArguments
from tk_ai_extension.model.three_way_merge import merge

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
            Cell(key, cell[2] if len(cell) > 2 else "code", cell[1], cell[0])
            for key, cell in zip(keys, cells, strict=True)
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


# --- writing back


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
        Insert(CellData("code", "again"), index=3),
        Insert(CellData("code", "new"), index=4),
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
