"""No kernel of a server gets the agent's secrets, however it is started and however often."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.kernels.conftest import Server
from tests.support.executor_bench import ExecutorBench, run
from tk_ai_extension.kernels.environment_variables import WITHHELD_FROM_KERNELS
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.kernels.provisioner import provision_kernels

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.proves("threat:secrets", "ext:secrets"),
]

FIND_CANARY = "import os\nprint(sorted(n for n, v in os.environ.items() if v == 'canary'))"


@pytest.fixture(scope="module")
def backend() -> str:
    return "direct"


@pytest_asyncio.fixture(loop_scope="module")
async def filtered(server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_TOKEN", "CORP_SECRET", "HARMLESS"):
        monkeypatch.setenv(name, "canary")
    provision_kernels(server.manager, [*WITHHELD_FROM_KERNELS, "CORP_*"])
    yield


async def test_a_persons_kernel_has_none_also_after_a_rename_and_a_restart(
    server: Server, kernels: KernelService, bench: ExecutorBench, filtered: None
) -> None:
    body = {"path": "a.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    await server.request("POST", "api/sessions", body)
    (session,) = await server.app.session_manager.list_sessions()
    kernel_id = session["kernel"]["id"]
    assert (await run(bench, FIND_CANARY, kernel_id)).text() == "['HARMLESS']\n"
    await server.request(
        "PATCH", f"api/sessions/{session['id']}", {"path": "b.ipynb", "name": "b.ipynb"}
    )
    await server.request("POST", f"api/kernels/{kernel_id}/restart")
    assert (await run(bench, FIND_CANARY, kernel_id)).text() == "['HARMLESS']\n"
    outcome = await run(bench, "import os\nprint(os.environ['JPY_SESSION_NAME'])", kernel_id)
    assert outcome.text().strip().endswith("b.ipynb")
    await kernels.shutdown(kernel_id)


async def test_a_kernel_without_a_session_has_none(
    server: Server, kernels: KernelService, bench: ExecutorBench, filtered: None
) -> None:
    before = set(kernels.ids())
    await server.request("POST", "api/kernels", {"name": "python3"})
    (kernel_id,) = set(kernels.ids()) - before
    assert (await run(bench, FIND_CANARY, kernel_id)).text() == "['HARMLESS']\n"
    await kernels.shutdown(kernel_id)
