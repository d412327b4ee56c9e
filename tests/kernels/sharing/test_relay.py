"""The relay, launched as VS Code launches kernels, with real clients and a real kernel."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import psutil
import pytest
from jupyter_client.session import Session

from tests.kernels.guests import DEADLINE, run, until
from tests.kernels.sharing.conftest import Launch, Owner
from tests.support.faults import ignore_interrupts

pytestmark = [pytest.mark.proves("nb:serve")]


async def test_a_message_with_a_wrong_key_does_nothing(owner: Owner, launch: Launch) -> None:
    relayed = launch()
    client = await relayed.client()
    forger: Any = Session(key=b"wrong", signature_scheme="hmac-sha256")
    execute = {"code": "touched = 1", "silent": False, "allow_stdin": False}
    for channel in (client.shell_channel, client.control_channel):
        forger.send(channel.socket, "execute_request", execute)
        forger.send(channel.socket, "shutdown_request", {"restart": False})
        channel.socket.send_multipart([b"no message at all"])
    # What comes after them on the same socket is answered, so they were read.
    assert await run(client, "print('touched' in globals())") == "False"
    control = client.session.send(client.control_channel.socket, "kernel_info_request", {})
    reply = await client.control_channel.get_msg(timeout=DEADLINE)
    assert reply["parent_header"]["msg_id"] == control["header"]["msg_id"]
    assert relayed.process.poll() is None
    assert await run(await owner.client(), "print('touched' in globals())") == "False"
    assert "Invalid Signature" in owner.log


async def test_a_restart_by_the_owner_is_followed(owner: Owner, launch: Launch) -> None:
    relayed = launch()
    person, listener = await relayed.client(), await relayed.client()
    assert await run(person, "X = 42") == ""
    # A restart interrupts first, and the kernel could answer that.
    running = asyncio.ensure_future(run(person, ignore_interrupts(60)))
    await until(listener, "ignoring")
    await owner.manager.restart_kernel(now=True)
    # As from Jupyter Server: JupyterLab and VS Code then drop what was not answered.
    state = None
    async with asyncio.timeout(DEADLINE):
        while state != "restarting":
            state = (await listener.get_iopub_msg())["content"].get("execution_state")
    running.cancel()
    assert await run(await relayed.client(), "print('X' in globals())") == "False"
    assert relayed.process.poll() is None


async def test_the_relay_ends_when_the_kernel_dies(owner: Owner, launch: Launch) -> None:
    relayed = launch("3")
    await relayed.client()
    os.kill(owner.manager.provisioner.pid, signal.SIGKILL)
    assert await relayed.ended() == 1
    assert relayed.process.stderr is not None
    reason = f"The kernel of {owner.link} did not answer within 3 s."
    assert relayed.process.stderr.read().decode() == f"{reason}\n"
    assert reason in owner.log


async def test_the_relay_ends_at_once_when_nothing_is_shared_any_more(
    owner: Owner, launch: Launch
) -> None:
    relayed = launch("1000")
    await relayed.client()
    owner.withdraw()
    await owner.manager.shutdown_kernel(now=True)
    assert await relayed.ended() == 0
    assert "no longer shared" in owner.log


async def test_the_relay_ends_with_the_program_that_launched_it(
    owner: Owner, launch: Launch
) -> None:
    # A program like VS Code: it launches the relay, then is killed.
    launcher = (
        "import os, subprocess, sys\n"
        "env = os.environ | {'JPY_PARENT_PID': str(os.getpid())}\n"
        "print(subprocess.Popen(sys.argv[1:], env=env).pid, flush=True)\n"
        "sys.stdin.read()"
    )
    relayed = launch(by=[sys.executable, "-c", launcher])
    await relayed.client()
    assert relayed.process.stdout is not None
    relay = psutil.Process(int(relayed.process.stdout.readline()))
    relayed.process.kill()
    await asyncio.to_thread(relay.wait, DEADLINE)
    assert "The launching program has ended" in owner.log


async def test_a_flood_of_output_is_relayed_whole(owner: Owner, launch: Launch) -> None:
    person = await launch().client()
    lines = (await run(person, "for n in range(20000): print(n)")).splitlines()
    assert lines == [str(number) for number in range(20000)]
