"""Which notebooks there are, and which one the caller works in."""

import pytest

from tests.harness import BOB, NOBODY
from tk_ai_extension.model.errors import (
    FileMissing,
    InvalidArguments,
    KernelNotFound,
    NotebookExists,
    NotebookNotFound,
    NotReadable,
    PathRefused,
)


@pytest.mark.proves("ext:use-notebook", "kernel:session", "ext:session-visible", "kernel:readiness")
async def test_use_notebook_starts_a_kernel_waits_and_makes_the_session(harness, caplog):
    harness.write("n.ipynb", "a = 1")
    caplog.set_level("INFO", "tk_ai_extension")
    used = await harness.call("use_notebook", notebook="n.ipynb")
    assert (used.kernel, used.kernel_name, used.total_cells) == ("started", "python3", 1)
    sessions = await harness.app.session_manager.list_sessions()
    assert [(s["path"], s["kernel"]["id"]) for s in sessions] == [("n.ipynb", used.kernel_id)]
    assert "is ready (took" in caplog.text
    assert (await harness.call("execute_ipython", code="1 + 1")).runs[0].output == "2"


@pytest.mark.proves("ext:use-notebook")
async def test_using_it_twice_changes_nothing(harness):
    harness.write("n.ipynb", "a = 1")
    first = await harness.call("use_notebook", notebook="n.ipynb")
    second = await harness.call("use_notebook", notebook="n.ipynb")
    assert (second.kernel, second.kernel_id) == ("kept", first.kernel_id)
    assert len(await harness.app.session_manager.list_sessions()) == 1
    assert len(harness.app.kernel_manager.list_kernel_ids()) == 1
    assert len((await harness.call("list_managed_notebooks")).notebooks) == 1


@pytest.mark.proves("kernel:shared-live", "ext:use-notebook")
async def test_a_notebook_that_a_person_runs_is_joined_not_given_a_second_kernel(harness):
    harness.write("n.ipynb", "a = 1")
    session = await harness.app.session_manager.create_session(
        path="n.ipynb", name="n.ipynb", type="notebook", kernel_name="python3"
    )
    used = await harness.call("use_notebook", notebook="n.ipynb")
    assert (used.kernel, used.kernel_id) == ("joined", session["kernel"]["id"])
    assert harness.app.kernel_manager.list_kernel_ids() == [used.kernel_id]


async def test_create_mode_makes_the_notebook_and_connect_mode_does_not(harness):
    with pytest.raises(NotebookNotFound) as raised:
        await harness.call("use_notebook", notebook="new.ipynb")
    assert "create" in raised.value.hint
    await harness.call("use_notebook", notebook="new.ipynb", mode="create")
    assert harness.on_disk("new.ipynb").metadata.kernelspec.name == "python3"
    await harness.call("insert_cell", source="x = 1")
    assert harness.sources("new.ipynb") == ["x = 1"]


async def test_a_wrong_kernel_name_or_id_starts_nothing(harness):
    harness.write("n.ipynb", "a = 1")
    with pytest.raises(InvalidArguments) as raised:
        await harness.call("use_notebook", notebook="n.ipynb", kernel_name="cobol")
    assert "python3" in raised.value.message
    with pytest.raises(KernelNotFound):
        await harness.call("use_notebook", notebook="n.ipynb", kernel_id="nobody's")
    for wrong in ({"kernel_name": "cobol"}, {"name": "a/b"}):
        with pytest.raises(InvalidArguments):
            await harness.call("use_notebook", notebook="x.ipynb", mode="create", **wrong)
    harness.write("cobol.ipynb", "a", kernelspec={"name": "cobol", "display_name": "Cobol"})
    with pytest.raises(InvalidArguments):
        await harness.call("use_notebook", notebook="cobol.ipynb")
    assert harness.app.kernel_manager.list_kernel_ids() == []
    assert not (harness.root / "x.ipynb").exists()


@pytest.mark.proves("ext:notebook-manager", "ext:unuse")
async def test_several_notebooks_at_once_each_with_its_kernel(harness):
    harness.write("a.ipynb", "x = 'a'")
    harness.write("b.ipynb", "x = 'b'")
    await harness.call("use_notebook", notebook="a.ipynb", name="first")
    await harness.call("use_notebook", notebook="b.ipynb")
    managed = (await harness.call("list_managed_notebooks")).notebooks
    assert [(m.name, m.notebook, m.current) for m in managed] == [
        ("first", "a.ipynb", False),
        ("b.ipynb", "b.ipynb", True),
    ]
    await harness.call("execute_cell", cell=0)
    await harness.call("execute_cell", notebook="first", cell=0)
    assert (await harness.call("execute_ipython", notebook="first", code="x")).runs[
        0
    ].output == "'a'"
    left = await harness.call("unuse_notebook", notebook="b.ipynb", shutdown_kernel=True)
    assert left.kernel == "shut down"
    left = await harness.call("unuse_notebook", notebook="first")
    assert left.kernel == "left running"
    assert len(harness.app.kernel_manager.list_kernel_ids()) == 1
    assert "No notebook connected" in (await harness.call("list_managed_notebooks")).as_text()


