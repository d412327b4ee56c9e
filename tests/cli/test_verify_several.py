"""`nb verify` of several notebooks, of which some cannot be verified here: no report is lost."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Ended, Nb
from tests.cli.test_unresponsive_servers import HEALTHY, Stub, listens
from tests.cli.test_verify import printed, stored
from tests.servers import StartServer, start_server
from tk_ai_extension.cli import fresh_runs, wire
from tk_ai_extension.cli.commands import project
from tk_ai_extension.cli.commands import verify as verify_command
from tk_ai_extension.cli.commands.command import Command
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.no_kernels import ServerRequired
from tk_ai_extension.cli.servers import Server
from tk_ai_extension.cli.session import Options, Session
from tk_ai_extension.cli.terminal import Terminal
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    ArtifactNotFound,
    ExecutionNotFound,
    KernelBusy,
    KernelNotFound,
    LimitReached,
    NotReadable,
    OpenElsewhere,
    PermissionNotFound,
    ToolError,
)
from tk_ai_extension.verification.report import NotebookReport

__all__ = ["start_server"]

COUNTED = "print('A', file=open('ran', 'a'))"
"""A cell that leaves a line each time it runs."""


@pytest.fixture
async def server_below(nb: Nb) -> AsyncIterator[Stub]:
    """What claims to be a server with the extension in a folder of the project; not announced yet."""
    folder = nb.root / "sub"
    folder.mkdir()
    made = Stub(Path(nb.environment["JUPYTER_RUNTIME_DIR"]), folder, answer=HEALTHY)
    async with listens(made):
        yield made


def suites(nb: Nb) -> Mapping[str | None, ET.Element]:
    return {suite.get("name"): suite for suite in ET.parse(nb.root / "rep.xml").getroot()}


async def verify(nb: Nb, *words: str, status: int = 1) -> Ended:
    return await asyncio.to_thread(nb, "verify", *words, "--junitxml", "rep.xml", status=status)


@pytest.mark.proves("verify:report", "nb:collaborate")
@pytest.mark.parametrize("names", [("a.ipynb", "sub/b.ipynb"), ("sub/b.ipynb", "a.ipynb")])
async def test_a_notebook_of_another_server_is_named_beside_the_reports_of_the_others(
    nb: Nb, server_below: Stub, names: tuple[str, str]
) -> None:
    stored(nb, "a.ipynb", (COUNTED, [], 1))
    stored(nb, "sub/b.ipynb", ("1", [], 1))
    server_below.announce()
    ended = await verify(nb, *names, "--json")
    found = {each["notebook"]: each for each in ended.json["notebooks"]}
    assert found["a.ipynb"]["status"] == "same"
    assert "notebook_open_elsewhere" in found["sub/b.ipynb"]["error"]
    assert suites(nb)["sub/b.ipynb"].get("errors") == "1"
    assert suites(nb)["a.ipynb"].get("errors") == "0"
    assert (nb.root / "ran").read_text() == "A\n"


@pytest.mark.proves("verify:report", "nb:collaborate")
async def test_notebooks_of_one_server_are_verified_there_and_shown_once(
    nb: Nb, start_server: StartServer
) -> None:
    server = await start_server()
    nb.root = server.root
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    nb.notebook("a.ipynb")
    stored(nb, "b.ipynb", (COUNTED, [], 1))
    ended = await verify(nb, "a.ipynb", "b.ipynb", status=0)
    lines = [line.partition(" code cell")[0] for line in ended.out.splitlines()]
    assert lines == ["a.ipynb: 0", "b.ipynb: 1", "2 of 2 notebooks are verified."]
    assert (nb.root / "ran").read_text() == "A\n"


@pytest.mark.proves("verify:report", "nb:collaborate")
async def test_a_server_that_starts_meanwhile_runs_no_notebook_again(
    nb: Nb, server_below: Stub
) -> None:
    server_below.root = nb.root
    server_below.announce()
    # It stands under another name until the first notebook runs.
    name = f"jpserver-{server_below.pid}.json"
    await asyncio.to_thread(os.rename, server_below.runtime / name, server_below.runtime / "later")
    start = f"import os; os.chdir({str(server_below.runtime)!r}); os.rename('later', {name!r})"
    stored(nb, "a.ipynb", (f"{COUNTED}\n{start}", [], 1))
    stored(nb, "b.ipynb", ("1", [], 1))
    ended = await verify(nb, "a.ipynb", "b.ipynb")
    assert "a.ipynb: 1 code cell: 1 the same" in ended.out
    assert "b.ipynb belongs to the Jupyter Server" in ended.out
    assert ended.out.splitlines()[-1] == "1 of 2 notebooks are verified."
    assert set(suites(nb)) == {"a.ipynb", "b.ipynb"}
    assert (nb.root / "ran").read_text() == "A\n"


@pytest.mark.proves("verify:report", "verify:update")
async def test_a_notebook_that_is_deleted_or_cannot_be_written_loses_no_report(nb: Nb) -> None:
    delete = "import os; os.remove('b.ipynb'); os.remove('c.ipynb')\nprint(1)"
    stored(nb, "a.ipynb", (delete, [printed("1\n")], 1))
    stored(nb, "b.ipynb", ("1", [], 1))
    stored(nb, "c.ipynb", ("1", [], 1))
    stored(nb, "d.ipynb", ("import os; os.remove('d.ipynb')\nprint(1)", [printed("2\n")], 1))
    ended = await verify(nb, "a.ipynb", "b.ipynb", "c.ipynb", "d.ipynb", "--update", "--json")
    found = {each["notebook"]: each for each in ended.json["notebooks"]}
    assert found["a.ipynb"]["status"] == "same"
    for name in ("b.ipynb", "c.ipynb"):
        assert "notebook_not_found" in found[name]["error"]
    # The report of a notebook whose new outputs cannot be stored is there, too.
    assert found["d.ipynb"]["error"].startswith("not updated: ")
    assert [cell["status"] for cell in found["d.ipynb"]["cells"]] == ["differs"]
    assert set(suites(nb)) == {"a.ipynb", "b.ipynb", "c.ipynb", "d.ipynb"}


@pytest.mark.proves("verify:report", "nb:collaborate")
@given(
    st.lists(
        st.sampled_from([None, NotReadable("a"), KernelBusy("a"), LimitReached("a")]), min_size=2
    ),
    st.booleans(),
)
async def test_no_report_of_several_notebooks_is_lost(
    errors: list[ToolError | None], has_effect: bool
) -> None:
    """Some errors concern one notebook, others the server; only a redirect repeats the command."""
    terminal, names = Recorder(), [f"{number}.ipynb" for number in range(len(errors))]
    session = session_of(terminal)
    left = iter(errors)

    async def one(_: object, path: str, *_more: object, **_options: object) -> Any:
        session.has_effect = has_effect
        if (error := next(left)) is not None:
            raise error
        return NotebookReport(path), False

    async def notebooks(*_: object) -> list[str]:
        return names

    words = argparse.ArgumentParser()
    verify_command._configure(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_command, "_verify", one)
        patch.setattr(verify_command, "_notebooks", notebooks)
        status = await verify_command._run(session, words.parse_args([]))
    assert [each["notebook"] for each in json.loads(terminal.shown)["notebooks"]] == names
    assert (status == wire.OK) == (not any(errors))


@pytest.mark.proves("verify:report")
@pytest.mark.parametrize("is_early", [False, True])
async def test_a_run_that_is_ended_early_says_so_even_if_it_fails(is_early: bool) -> None:
    terminal = Recorder()
    done = asyncio.Event()

    async def cancel(run: Any) -> None:
        run.error, run.done = KernelBusy("It failed."), True
        done.set()

    async def changed(*_: object) -> None:
        await done.wait()

    async def show() -> None:
        """Nothing is shown."""

    session = session_of(terminal, executions=SimpleNamespace(cancel=cancel))
    interrupted, gone = asyncio.Event(), asyncio.Event()
    cast("Any", terminal).interrupted, cast("Any", terminal).gone = interrupted, gone
    run: Any = SimpleNamespace(
        done=False, version=0, error=None, followed=nullcontext, changed=changed
    )
    if is_early:
        interrupted.set()
        assert await fresh_runs.follow(session, run, show)
        assert "It failed." in terminal.shown
    else:
        await cancel(run)
        with pytest.raises(KernelBusy):
            await fresh_runs.follow(session, run, show)


ERRORS: list[ToolError] = [
    OpenElsewhere("a", server="http://there/"),
    OpenElsewhere("a", server=""),
    OpenElsewhere("a"),
    ExecutionNotFound("a"),
    ArtifactNotFound("a"),
    PermissionNotFound("a"),
    ServerRequired("a"),
    KernelBusy("a"),
]


class Recorder:
    """A terminal that records redirects, and a project whose notebooks belong to another server."""

    def __init__(self) -> None:
        self.info = SimpleNamespace(cwd="/", project="/", tty=False)
        self.shown = ""
        self.redirects: list[str] = []
        self.is_clean = self.stopping = False
        self.ownership = SimpleNamespace(attached=None)
        self.servers = SimpleNamespace(at=lambda url: Server(url, ""))

    def out(self, text: str) -> None:
        self.shown += text

    err = out

    async def unshare(self) -> None:
        """Nothing is shared."""

    def refuse(self) -> None:
        """No other command arrives."""

    def stop(self, *, clean: bool) -> None:
        self.is_clean = clean

    def redirect(self, url: str, token: str, notebook: str | None = None) -> None:  # noqa: ARG002
        self.redirects.append(url)

    async def owner_of(self, path: str) -> Server:  # noqa: ARG002
        return Server("http://there/", "")


def session_of(terminal: Recorder, **more: Any) -> Session:
    notebooks = SimpleNamespace(current=lambda _caller: None)
    workspace = SimpleNamespace(notebooks=notebooks, **more)
    context = SimpleNamespace(
        root="/", project=terminal, owner_of=terminal.owner_of, workspace=workspace, host=None
    )
    caller = Caller(user="ada", key="nb", interface="nb", name="nb")
    return Session(cast("Any", context), cast("Terminal", terminal), caller, Options(json=True))


@pytest.mark.proves("nb:collaborate")
@given(st.sampled_from(ERRORS), st.booleans())
async def test_a_command_is_redirected_before_its_first_effect_only(
    error: ToolError, has_effect: bool
) -> None:
    terminal = Recorder()
    session = session_of(terminal)

    async def run(session: Session, args: argparse.Namespace) -> int:
        session.has_effect = has_effect
        raise error

    command = Command("try", "", lambda _parser: None, run)
    status = await Commands(cast("Any", []))._run(command, session, argparse.Namespace())
    is_redirect = isinstance(
        error, ServerRequired | ExecutionNotFound | ArtifactNotFound | PermissionNotFound
    ) or bool(error.details.get("server"))
    assert bool(terminal.redirects) == (is_redirect and not has_effect)
    assert (status == wire.OK) == bool(terminal.redirects)


@pytest.mark.proves("nb:cleanup")
async def test_a_kernel_that_stopped_meanwhile_counts_as_stopped() -> None:
    terminal = Recorder()

    async def shutdown(kernel_id: str) -> None:
        if kernel_id != "a":
            raise {"gone": KernelNotFound, "busy": KernelBusy}[kernel_id](kernel_id)

    kernels = SimpleNamespace(ids=lambda: ["a", "gone"], shutdown=shutdown)
    session = session_of(terminal, kernels=kernels)
    assert await project._shutdown(session, argparse.Namespace()) == wire.OK
    assert json.loads(terminal.shown) == {"stopped": ["a", "gone"], "failed": []}
    assert terminal.is_clean
    kernels.ids = lambda: ["busy"]
    assert await project._shutdown(session, argparse.Namespace()) == wire.FAILED
