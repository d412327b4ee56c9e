"""Fixtures: a server, its gateway, and a network between them that can be made to fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.kernels.conftest import Server, running_server
from tests.kernels.gateways import Gateway, running_gateway
from tests.support.executor_bench import ExecutorBench
from tests.support.proxy import Proxy, proxy_to
from tk_ai_extension.kernels.environment_variables import inherited_environment
from tk_ai_extension.kernels.gateway import GatewayKernelService


@pytest.fixture(scope="module")
def backend() -> str:
    return "gateway"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    # Messages a second, 1,000 by default: as many as a slow machine prints in any case.
    limit = "c.ZMQChannelsWebsocketConnection.iopub_msg_rate_limit = 250\n"
    # Seconds that it waits for a kernel which does not stop, 5 by default.
    limit += "c.KernelManager.shutdown_wait_time = 1.0"
    async with running_gateway(tmp_path_factory.mktemp("gateway"), limit) as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def network(gateway: Gateway) -> AsyncIterator[Proxy]:
    """The network between the server and its gateway."""
    async with proxy_to(gateway.url) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    gateway: Gateway, network: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    async with running_server(folder, gateway=gateway, url=network.url) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def proxy(network: Proxy) -> Proxy:
    """The network, with nothing wrong with it yet."""
    await network.restore()
    return network


@pytest_asyncio.fixture(loop_scope="module")
async def service(server: Server) -> AsyncIterator[Callable[..., GatewayKernelService]]:
    """Makes services of a test's own over the server's kernels; arguments are `GatewayKernelService`'."""
    made: list[GatewayKernelService] = []

    def make(**options: Any) -> GatewayKernelService:
        options = {"environment": inherited_environment, "ready_timeout": 30.0, **options}
        specs = server.app.kernel_spec_manager
        made.append(GatewayKernelService(server.manager, specs, **options))
        return made[-1]

    yield make
    for kernels in made:
        await kernels.close()


def at(bench: ExecutorBench, kernels: GatewayKernelService) -> ExecutorBench:
    """The bench with another service."""
    return ExecutorBench(
        kernels, bench.manager, bench.backend, bench.kernel_id, bench.harmed, bench.request
    )
