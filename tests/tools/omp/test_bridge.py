"""The bridge: code in a kernel calls the tools, for its caller and in that kernel alone."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness import ALICE, BOB
from tk_ai_extension.tools.registry import Registry, ToolContext
from tk_ai_extension.workspace.permission_requests import PermissionReply

READ = """
import tool_bridge
found = tool_bridge.call("read_cell", notebook="n.ipynb", cell=0)
print(found["source"])
"""
REFUSED = """
import tool_bridge
try:
    print(tool_bridge.call({tool!r}, **{arguments!r}))
except tool_bridge.ToolError as error:
    print(error.code, error, bool(error.hint))
"""


@pytest.fixture
def notebook(harness):
    return harness.write("n.ipynb", "a = 1", "b = 2")


def call(tool, **arguments):
    """Code that calls a tool and prints how it was refused."""
    return REFUSED.format(tool=tool, arguments=arguments)


async def output_of(run, code, **arguments):
    result = await run(code, **arguments)
    assert result.status == "ok", result.full_text()
    return result.runs[0].output


@pytest.mark.proves("kernel:bridge")
async def test_code_in_a_kernel_reads_and_changes_notebooks_as_its_caller(harness, run, notebook):
    assert await output_of(run, READ) == "a = 1"
    await run(
        "import tool_bridge as t\nt.call('overwrite_cell', notebook='n.ipynb', cell=0, source='a = 9')"
    )
    assert harness.sources("n.ipynb")[0] == "a = 9"
    history = await harness.call("notebook_history", notebook="n.ipynb")
    assert history.entries[0].author == "agent A"
    await harness.call("undo", notebook="n.ipynb")
    assert harness.sources("n.ipynb")[0] == "a = 1"


@pytest.mark.proves("kernel:bridge", "perm:modes")
async def test_the_callers_permission_mode_holds(harness, run, notebook):
    asking = replace(ALICE, mode="edit")  # code is asked for, changes are not
    context = ToolContext(harness.workspace, asking, approver=Yes())
    refused = call("execute_cell", notebook="n.ipynb", cell=0)
    cells = {"cells": [{"code": refused}, {"code": READ}]}
    result = await harness.registry.call("python", cells, context)
    assert result.runs[0].output.startswith("permission_required")
    assert result.runs[1].output == "a = 1"
    (request,) = harness.workspace.policy.pending("alice")
    assert (request.tool, request.proposal.steps[-1].code) == ("execute_cell", "a = 1")
    assert len(harness.workspace.kernels.ids()) == 1


class Yes:
    """A person who allows everything."""

    async def ask(self, request):
        assert request.tool == "python"
        return PermissionReply("once")


@pytest.mark.proves("kernel:bridge")
async def test_a_refusal_and_a_wrong_call_are_errors_with_code_and_hint(run, notebook):
    assert await output_of(run, call("no_tool")) == "unknown_tool Unknown tool `no_tool`. True"
    assert (await output_of(run, call("read_cell", nothing=1))).startswith("invalid_arguments")
    assert (await output_of(run, call("read_cell", notebook="../n.ipynb", cell=0))).startswith(
        "path_refused"
    )


@pytest.mark.proves("kernel:bridge")
async def test_the_tools_are_those_of_the_connection_that_runs_the_code(harness, run, notebook):
    few = replace(harness, registry=Registry.load(["omp"]))
    cells = [{"code": call("read_cell", notebook="n.ipynb", cell=0)}]
    result = await few.call("python", cells=cells)
    assert result.runs[0].output.startswith("unknown_tool")
    assert await output_of(run, READ) == "a = 1"


@pytest.fixture
async def secrets(harness, run):
    """The bridge's address and Alice's token, as her code sees them."""
    names = ("URL", "TOKEN")
    code = "import json, os; print(json.dumps([os.environ['PI_TOOL_BRIDGE_' + n] for n in %r]))"
    return json.loads(await output_of(run, code % (names,)))


def pretend(url, token):
    """Code that reads a cell with a given token."""
    set_all = "\n".join(
        f"os.environ['PI_TOOL_BRIDGE_{name}'] = {value!r}"
        for name, value in (("URL", url), ("TOKEN", token))
    )
    return f"import os\n{set_all}\n" + call("read_cell", notebook="n.ipynb", cell=0)


@pytest.mark.proves("kernel:bridge")
async def test_a_token_is_good_in_its_own_kernel_alone(harness, run, notebook, secrets):
    stolen = pretend(*secrets)
    assert (await output_of(run, stolen, caller=BOB)).startswith("permission_denied")
    assert "a = 1" in await output_of(run, stolen)
    # Nor is it for a program that no kernel has started.
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OUTSIDE, *secrets, stdout=asyncio.subprocess.PIPE
    )
    answer, _ = await asyncio.wait_for(program.communicate(), 30)
    assert json.loads(answer)["error"]["code"] == "permission_denied"


OUTSIDE = """
import json, socket, sys
url, token = sys.argv[1:]
line = socket.socket(socket.AF_UNIX)
line.connect(url[len("unix://"):])
ask = {"token": token, "tool": "list_notebooks", "arguments": {}}
line.sendall(json.dumps(ask).encode() + b"\\n")
print(line.makefile().readline())
"""


@pytest.mark.proves("kernel:bridge")
async def test_each_caller_of_a_shared_session_has_its_own_token(harness, run, notebook):
    token = "import os; print(os.environ['PI_TOOL_BRIDGE_TOKEN'])"
    alices = await output_of(run, token, session="team")
    bobs = await output_of(run, token, session="team", caller=BOB)
    assert alices != bobs
    assert await output_of(run, token, session="team") == alices
    write = (
        "import tool_bridge\ntool_bridge.call('insert_cell', notebook='n.ipynb', source='by whom')"
    )
    await run(write, session="team", caller=BOB)
    history = await harness.call("notebook_history", notebook="n.ipynb")
    assert history.entries[0].author == "agent B"


@pytest.mark.proves("kernel:bridge")
async def test_a_token_ends_with_its_kernel_and_a_wrong_one_is_none(
    harness, run, notebook, secrets
):
    url, _ = secrets
    assert (await output_of(run, pretend(url, "x" * 32))).startswith("permission_denied")
    (kernel,) = harness.workspace.kernels.ids()
    await harness.call("shutdown_kernel", kernel_id=kernel)
    assert (await output_of(run, pretend(*secrets))).startswith("permission_denied")


async def test_the_token_is_in_no_log_and_the_socket_is_for_this_user_alone(
    harness, run, secrets, caplog
):
    url, token = secrets
    folder = Path(url.removeprefix("unix://")).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert token not in caplog.text
    await harness.workspace.python.close()
    assert not folder.exists()
