"""Which notebooks there are, and which one the caller works in."""

import pytest

from tests.desk import BOB, NOBODY
from tk_ai_extension.model.errors import (
    FileMissing,
    InvalidArguments,
    KernelNotFound,
    KernelspecNotFound,
    NotebookExists,
    NotebookNotFound,
    NotReadable,
    PathRefused,
    ToolError,
)


@pytest.mark.proves("ext:use-notebook", "kernel:session", "ext:session-visible", "kernel:readiness")
async def test_use_notebook_starts_a_kernel_waits_and_makes_the_session(desk, caplog):
    desk.write("n.ipynb", "a = 1")
    caplog.set_level("INFO", "tk_ai_extension")
    used = await desk.call("use_notebook", notebook="n.ipynb")
    assert (used.kernel, used.kernel_name, used.total_cells) == ("started", "python3", 1)
    sessions = await desk.app.session_manager.list_sessions()
    assert [(s["path"], s["kernel"]["id"]) for s in sessions] == [("n.ipynb", used.kernel_id)]
    assert "is ready (took" in caplog.text
    assert (await desk.call("execute_ipython", code="1 + 1")).runs[0].output == "2"


@pytest.mark.proves("ext:use-notebook")
async def test_using_it_twice_changes_nothing(desk):
    desk.write("n.ipynb", "a = 1")
    first = await desk.call("use_notebook", notebook="n.ipynb")
    second = await desk.call("use_notebook", notebook="n.ipynb")
    assert (second.kernel, second.kernel_id) == ("kept", first.kernel_id)
    assert len(await desk.app.session_manager.list_sessions()) == 1
    assert len(desk.app.kernel_manager.list_kernel_ids()) == 1
    assert len((await desk.call("list_managed_notebooks")).notebooks) == 1


@pytest.mark.proves("kernel:shared-live", "ext:use-notebook")
async def test_a_notebook_that_a_person_runs_is_joined_not_given_a_second_kernel(desk):
    desk.write("n.ipynb", "a = 1")
    session = await desk.app.session_manager.create_session(
        path="n.ipynb", name="n.ipynb", type="notebook", kernel_name="python3"
    )
    used = await desk.call("use_notebook", notebook="n.ipynb")
    assert (used.kernel, used.kernel_id) == ("joined", session["kernel"]["id"])
    assert desk.app.kernel_manager.list_kernel_ids() == [used.kernel_id]


async def test_create_mode_makes_the_notebook_and_connect_mode_does_not(desk):
    with pytest.raises(NotebookNotFound) as raised:
        await desk.call("use_notebook", notebook="new.ipynb")
    assert "create" in raised.value.hint
    await desk.call("use_notebook", notebook="new.ipynb", mode="create")
    assert desk.on_disk("new.ipynb").metadata.kernelspec.name == "python3"


async def test_a_wrong_kernel_name_or_id_starts_nothing(desk):
    desk.write("n.ipynb", "a = 1")
    with pytest.raises(KernelspecNotFound) as raised:
        await desk.call("use_notebook", notebook="n.ipynb", kernel_name="cobol")
    assert "python3" in raised.value.hint
    with pytest.raises(KernelNotFound):
        await desk.call("use_notebook", notebook="n.ipynb", kernel_id="nobody's")
    with pytest.raises(KernelspecNotFound):
        await desk.call("use_notebook", notebook="x.ipynb", mode="create", kernel_name="cobol")
    desk.write("cobol.ipynb", "a", kernelspec={"name": "cobol", "display_name": "Cobol"})
    with pytest.raises(KernelspecNotFound):
        await desk.call("use_notebook", notebook="cobol.ipynb")
    assert desk.app.kernel_manager.list_kernel_ids() == []
    assert not (desk.root / "x.ipynb").exists()


@pytest.mark.proves("ext:notebook-manager", "ext:unuse")
async def test_several_notebooks_at_once_each_with_its_kernel(desk):
    desk.write("a.ipynb", "x = 'a'")
    desk.write("b.ipynb", "x = 'b'")
    await desk.call("use_notebook", notebook="a.ipynb", name="first")
    await desk.call("use_notebook", notebook="b.ipynb")
    managed = (await desk.call("list_managed_notebooks")).notebooks
    assert [(m.name, m.notebook, m.current) for m in managed] == [
        ("first", "a.ipynb", False),
        ("b.ipynb", "b.ipynb", True),
    ]
    await desk.call("execute_cell", cell=0)
    await desk.call("execute_cell", notebook="first", cell=0)
    assert (await desk.call("execute_ipython", notebook="first", code="x")).runs[0].output == "'a'"
    left = await desk.call("unuse_notebook", notebook="b.ipynb", shutdown_kernel=True)
    assert left.kernel == "shut down"
    left = await desk.call("unuse_notebook", notebook="first")
    assert left.kernel == "left running"
    assert len(desk.app.kernel_manager.list_kernel_ids()) == 1
    assert "No notebook connected" in (await desk.call("list_managed_notebooks")).as_text()


async def test_a_caller_without_a_session_is_told_to_name_the_notebook(desk):
    desk.write("n.ipynb", "a = 1")
    used = await desk.call("use_notebook", caller=NOBODY, notebook="n.ipynb")
    assert not used.has_session
    assert "pass `notebook` in each call" in used.full_text()
    result = await desk.call("execute_ipython", caller=NOBODY, notebook="n.ipynb", code="5")
    assert result.runs[0].output == "5"


