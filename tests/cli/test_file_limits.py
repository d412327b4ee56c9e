"""The files of `nb` have bounds, and what cannot be kept is reported with its cause."""

from __future__ import annotations

import json
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Nb
from tk_ai_extension.cli.command_state import MAX_CALLERS, CommandState
from tk_ai_extension.cli.project import Project
from tk_ai_extension.cli.serverless import local_context
from tk_ai_extension.model.callers import Caller


@contextmanager
def no_room(process: int) -> Generator[None]:
    """A process that can write no file beyond a megabyte, as on a disk that is nearly full."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    before = resource.prlimit(process, resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield
    resource.prlimit(process, resource.RLIMIT_FSIZE, before)


@pytest.mark.proves("fault:disk-full")
def test_a_full_disk_under_the_host_is_reported_loses_nothing_and_passes(nb: Nb) -> None:
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
def test_too_many_open_files_are_reported_and_pass(nb: Nb) -> None:
    # A kernel may start, and its sockets may not open: then it does not answer.
    config = Path(nb.environment["JUPYTER_CONFIG_DIR"]) / "jupyter_server_config.json"
    config.write_text(
        json.dumps({"TkAIExtensionApp": {"kernel_start_timeout": 3}}), encoding="utf-8"
    )
    nb.notebook("a.ipynb", "6 * 7")
    nb.notebook("b.ipynb", "1")
    nb("open", "a.ipynb")
    host = nb.host
    before = resource.prlimit(host, resource.RLIMIT_NOFILE)
    codes: set[str] = set()
    for more in (0, *range(2, 14, 3)):
        # The command's own connection takes one.
        free = len(list(Path(f"/proc/{host}/fd").iterdir())) + more
        resource.prlimit(host, resource.RLIMIT_NOFILE, (free, before[1]))
        for words in (
            ("cells", "-n", "b.ipynb"),
            ("insert", "0", "x", "-n", "b.ipynb"),
            ("open", "b.ipynb"),
        ):
            ended = nb(*words, "--json", status=None)
            if ended.out:
                codes |= {ended.json["error"]["code"]} if ended.status else set()
            else:
                # It had no file for the connection itself.
                assert "The server has reached its limit of open files." in ended.err
        resource.prlimit(host, resource.RLIMIT_NOFILE, before)
        nb("stop", "b.ipynb", status=None)
    assert codes
    assert codes <= {
        "too_many_open_files",
        "kernel_start_failed",
        "save_failed",
        "state_unavailable",
    }, codes
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
    workspace = local_context(Project(str(tmp_path))).workspace
    try:
        memory = CommandState(file)
        for caller in callers:
            workspace.notebooks.add(caller, None, "a.ipynb", None)
            memory.save(workspace, caller)
        memory.save(workspace, Caller("ada", "has done nothing", "nb"))
    finally:
        await workspace.close()
    assert list(json.loads(file.read_text())) == [caller.identity for caller in callers[5:]]