async def test_a_caller_without_a_session_is_asked_to_name_the_notebook(harness):
    harness.write("n.ipynb", "a = 1")
    used = await harness.call("use_notebook", caller=NOBODY, notebook="n.ipynb")
    assert not used.has_session
    assert "pass `notebook` in each call" in used.full_text()
    result = await harness.call("execute_ipython", caller=NOBODY, notebook="n.ipynb", code="5")
    assert result.runs[0].output == "5"


async def test_notebooks_are_listed_with_who_uses_them(harness):
    harness.write("a.ipynb", "x", "y")
    harness.write("deep/er/b.ipynb", "x")
    (harness.root / "deep" / "broken.ipynb").write_text("{")
    (harness.root / ".hidden.ipynb").write_text("{}")
    await harness.call("use_notebook", caller=BOB, notebook="a.ipynb")
    listed = (await harness.call("list_notebooks")).notebooks
    assert [(n.notebook, n.cells) for n in listed] == [
        ("a.ipynb", 2),
        ("deep/broken.ipynb", None),
        ("deep/er/b.ipynb", 1),
    ]
    assert listed[0].kernel is not None
    assert listed[0].open_by
    assert len((await harness.call("list_notebooks", recursive=False)).notebooks) == 1
    assert (await harness.call("list_notebooks", limit=1)).more == 2
    with pytest.raises((FileMissing, PathRefused)):
        await harness.call("list_notebooks", path="nowhere")


async def test_create_refuses_to_overwrite(harness):
    cells = [{"source": "# Hi", "cell_type": "markdown"}, {"source": "a = 1"}]
    created = await harness.call("create_notebook", notebook="c.ipynb", cells=cells)
    assert created.total_cells == 2
    assert harness.sources("c.ipynb") == ["# Hi", "a = 1"]
    before = (harness.root / "c.ipynb").read_bytes()
    with pytest.raises(NotebookExists):
        await harness.call("create_notebook", notebook="c.ipynb")
    assert (harness.root / "c.ipynb").read_bytes() == before
    with pytest.raises(InvalidArguments):
        await harness.call("create_notebook", notebook="d.ipynb", cells=[{"source": 3}])
    await harness.call("create_notebook", notebook="d.ipynb")
    assert harness.sources("d.ipynb") == []


async def test_files_are_listed_and_read_page_by_page(harness):
    (harness.root / "data").mkdir()
    (harness.root / "data" / "t.csv").write_text("".join(f"row {n}\n" for n in range(500)))
    (harness.root / "data" / "b.bin").write_bytes(b"\x00\xff\xfe")
    harness.write("n.ipynb", "a")
    listed = await harness.call("list_files")
    assert {(f.path, f.kind) for f in listed.files} >= {
        ("data", "directory"),
        ("n.ipynb", "notebook"),
    }
    assert [f.path for f in (await harness.call("list_files", pattern="*.csv")).files] == [
        "data/t.csv"
    ]
    page = await harness.call("read_file", path="data/t.csv", offset=100, limit=2)
    assert (page.content, page.next_offset, page.total_lines) == ("row 100\nrow 101", 102, 500)
    found = await harness.call("read_file", path="data/t.csv", grep="row 49$")
    assert found.content == "49: row 49"
    with pytest.raises(NotReadable, match="is a notebook"):
        await harness.call("read_file", path="n.ipynb")
    with pytest.raises(NotReadable):
        await harness.call("read_file", path="data/b.bin")
    with pytest.raises((NotReadable, FileMissing)):
        await harness.call("read_file", path="data")
    with pytest.raises(FileMissing):
        await harness.call("read_file", path="nothing.txt")
    with pytest.raises(PathRefused):
        await harness.call("read_file", path="../../etc/passwd")


@pytest.mark.proves("edit:history")
async def test_a_notebook_made_from_text_is_journalled_and_can_be_taken_back(harness):
    text = "# %% [markdown]\n# Title\n# %% [code]\na = 1"
    written = await harness.call("write_notebook", notebook="new.ipynb", text=text)
    assert [change.cell_type for change in written.changes] == ["markdown", "code"]
    history = (await harness.call("notebook_history", notebook="new.ipynb")).entries
    assert [entry.tool for entry in history] == ["write_notebook"]
    await harness.call(
        "overwrite_cell", notebook="new.ipynb", cell=1, source="a = 2"
    )  # own, so seen
    await harness.call("undo", notebook="new.ipynb", steps=2)
    assert harness.sources("new.ipynb") == []