async def test_notebooks_are_listed_with_who_uses_them(desk):
    desk.write("a.ipynb", "x", "y")
    desk.write("deep/er/b.ipynb", "x")
    (desk.root / "deep" / "broken.ipynb").write_text("{")
    (desk.root / ".hidden.ipynb").write_text("{}")
    await desk.call("use_notebook", caller=BOB, notebook="a.ipynb")
    listed = (await desk.call("list_notebooks")).notebooks
    assert [(n.notebook, n.cells) for n in listed] == [
        ("a.ipynb", 2),
        ("deep/broken.ipynb", None),
        ("deep/er/b.ipynb", 1),
    ]
    assert listed[0].kernel is not None
    assert listed[0].open_by
    assert len((await desk.call("list_notebooks", recursive=False)).notebooks) == 1
    assert (await desk.call("list_notebooks", limit=1)).more == 2
    with pytest.raises((FileMissing, PathRefused)):
        await desk.call("list_notebooks", path="nowhere")


async def test_create_refuses_to_overwrite(desk):
    cells = [{"source": "# Hi", "cell_type": "markdown"}, {"source": "a = 1"}]
    created = await desk.call("create_notebook", notebook="c.ipynb", cells=cells)
    assert created.total_cells == 2
    assert desk.sources("c.ipynb") == ["# Hi", "a = 1"]
    before = (desk.root / "c.ipynb").read_bytes()
    with pytest.raises(NotebookExists):
        await desk.call("create_notebook", notebook="c.ipynb")
    assert (desk.root / "c.ipynb").read_bytes() == before
    with pytest.raises(InvalidArguments):
        await desk.call("create_notebook", notebook="d.ipynb", cells=[{"source": 3}])


async def test_a_notebook_created_without_cells_has_an_empty_one(desk):
    created = await desk.call("create_notebook", notebook="c.ipynb")
    assert created.total_cells == 1
    assert desk.sources("c.ipynb") == [""]


async def test_files_are_listed_and_read_page_by_page(desk):
    (desk.root / "data").mkdir()
    (desk.root / "data" / "t.csv").write_text("".join(f"row {n}\n" for n in range(500)))
    (desk.root / "data" / "b.bin").write_bytes(b"\x00\xff\xfe")
    desk.write("n.ipynb", "a")
    listed = await desk.call("list_files")
    assert {(f.path, f.kind) for f in listed.files} >= {
        ("data", "directory"),
        ("n.ipynb", "notebook"),
    }
    assert [f.path for f in (await desk.call("list_files", pattern="*.csv")).files] == [
        "data/t.csv"
    ]
    page = await desk.call("read_file", path="data/t.csv", offset=100, limit=2)
    assert (page.content, page.next_offset, page.total_lines) == ("row 100\nrow 101", 102, 500)
    found = await desk.call("read_file", path="data/t.csv", grep="row 49$")
    assert found.content == "49: row 49"
    with pytest.raises(NotReadable, match="is a notebook"):
        await desk.call("read_file", path="n.ipynb")
    with pytest.raises(NotReadable):
        await desk.call("read_file", path="data/b.bin")
    with pytest.raises((NotReadable, FileMissing)):
        await desk.call("read_file", path="data")
    with pytest.raises(FileMissing):
        await desk.call("read_file", path="nothing.txt")
    with pytest.raises(PathRefused):
        await desk.call("read_file", path="../../etc/passwd")


@pytest.mark.proves("text:delete", "doc:atomic-write")
@pytest.mark.parametrize(
    "text",
    ["# %% [code] @nowhere\na = 1", "no marker", "# %% [code]\na\0b"],
)
async def test_a_text_that_is_refused_makes_no_notebook(desk, text):
    with pytest.raises(ToolError):
        await desk.call("write_notebook", notebook="new.ipynb", text=text)
    assert list(desk.root.iterdir()) == []


@pytest.mark.proves("edit:history")
async def test_a_notebook_made_from_text_is_journalled_and_can_be_taken_back(desk):
    text = "# %% [markdown]\n# Title\n# %% [code]\na = 1"
    written = await desk.call("write_notebook", notebook="new.ipynb", text=text)
    assert [change.cell_type for change in written.changes] == ["markdown", "code"]
    history = (await desk.call("notebook_history", notebook="new.ipynb")).entries
    assert [entry.tool for entry in history] == ["write_notebook"]
    await desk.call("overwrite_cell", notebook="new.ipynb", cell=1, source="a = 2")  # own, so seen
    await desk.call("undo", notebook="new.ipynb", steps=2)
    assert desk.sources("new.ipynb") == []


@pytest.mark.proves("ext:use-notebook")
@pytest.mark.parametrize("wrong", [{"name": "a/b"}, {"kernel_id": "none"}])
async def test_a_use_that_is_refused_starts_and_makes_nothing(desk, wrong):
    with pytest.raises(ToolError):
        await desk.call("use_notebook", notebook="new.ipynb", mode="create", **wrong)
    assert list(desk.root.iterdir()) == []
    assert desk.app.kernel_manager.list_kernel_ids() == []
