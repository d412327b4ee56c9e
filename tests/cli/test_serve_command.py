"""`nb serve`: people's programs in the kernel that an agent works in."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.session import Session

from tests.cli.conftest import DEADLINE, Nb
from tests.cli.test_sandbox_option import works
from tests.kernels.guests import connect, run, write_connection
from tests.support import faults

GUEST = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, kernel_name=sys.argv[2], timeout=60).execute()
print(notebook.cells[0].outputs[0].text)
"""


def guest(nb: Nb, kernelspec: str, source: str, folder: Path) -> str:
    """What a person's program prints that runs a cell by this kernelspec."""
    path = folder / "guest.ipynb"
    cells = [nbformat.v4.new_code_cell(source)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    ended = subprocess.run(
        [sys.executable, "-c", GUEST, str(path), kernelspec],
        env=nb.environment,
        capture_output=True,
        timeout=DEADLINE,
        check=True,
    )
    return ended.stdout.decode()


async def check_that_vs_code_launches_the_command_itself_with_its_own_key(
    nb: Nb, tmp_path: Path, spec: dict[str, Any]
) -> None:
    """It connects to X = 42, in the kernel that is shared."""
    assert spec["interrupt_mode"] == "message"
    file = tmp_path / "kernel-v3.json"
    info = write_connection(file)
    assert "{connection_file}" in spec["argv"]
    argv = [part.format(connection_file=file) for part in spec["argv"]]
    relay = await asyncio.create_subprocess_exec(
        *argv, cwd=tmp_path, env=nb.environment, stdin=-1, stdout=-1, stderr=-1
    )
    clients: list[Any] = []
    try:
        for _ in range(2):
            clients.append(await connect(info))  # noqa: PERF401 - closed if one fails
        one, other = clients
        code = "print({} + X)"
        answers = await asyncio.gather(run(one, code.format(1)), run(other, code.format(2)))
        assert answers == ["43", "44"], "each gets its own"
        forger: Any = Session(key=b"another", signature_scheme="hmac-sha256")
        forger.send(one.shell_channel.socket, "execute_request", {"code": "X = 'forged'"})
        assert await run(one, "print(X)") == "42"
        one.session.send(one.control_channel.socket, "shutdown_request", {"restart": False})
        await asyncio.wait_for(relay.communicate(), DEADLINE)
        assert relay.returncode == 0
    finally:
        for client in clients:
            client.stop_channels()
        if relay.returncode is None:  # pyrefly: ignore[unnecessary-comparison]
            relay.kill()
            await relay.communicate()
    assert "42" in (await asyncio.to_thread(nb, "run", "X")).out
    assert "Invalid Signature" in (nb.root / ".nb" / "relay.log").read_text()


def kernelspecs(nb: Nb) -> dict[str, dict[str, Any]]:
    """What VS Code finds of the kernels that are shared."""
    folder = Path(nb.environment["JUPYTER_DATA_DIR"], "kernels")
    return {each.name: json.loads((each / "kernel.json").read_text()) for each in folder.iterdir()}


@pytest.mark.proves("nb:serve")
async def test_a_person_sees_what_the_agent_computed_and_the_agent_what_the_person_did(
    nb: Nb, tmp_path: Path
) -> None:
    await asyncio.to_thread(nb, "open", "a.ipynb")
    await asyncio.to_thread(nb, "run", "X = 42")
    shared = (await asyncio.to_thread(nb, "serve", "--json")).json
    assert shared["display_name"] == f"Python (nb shared kernel): {nb.root.name}"
    name = shared["kernelspec"]
    assert "42" in await asyncio.to_thread(guest, nb, name, "print(X); Y = X + 1", tmp_path)
    # The guest has shut its kernel down, and this one lives.
    assert "43" in (await asyncio.to_thread(nb, "run", "Y")).out
    specs = kernelspecs(nb)
    assert list(specs) == [name]
    await check_that_vs_code_launches_the_command_itself_with_its_own_key(nb, tmp_path, specs[name])

    # A kernel that takes its place is shared instead.
    pid = (await asyncio.to_thread(nb, "run", "import os; print(os.getpid())")).out.split()[-1]
    faults.kill(int(pid))
    await asyncio.to_thread(nb, "run", "pass")
    await asyncio.to_thread(nb, "run", "X = 'another'")
    assert "another" in await asyncio.to_thread(guest, nb, name, "print(X)", tmp_path)
    assert "Stopped sharing" in (await asyncio.to_thread(nb, "serve", "--off")).out
    assert "Nothing was shared" in (await asyncio.to_thread(nb, "serve", "--off")).out
    await asyncio.to_thread(nb, "serve")
    await asyncio.to_thread(nb, "shutdown")
    assert nb.processes() == []
    assert kernelspecs(nb) == {}
    assert not (nb.root / ".nb").exists()


@works
@pytest.mark.proves("nb:serve")
async def test_a_kernel_in_a_sandbox_is_shared_too(nb: Nb, tmp_path: Path) -> None:
    await asyncio.to_thread(nb, "open", "a.ipynb", "--sandbox")
    await asyncio.to_thread(nb, "run", "X = 42")
    await asyncio.to_thread(nb, "serve")
    (spec,) = kernelspecs(nb).values()
    await check_that_vs_code_launches_the_command_itself_with_its_own_key(nb, tmp_path, spec)
    await asyncio.to_thread(nb, "shutdown")
    assert nb.processes() == []
