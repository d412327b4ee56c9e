"""What a notebook as stored owes to a kernel that is gone."""

from __future__ import annotations

import pytest

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.verification.hidden_state import hidden_state

pytestmark = pytest.mark.proves("verify:run")


def notebook(
    *sources: str, counts: tuple[int | None, ...] = (), language: str = "python"
) -> Snapshot:
    cells = tuple(
        Cell(at, f"cell-{at}", "code", source, execution_count=counts[at] if counts else None)
        for at, source in enumerate(sources)
    )
    return Snapshot("a.ipynb", cells, {"language_info": {"name": language}})


def messages(*sources: str, **options: object) -> list[str]:
    found = [each.message for each in hidden_state(notebook(*sources, **options))]  # type: ignore[arg-type]
    return list(map(str, found))


UNDEFINED_3 = "Cell 3 uses `x`, which no cell defines."


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1, 2, 3), []),
        ((None, None, None), []),
        ((1, None, 2), []),
        ((2, 1, 3), ["gap 0", "order 1", "gap 2"]),
        ((1, 1, 2), ["order 1"]),
        ((1, 5, 6), ["gap 1"]),
        ((4, 5, 6), ["gap 0"]),
    ],
)
def test_counts_that_do_not_increase_one_by_one_are_named(
    counts: tuple[int | None, ...], expected: list[str]
) -> None:
    found = hidden_state(notebook("1", "2", "3", counts=counts))
    assert [f"{each.kind} {each.index}" for each in found] == expected


def test_the_sentences_count_cells_from_one() -> None:
    assert messages("1", "2", counts=(7, 3)) == [
        "Cell 1 [7]: 6 runs are not in the notebook, before it.",
        "Cell 2 [3] ran before cell 1 [7].",
    ]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["x = 1", "x"], []),
        (["x"], ["Cell 1 uses `x`, which no cell defines."]),
        (["x", "x = 1"], ["Cell 1 uses `x`, which only cell 2 below defines."]),
        (["def f():\n    return x", "x = 1", "f()"], []),
        (["def f():\n    return x", "f()"], ["Cell 1 uses `x`, which no cell defines."]),
        (["f = lambda: y", "y = 1"], []),
        (
            ["[i * k for i in range(3)]", "k = 1"],
            ["Cell 1 uses `k`, which only cell 2 below defines."],
        ),
        (
            ["class A(B):\n    x = y", "B = y = object"],
            ["Cell 1 uses `B`, `y`, which only cell 2 below defines."],
        ),
        (["x = 1\ndel x", "x"], []),
        (["x += 1"], ["Cell 1 uses `x`, which no cell defines."]),
        # Whatever IPython defines.
        (["print(_, __, _3, _i, _i7, In, Out, _oh, get_ipython(), __name__); display(1)"], []),
        (["%matplotlib inline\n!ls\nfiles = !ls\nlen(files)"], []),
        (["ls", "pwd \nx = 1", "x"], []),
        (["ls.x"], ["Cell 1 uses `ls`, which no cell defines."]),
        (["%time x = 1", "x"], []),
        (["%%time\nx = 1", "x"], []),
        (["%%capture caught\nprint(1)", "caught"], []),
        (["%%capture --no-stderr caught\nprint(1)", "caught.stdout"], []),
        # Cells in other languages.
        (["%%bash\nls", "x = 1"], []),
        (["%%html\n<b>x</b>", "x"], ["Cell 2 uses `x`, which no cell defines."]),
        (["%%bash --out listing\nls", "listing"], []),
        # Code that may define any name.
        (["from os import *", "path"], []),
        (["%pylab", "sin(1)"], []),
        (["%run other.py", "x"], []),
        (["exec('x = 1')", "x"], []),
        (["globals()['x'] = 1", "x"], []),
        (["x", "from os import *"], ["Cell 1 uses `x`, which no cell defines."]),
        (["this is no Python", "x = 1", "x"], []),
        (["import os\nthis is no Python", "os"], []),
        (["import os\ntype T = some newer syntax", "os"], []),
        (["%%cython\ndef f(x): return x", "f(1)"], []),
        (["%%bigquery df\nselect 1", "df"], []),
        (["%%R -o df\ndf <- 1", "df"], []),
        (["%R -o df df <- 1", "df"], []),
        # Commands of more than one line, and without their sign.
        (["import os\n!pip install \\\n   numpy", "os", "x"], [UNDEFINED_3]),
        (["import os\nout = !ls \\\n  -l \\\n  .\nlen(out)", "os, out", "x"], [UNDEFINED_3]),
        (["pip install numpy==1.2 -q\nimport os", "os", "x"], [UNDEFINED_3]),
    ],
)
def test_names_that_no_cell_above_defines_are_named(
    sources: list[str], expected: list[str]
) -> None:
    assert messages(*sources) == expected


def test_a_name_is_named_once() -> None:
    assert messages("x", "x", "y") == [
        "Cell 1 uses `x`, which no cell defines.",
        "Cell 3 uses `y`, which no cell defines.",
    ]


def test_names_of_other_languages_are_not_analysed() -> None:
    assert messages("x", "y", language="julia") == []


def test_the_number_of_findings_is_limited() -> None:
    assert len(hidden_state(notebook(*(f"name{at}" for at in range(200))))) == 50
