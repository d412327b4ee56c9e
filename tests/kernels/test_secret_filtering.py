"""No kernel of a server gets the agent's secrets, however it is started and however often."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from tests.kernels.conftest import Server
from tests.support.executor_bench import ExecutorBench, run
from tk_ai_extension.kernels.environment import inherited_environment, keep_secrets_from_kernels
from tk_ai_extension.kernels.service import Kernels

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
    monkeypatch.setattr(server.manager, "pre_start_kernel", server.manager.pre_start_kernel)
    keep_secrets_from_kernels(server.manager, ["CORP_*"])
    yield


async def test_a_persons_kernel_has_none_also_after_a_rename_and_a_restart(
    server: Server, kernels: Kernels, bench: ExecutorBench, filtered: None
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
    server: Server, kernels: Kernels, bench: ExecutorBench, filtered: None
) -> None:
    before = set(kernels.ids())
    await server.request("POST", "api/kernels", {"name": "python3"})
    (kernel_id,) = set(kernels.ids()) - before
    assert (await run(bench, FIND_CANARY, kernel_id)).text() == "['HARMLESS']\n"
    await kernels.shutdown(kernel_id)


async def test_a_kernel_of_ours_has_none_also_after_a_rename_and_a_restart(
    server: Server, bench: ExecutorBench, filtered: None
) -> None:
    kernels = Kernels(
        server.manager,
        server.app.kernel_spec_manager,
        environment=partial(inherited_environment, ["CORP_*"]),
    )
    kernel_id = await kernels.start("python3", path="a.ipynb")
    sessions = server.app.session_manager
    session = await sessions.create_session(
        path="a.ipynb", name="a.ipynb", type="notebook", kernel_id=kernel_id
    )
    await server.request("PATCH", f"api/sessions/{session['id']}", {"path": "b.ipynb"})
    await kernels.restart(kernel_id)
    assert (await run(bench, FIND_CANARY, kernel_id)).text() == "['HARMLESS']\n"
    await kernels.shutdown(kernel_id)
    await kernels.close()


async def test_another_default_provisioner_is_left_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = KernelProvisionerFactory.instance()
    monkeypatch.setattr(factory, "default_provisioner_name", "the-administrators")
    manager = AsyncMultiKernelManager()
    keep_secrets_from_kernels(manager)
    assert manager.pre_start_kernel("python3", {})[0].provisioner is None
    assert factory.default_provisioner_name == "the-administrators"


async def test_another_manager_in_the_process_is_left_alone() -> None:
    factory = KernelProvisionerFactory.instance()
    before = factory.default_provisioner_name, dict(factory.provisioners)
    ours, other, third = (AsyncMultiKernelManager() for _ in range(3))
    keep_secrets_from_kernels(ours, ["OURS_*"])
    keep_secrets_from_kernels(third, ["THIRD_*"])
    provisioners: list[Any] = [
        each.pre_start_kernel("python3", {})[0].provisioner for each in (ours, third)
    ]
    assert "OURS_*" in provisioners[0].left_out
    assert "THIRD_*" not in provisioners[0].left_out
    assert "THIRD_*" in provisioners[1].left_out
    assert other.pre_start_kernel("python3", {})[0].provisioner is None
    assert (factory.default_provisioner_name, dict(factory.provisioners)) == before


async def test_a_kernelspec_that_is_not_there_is_jupyters_to_refuse() -> None:
    manager = AsyncMultiKernelManager()
    keep_secrets_from_kernels(manager)
    with pytest.raises(NoSuchKernel):
        await manager.start_kernel(kernel_name="nowhere")
