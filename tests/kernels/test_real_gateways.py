"""Executions behind the gateways that people run, from their packages (`make soak`).

Each has a separate environment: Enterprise Gateway needs years-old versions of Jupyter's packages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from tests.kernels.conftest import Server, running_server
from tests.kernels.gateways import ENTERPRISE_GATEWAY, KERNEL_GATEWAY, running_gateway
from tests.support import faults
from tests.support.executor_bench import ExecutorBench, run
from tests.support.executor_faults import EndOfKernelConformance
from tests.support.executor_outputs import OutputConformance
from tests.support.executors import SharingConformance, StatusConformance

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]

PROGRAMS = {
    "kernelgateway": (KERNEL_GATEWAY, "jupyter_kernel_gateway"),
    "kernelgateway25": (KERNEL_GATEWAY, "jupyter_kernel_gateway==2.5.2"),
    "enterprisegateway": (ENTERPRISE_GATEWAY, "jupyter_enterprise_gateway"),
    "enterprisegateway30": (ENTERPRISE_GATEWAY, "jupyter_enterprise_gateway==3.0.0"),
}
"""The newest ones, and the lowest that run with this Python."""


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def backend() -> str:
    return "gateway"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(program: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    kind, package = PROGRAMS[program]
    installed = replace(kind, packages=(program, "--upgrade", package))
    async with (
        running_gateway(folder / "gateway", program=installed) as gateway,
        running_server(folder, gateway=gateway) as server,
    ):
        yield server


class TestGateway(StatusConformance, SharingConformance, OutputConformance, EndOfKernelConformance):
    async def test_ten_megabytes_in_a_hundred_thousand_lines_are_kept(
        self, bench: ExecutorBench
    ) -> None:
        outcome = await run(bench, faults.print_lines(100_000, width=100))
        numbers = [int(line) for line in outcome.text().splitlines()]
        assert (outcome.status, numbers) == ("ok", list(range(100_000)))
