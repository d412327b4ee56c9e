"""Concurrent commands, projects and terminals that close; and commands without a host."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import NB, Nb
from tests.corpus import notebooks


async def opened(nb: Nb, *sources: str) -> Nb:
    nb.notebook("a.ipynb", *sources)
    await asyncio.to_thread(nb, "open", "a.ipynb")
    return nb


async def test_commands_at_once_start_one_host_and_all_that_they_do_lands(nb: Nb) -> None:
    nb.notebook("a.ipynb")
    await asyncio.gather(*(asyncio.to_thread(nb, "open", "a.ipynb") for _ in range(4)))
    assert len([p for p in nb.processes() if "tk_ai_extension.server.headless" in p.cmdline()]) == 1
    assert len((await asyncio.to_thread(nb, "ps", "--json")).json["kernels"]) == 1
    await asyncio.gather(*(asyncio.to_thread(nb, "insert", "0", f"x{n} = {n}") for n in range(6)))
    sources = {cell.source for cell in nb.read("a.ipynb").cells}
    assert sources == {f"x{n} = {n}" for n in range(6)}


async def test_commands_at_once_without_a_host_lose_nothing_either(nb: Nb) -> None:
    nb.notebook("a.ipynb")
    insertions = (
        asyncio.to_thread(nb, "insert", "0", f"x{n} = {n}", "-n", "a.ipynb", status=None)
        for n in range(5)
    )
    ended = await asyncio.gather(*insertions)
    landed = {cell.source for cell in nb.read("a.ipynb").cells}
    accepted = {f"x{n} = {n}" for n, command in enumerate(ended) if command.status == 0}
    assert landed == accepted
    assert accepted
    assert all("Error [" in command.err for command in ended if command.status)


async def test_two_projects_never_meet(nb: Nb, other: Nb) -> None:
    await opened(nb)
    await opened(other)
    await asyncio.to_thread(nb, "run", "mine = 'one'")
    assert "NameError" in (await asyncio.to_thread(other, "run", "mine", status=1)).out
    await asyncio.to_thread(other, "shutdown")
    assert other.processes() == []
    assert "one" in (await asyncio.to_thread(nb, "run", "mine")).out


@pytest.mark.proves("nb:persist")
async def test_a_terminal_that_is_closed_leaves_its_cell_running(shared: Nb) -> None:
    await opened(shared, "import time\nprint('began', flush=True)\ntime.sleep(1.5)\nprint('ended')")
    process, screen = await in_terminal(shared, "exec", "0")
    await shows(screen, b"began")
    os.close(screen)  # SIGHUP to who is in it
    await process.wait()
    await asyncio.to_thread(shared, "run", "1")  # its turn comes after the cell's end
    assert shared.read("a.ipynb").cells[0].outputs[0].text == "began\nended\n"


async def test_ctrl_c_interrupts_the_cell_and_shows_how_it_ended(shared: Nb) -> None:
    await opened(shared, "import time\nprint('began', flush=True)\ntime.sleep(60)")
    process, screen = await in_terminal(shared, "exec", "0")
    await shows(screen, b"began")
    os.write(screen, b"\x03")
    assert b"interrupted" in await shows(screen, b"interrupted")
    assert await process.wait() == 1
    os.close(screen)


async def test_the_first_ctrl_c_in_a_pipe_interrupts_too(shared: Nb) -> None:
    await opened(shared, "import time\nprint('began', flush=True)\ntime.sleep(60)")
    process = await shared.start("exec", "0")
    state = ""
    while state != "busy":
        status = await asyncio.to_thread(shared, "kernel", "--json")
        state = status.json["kernel"]["state"]
    process.send_signal(signal.SIGINT)
    out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert b"interrupted" in out
    assert b"began" in out
    assert process.returncode == 1


async def in_terminal(nb: Nb, *words: str) -> tuple[asyncio.subprocess.Process, int]:
    """Starts a command in a terminal of its own; the other end of which is a file descriptor."""
    screen, inside = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *NB,
        *words,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        cwd=nb.root,
        env={**nb.environment, "TERM": "xterm-256color"},
        preexec_fn=lambda: _own_terminal(inside),
    )
    os.close(inside)
    return process, screen


def _own_terminal(inside: int) -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(inside, termios.TIOCSCTTY, 0)


async def shows(screen: int, part: bytes) -> bytes:
    """What comes on a screen until this part of it does."""
    shown = b""
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(screen, arrived.set)
    try:
        async with asyncio.timeout(30):
            while part not in shown:
                await arrived.wait()
                arrived.clear()
                shown += os.read(screen, 65536)
    finally:
        loop.remove_reader(screen)
    return shown


@pytest.mark.proves("nb:persist")
def test_read_versions_and_open_notebooks_are_remembered_without_a_host(nb: Nb) -> None:
    path = nb.notebook("a.ipynb", "x = 1\ny = 2", "z = 3")
    nb("edit", "0", "x = 9", "-n", "a.ipynb", status=2)
    assert "x = 1" in nb("cell", "0", "-n", "a.ipynb").out
    nb("edit", "0", "x = 9", "-n", "a.ipynb")
    assert nb.read("a.ipynb").cells[0].source == "x = 9"
    assert "Undone" in nb("undo", "-n", "a.ipynb").out
    assert nb.read("a.ipynb").cells[0].source == "x = 1\ny = 2"
    # Somebody else's change in between is never overwritten.
    path.write_text(path.read_text().replace("x = 1", "x = 5"))
    assert "x = 5" in nb("edit", "0", "x = 7", "-n", "a.ipynb", status=2).err
    assert not (nb.root / ".nb").exists()


@pytest.mark.proves("text:round-trip", "nb:standard-file")
def test_every_readable_notebook_goes_through_read_and_write_unchanged(shared: Nb) -> None:
    shared.notebook("a.ipynb")
    shared("open", "a.ipynb")
    through = 0
    sources = notebooks("real", "nbformat")
    for source in sources:
        path = shared.root / source.name
        path.write_bytes(source.read_bytes())
        read = shared("read", str(path), "--budget", "2000000", status=None)
        if read.status == 0 and json.loads(source.read_bytes())["nbformat"] == 4:
            shared("write", "-", "-n", str(path), stdin=read.out)
            through += 1
        assert path.read_bytes() == source.read_bytes(), path.name
    assert through >= min(3, len(sources))


def test_an_editor_gets_the_cells_as_text_and_what_it_saves_is_merged(
    nb: Nb, tmp_path: Path
) -> None:
    nb.notebook("a.ipynb", "x = 1", "y = 2")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/x = 1/x = 10/" "$1"\n')
    editor.chmod(0o755)
    nb("edit", "--editor", "-n", "a.ipynb", env={"EDITOR": str(editor)})
    assert [cell.source for cell in nb.read("a.ipynb").cells] == ["x = 10", "y = 2"]
    editor.write_text('#!/bin/sh\necho "z = 3" > "$1"\n')
    nb("edit", "1", "--editor", "-n", "a.ipynb", env={"EDITOR": str(editor)})
    assert [cell.source for cell in nb.read("a.ipynb").cells] == ["x = 10", "z = 3"]
    editor.write_text("#!/bin/sh\nexit 1\n")
    assert (
        "Nothing was changed"
        in nb("edit", "0", "--editor", "-n", "a.ipynb", env={"EDITOR": str(editor)}, status=2).err
    )


def test_an_edit_that_cannot_be_applied_is_saved_in_a_file(nb: Nb, tmp_path: Path) -> None:
    nb.notebook("a.ipynb", "x = 1")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "an hour of work" > "$1"\n')
    editor.chmod(0o755)
    ended = nb("edit", "--editor", "-n", "a.ipynb", env={"EDITOR": str(editor)}, status=2)
    assert "invalid_text" in ended.err
    kept = Path(ended.err.split("is saved in ")[1].strip())
    assert kept.read_text() == "an hour of work\n"
    kept.unlink()
    kept.parent.rmdir()


def test_a_shell_completes_commands_options_cells_and_notebooks(nb: Nb) -> None:
    nb.notebook("work/a.ipynb", "x = 1")
    nb.notebook("b.ipynb", "x = 1")
    assert nb("complete", "--", "sta").out == "status\n"
    assert "--timeout" in nb("complete", "--", "exec", "--t").out.split()
    assert nb("complete", "--", "open", "").out.split() == ["b.ipynb", "work/"]
    assert nb("complete", "--", "open", "work/").out == "work/a.ipynb\n"
    nb("open", "b.ipynb")
    (cell,) = nb("cells", "--json").json["cells"]
    assert nb("complete", "--", "exec", "").out.strip() == cell["cell"]
    for shell in ("bash", "zsh", "fish"):
        assert "nb complete" in nb("completion", shell).out
