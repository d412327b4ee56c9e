"""What `nb` keeps of itself has bounds, and what cannot be kept is said as what it is."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli.bindings import Bindings
from tk_ai_extension.cli.headless import Headless
from tk_ai_extension.cli.memory import MAX_CALLERS, Memory
from tk_ai_extension.cli.project import Project
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import DiskFull, SaveFailed


@pytest.mark.proves("doc:errors")
async def test_a_binding_that_cannot_be_kept_is_typed_and_holds_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "notebooks.new").symlink_to("/dev/full")
    bindings = Bindings(tmp_path / "notebooks.json")
    with pytest.raises(DiskFull, match="which kernel each notebook runs on"):
        await bindings.bind("a.ipynb", "k1")
    assert await bindings.kernel_of("a.ipynb") == "k1"
    gone = Bindings(tmp_path / "gone" / "notebooks.json")
    with pytest.raises(SaveFailed):
        await gone.bind("a.ipynb", "k1")


@contextmanager
def no_room(process: int) -> Iterator[None]:
    """A process that can write no file beyond a megabyte, as on a disk that is nearly full."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    before = resource.prlimit(process, resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield
    resource.prlimit(process, resource.RLIMIT_FSIZE, before)


@pytest.mark.proves("fault:disk-full")
def test_a_full_disk_under_the_host_is_said_loses_nothing_and_passes(nb: Nb) -> None:
    path = nb.notebook("a.ipynb", "x = 6 * 7", "print(x)", f"# {'long ' * 300_000}")
    nb("open", "a.ipynb")
    host, before = nb.host, path.read_bytes()
    with no_room(host):
        assert "disk_full" in nb("insert", "0", "y = 1", status=2).err
        assert "42" in nb("run", "6 * 7").out
    assert path.read_bytes() == before
    nb("insert", "0", "y = 1")
    assert "42" in nb("exec", "1-2").out
    assert len(nb.read("a.ipynb").cells) == 4
    assert nb.host == host


@pytest.mark.proves("fault:too-many-files")
def test_too_many_open_files_are_said_and_pass(nb: Nb) -> None:
    nb.notebook("a.ipynb", "6 * 7")
    nb.notebook("b.ipynb", "1")
    nb("open", "a.ipynb")
    host = nb.host
    before = resource.prlimit(host, resource.RLIMIT_NOFILE)
    said: set[str] = set()
    for more in range(2, 14, 3):
        # The command's own connection takes one.
        free = len(list(Path(f"/proc/{host}/fd").iterdir())) + more
        resource.prlimit(host, resource.RLIMIT_NOFILE, (free, before[1]))
        for words in (
            ("cells", "-n", "b.ipynb"),
            ("insert", "0", "x", "-n", "b.ipynb"),
            ("open", "b.ipynb"),
        ):
            ended = nb(*words, "--json", status=None)
            if ended.status:
                said.add(ended.json["error"]["code"])
        resource.prlimit(host, resource.RLIMIT_NOFILE, before)
        nb("stop", "b.ipynb", status=None)
    assert said
    assert said <= {
        "too_many_open_files",
        "kernel_start_failed",
        "save_failed",
        "state_unavailable",
    }, said
    assert "42" in nb("exec", "0", "-n", "a.ipynb").out
    assert nb.host == host


@pytest.mark.parametrize("key", ["x" * 201, "a\x1b[2J"])
def test_a_callers_name_is_checked_as_everywhere(nb: Nb, key: str) -> None:
    nb.notebook("a.ipynb", "1")
    refused = nb("cells", "a.ipynb", "--json", env={"NB_CALLER": key}, status=2)
    assert refused.json["error"]["code"] == "invalid_arguments"
    assert "NB_CALLER" in refused.json["error"]["hint"]


async def test_callers_are_remembered_up_to_a_bound_the_last_ones_first(tmp_path: Path) -> None:
    file = tmp_path / "nb.json"
    callers = [Caller("ada", f"agent {n}", "nb") for n in range(MAX_CALLERS + 5)]
    headless = await Headless.without_kernels(Project(str(tmp_path)))
    try:
        memory, workspace = Memory(file), headless.workspace
        for caller in callers:
            workspace.notebooks.add(caller, None, "a.ipynb", None)
            memory.save(workspace, caller)
        memory.save(workspace, Caller("ada", "has done nothing", "nb"))
    finally:
        await headless.close()
    assert list(json.loads(file.read_text())) == [caller.identity for caller in callers[5:]]
