"""Notebooks from public bug reports: each, done as a user does it, gives what is right."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from tests.cli.conftest import Nb, project, shared
from tests.harness import ToolHarness, backend, harness, jp_server_config

__all__ = ["backend", "harness", "jp_server_config", "project", "shared"]

CASES = Path(__file__).parent / "data" / "cases"


def given(root: Path, name: str) -> str:
    """Copy a notebook of the cases into a folder."""
    shutil.copyfile(CASES / f"{name}.ipynb", root / "x.ipynb")
    return "x.ipynb"


def shown(notebook: Any) -> list[str]:
    """The plain texts of all displays and results."""
    return [
        output.data["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]


@pytest.mark.proves("exec:statuses")
@pytest.mark.parametrize(
    ("name", "error"), [("error_output_status_ok", "ZeroDivisionError"), ("mathtext", "ValueError")]
)
async def test_an_error_output_is_a_failure(
    shared: Nb, harness: ToolHarness, name: str, error: str
) -> None:
    """The kernel replies ok to an exception in a callback after the cell."""
    ran = shared("run", given(shared.root, name), "--output", "o.ipynb", status=1)
    assert error in ran.out
    assert error in shared("verify", "x.ipynb", status=1).out
    answer = await harness.call("execute_cell", notebook=given(harness.root, name), cell=0)
    assert answer.is_error
    assert error in answer.full_text()


@pytest.mark.parametrize(
    ("name", "newest"),
    [("display_id_shown_twice", ["'100 %'"] * 3), ("execute_result_display_id", ["10"])],
)
async def test_each_output_of_a_display_id_shows_its_newest_data(
    shared: Nb, harness: ToolHarness, name: str, newest: list[str]
) -> None:
    shared("run", given(shared.root, name))
    assert shown(shared.read("x.ipynb"))[: len(newest)] == newest
    await harness.call("execute_cells", notebook=given(harness.root, name), which="all")
    assert shown(harness.on_disk("x.ipynb"))[: len(newest)] == newest


@pytest.mark.proves("verify:run")
def test_parameters_arrive_as_they_are_given(shared: Nb) -> None:
    (shared.root / "p.yaml").write_text("limit: {a: [.inf, -.inf, .nan, null]}\n")
    for words, value in (
        (("-p", "limit=inf"), "inf"),
        (("-f", "p.yaml"), "{'a': [inf, -inf, nan, None]}"),
    ):
        shared("run", given(shared.root, "parameter_inf"), "--output", "o.ipynb", *words)
        assert shared.read("o.ipynb").cells[2].outputs[0].text == f"{value}\n", words


async def test_what_a_display_shows_is_read_where_its_text_is_only_a_name(
    shared: Nb, harness: ToolHarness
) -> None:
    texts = (r"$\frac{a}{b}$", "$\\displaystyle x^2$", "42", "hi", "[image/gif]")
    name = given(harness.root, "rich_repr_hides_content")
    for cell, text in enumerate(texts):
        ran = await harness.call("execute_cell", notebook=name, cell=cell)
        read = await harness.call("read_cell", notebook=name, cell=cell)
        for answer in (ran, read):
            assert text in answer.full_text()
            assert "<IPython" not in answer.full_text()
    view = (await harness.call("read_notebook", notebook=name, view="reading")).full_text()
    assert all(text in view for text in texts)
    assert "<IPython" not in view
    shared("open", given(shared.root, "rich_repr_hides_content"))
    assert texts[0] in shared("exec", "0").out


async def test_an_exception_that_an_output_widget_captures_is_a_failure(
    shared: Nb, harness: ToolHarness
) -> None:
    ran = shared("run", given(shared.root, "output_widget_swallows_error"), status=1)
    assert "ZeroDivisionError" in ran.out
    assert "ZeroDivisionError" in (shared.root / "x.ipynb").read_text()
    name = given(harness.root, "output_widget_swallows_error")
    answer = await harness.call("execute_cells", notebook=name, which="all")
    assert answer.is_error
    assert "ZeroDivisionError" in answer.full_text()
    assert "ZeroDivisionError" in (harness.root / name).read_text()


async def test_tags_of_cells_count_at_each_interface(shared: Nb, harness: ToolHarness) -> None:
    def check(notebook: Any) -> None:
        first, second, third = (cell.outputs for cell in notebook.cells)
        assert first[0].ename == "ZeroDivisionError"
        assert second == []
        assert third[0].text == "three\n"

    shared("run", given(shared.root, "tags_in_run_all"))
    check(shared.read("x.ipynb"))
    shared("open", given(shared.root, "tags_in_run_all"))
    shared("exec", "0-2")
    check(shared.read("x.ipynb"))
    name = given(harness.root, "tags_in_run_all")
    answer = await harness.call("execute_cells", notebook=name, which="all")
    assert not answer.is_error
    check(harness.on_disk(name))


async def test_a_usage_error_is_named_with_its_text(shared: Nb, harness: ToolHarness) -> None:
    text = "Line magic function `%nosuchmagic` not found"
    ran = shared("run", given(shared.root, "usage_error"), status=1)
    assert f"UsageError: {text}" in ran.out
    answer = await harness.call("execute_cell", notebook=given(harness.root, "usage_error"), cell=0)
    assert answer.is_error
    assert "UsageError" in answer.full_text()
    assert text in answer.full_text()


async def test_a_kernel_named_python_runs(shared: Nb, harness: ToolHarness) -> None:
    shared("run", given(shared.root, "kernel_named_python"))
    assert shared.read("x.ipynb").cells[0].outputs[0].text == "1\n"
    name = given(harness.root, "kernel_named_python")
    await harness.call("use_notebook", notebook=name)
    assert (await harness.call("execute_cell", cell=0)).runs[0].output == "1"


async def test_a_large_image_is_reduced_in_the_answer(
    harness: ToolHarness, jp_fetch: Callable[..., Awaitable[Any]]
) -> None:
    harness.write(
        "x.ipynb",
        "import io\nimport numpy as np\nfrom PIL import Image as I\nfrom IPython.display import Image\n"
        "f = io.BytesIO()\n"
        "I.fromarray(np.random.randint(0, 255, (1500, 1500, 3), 'uint8')).save(f, 'PNG')\n"
        "Image(f.getvalue())",
    )
    for tool in ("execute_cell", "read_cell"):
        answer = await harness.call(tool, notebook="x.ipynb", cell=0)
        assert len(answer.images) == 1
        assert len(answer.images[0].data) + len(answer.full_text()) <= 1_000_000
    body = json.dumps({"notebook": "x.ipynb", "cell": 0})
    read = await jp_fetch(
        *("api", "tk-ai", "tools", "read_cell"),
        method="POST",
        body=body,
        headers={"Accept": "text/plain", "Content-Type": "application/json"},
    )
    artifact = re.search(r"GET /(api/tk-ai/artifacts/[\w-]+)\]", read.body.decode())
    assert artifact is not None
    whole = (await jp_fetch(*artifact[1].split("/"))).body
    (output,) = harness.on_disk("x.ipynb").cells[0].outputs
    assert whole == base64.b64decode(output.data["image/png"])


@pytest.fixture
def collaboration(jp_server_config: Config) -> None:
    """Have the server share documents."""
    jp_server_config.ServerApp.jpserver_extensions.update(
        jupyter_server_fileid=True, jupyter_server_ydoc=True
    )


@pytest.mark.proves("doc:untouched-bytes")
@pytest.mark.usefixtures("collaboration")
async def test_other_cells_keep_their_bytes_where_collaboration_is_installed(
    harness: ToolHarness,
) -> None:
    assert "jupyter_server_ydoc" in harness.app.web_app.settings
    name = given(harness.root, "room_rewrites")
    before = (harness.root / name).read_text()
    await harness.call("insert_cell", notebook=name, source="new = 1", cell_type="code", after=1)
    after = (harness.root / name).read_text()
    place = before.index('        {\n            "cell_type": "markdown"')
    assert after.startswith(before[:place])
    assert after.endswith(before[place:])
    assert "new = 1" in after


@pytest.mark.parametrize("damage", ["id", "kernelspec"])
async def test_a_text_with_a_warning_is_accepted_unchanged(
    harness: ToolHarness, damage: str
) -> None:
    path = harness.write("x.ipynb", "a = 1", ("markdown", "text"))
    notebook = json.loads(path.read_text())
    if damage == "id":
        del notebook["cells"][0]["id"]
    else:
        del notebook["metadata"]["kernelspec"]["name"]
    path.write_text(json.dumps(notebook))
    before = path.read_bytes()
    text = (await harness.call("read_notebook", notebook="x.ipynb")).as_text()
    await harness.call("write_notebook", notebook="x.ipynb", text=text)
    assert path.read_bytes() == before
