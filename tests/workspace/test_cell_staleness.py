"""The state of a cell follows from what ran and what it depends on."""

import pytest

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.notebooks.notebook import KernelIncarnation, LastRuns, states

KERNEL = KernelIncarnation("k")


def notebook(*sources, language="python"):
    cells = tuple(
        Cell(f"c{index}", "code", source, id=f"c{index}") for index, source in enumerate(sources)
    )
    return Snapshot("n.ipynb", cells, {"language_info": {"name": language}})


def run_all(records, snapshot):
    for cell in snapshot.cells:
        records.record(cell.key, cell.hash, KERNEL, ok=True)


def values(snapshot, records, running=()):
    return list(states(snapshot, records.by_cell(), running).values())


def test_an_edit_makes_all_that_depends_on_it_stale():
    records = LastRuns()
    run_all(records, notebook("a = 1", "b = a", "print(b)", "c = 3"))
    edited = notebook("a = 2", "b = a", "print(b)", "c = 3")
    assert values(edited, records) == ["edited", "stale", "stale", "fresh"]


def test_a_definition_that_ran_later_makes_its_users_stale():
    records, snapshot = LastRuns(), notebook("a = 1", "b = a", "c = 1")
    run_all(records, snapshot)
    records.record("c0", snapshot.cells[0].hash, KERNEL, ok=True)
    assert values(snapshot, records) == ["fresh", "stale", "fresh"]


def test_a_change_in_place_is_a_definition():
    records, snapshot = LastRuns(), notebook("df = 1", "df['x'] = 2", "df.plot()")
    run_all(records, snapshot)
    records.record("c1", snapshot.cells[1].hash, KERNEL, ok=True)
    assert values(snapshot, records) == ["fresh", "fresh", "stale"]


@pytest.mark.proves("kernel:shared-live")
def test_a_kernel_that_is_gone_takes_its_runs_with_it_and_another_persons_run_counts():
    records, snapshot = LastRuns(), notebook("a = 1", "b = a")
    gone = KernelIncarnation("k")
    for cell in snapshot.cells:
        records.record(cell.key, cell.hash, gone, ok=True)
    gone.has_ended = True
    records.record("c0", snapshot.cells[0].hash, gone, ok=True)
    assert values(snapshot, records) == ["never", "never"]
    records.record_foreign(KERNEL, snapshot, "a = 1")
    assert values(snapshot, records) == ["fresh", "never"]


def test_other_languages_know_fresh_and_edited():
    records = LastRuns()
    run_all(records, notebook("x=1", "echo $x", language="bash"))
    assert values(notebook("x=2", "echo $x", language="bash"), records) == ["edited", "fresh"]
