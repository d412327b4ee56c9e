"""What is known of a live notebook follows what is done to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from jupyter_ydoc import YNotebook

from tests.notebooks.forms import PLAIN
from tests.support.document_bench import code, display
from tk_ai_extension.notebooks.rooms.live import LiveNotebook


@st.composite
def doings(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    kind = st.sampled_from(["type", "insert", "delete", "move", "output", "retype", "name", "meta"])
    return draw(st.lists(st.tuples(kind, st.integers(0, 9), st.integers(0, 9)), max_size=12))


def do(document: YNotebook, kind: str, place: int, to: int) -> None:
    """Does one thing to a shared notebook, as anybody may."""
    cells = document.ycells
    place, to = place % len(cells), to % len(cells)
    match kind:
        case "type":
            cells[place]["source"].insert(0, "ü")
        case "insert":
            cells.insert(to, document.create_ycell(code("new") | {"source": "new"}))
        case "delete" if len(cells) > 1:
            del cells[place]
        case "move":
            stored = document.get_cell(place)
            del cells[place]
            cells.insert(to, document.create_ycell(stored))
        case "output" if cells[place]["cell_type"] == "code":
            cells[place]["outputs"].append(display(text_plain="x"))
        case "retype":
            stored = {**document.get_cell(place), "cell_type": "raw"}
            cells[place] = document.create_ycell(stored)
        case "name":
            cells[place]["id"] = cells[to]["id"] if place < to else f"named-{to}"
        case "meta":
            cells[place]["metadata"]["k"] = float(to)
        case _:
            pass


def is_found_where_it_is(known: LiveNotebook, document: YNotebook) -> None:
    """Looks for each cell, and for one that is not there."""
    ids = [cell["id"] for cell in document.ycells]
    for shared_id in (*ids, "gone"):
        place = ids.index(shared_id) if shared_id in ids else None
        assert known.find(shared_id, "n.ipynb") == place


@given(doings(), st.booleans())
def test_a_live_notebook_knows_what_a_fresh_look_finds(
    steps: list[tuple[str, int, int]], at_once: bool
) -> None:
    document = YNotebook()
    document.set(PLAIN)
    known = LiveNotebook(document, lambda: None)
    known.snapshot("n.ipynb")

    if at_once:
        with document.ydoc.transaction():
            for each in steps:
                do(document, *each)
    else:
        for each in steps:
            do(document, *each)
            is_found_where_it_is(known, document)
            known.snapshot("n.ipynb")
    is_found_where_it_is(known, document)
    fresh = LiveNotebook(document, lambda: None).snapshot("n.ipynb")
    assert known.snapshot("n.ipynb") == fresh
