"""A Jupyter Server for the tests of one module, and the kernels in it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.serverapp import ServerApp
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from traitlets import default
from traitlets.config import Config

from tests.harness import end_server
from tests.kernels.gateways import Gateway, running_gateway
from tests.servers import start_server
from tests.support.executor_bench import ExecutorBench
from tests.support.faults import write_kernelspec
from tk_ai_extension.kernels.environment_variables import inherited_environment
from tk_ai_extension.kernels.gateway import kernels_of
from tk_ai_extension.kernels.kernel_service import (
    READY_TIMEOUT,
    KernelService,
    find_execution_stack,
)
from tk_ai_extension.kernels.provisioner import provision_kernels
from tk_ai_extension.kernels.sandbox.sandbox import Sandbox, probe

__all__ = ["start_server"]


@dataclass
class Server:
    """A Jupyter Server with its HTTP side."""

    app: ServerApp
    port: int
    specs: Path
    """The folder of its kernelspecs."""
    gateway: Gateway | None = None
    """The gateway that runs its kernels, if it does not do so itself."""

    @property
    def manager(self) -> Any:
        return self.app.kernel_manager

    @property
    def kernels(self) -> Any:
        """A manager of its kernels that gives clients of them."""
        return self.gateway or self.manager

    @property
    def stack(self) -> Any:
        return find_execution_stack(self.app.extension_manager)

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer of the REST API to a request, as a person's browser makes it."""
        response = await AsyncHTTPClient().fetch(
            f"http://127.0.0.1:{self.port}/{path}",
            method=method,
            headers={"Authorization": "token secret"},
            body=None if method in {"GET", "DELETE"} else json.dumps(body or {}),
            request_timeout=30,
        )
        return json.loads(response.body) if response.body else None


@asynccontextmanager
async def running_server(
    folder: Path, *, nbmodel: bool = False, gateway: Gateway | None = None, url: str = ""
) -> AsyncGenerator[Server]:
    """A Jupyter Server in this process, with its own kernelspecs and files.

    Args:
        folder: For all that it writes.
        nbmodel: Whether it has jupyter_server_nbmodel.
        gateway: What runs its kernels; itself unless given.
        url: Where it finds the gateway, if not at its own address: what is between them.
    """
    specs = folder / "kernels"
    write_kernelspec(
        specs, "python3", [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    )
    bash = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    write_kernelspec(specs, "bash", bash, language="bash")
    for name in ("root", "runtime"):
        (folder / name).mkdir()
    config = Config()
    config.ServerApp.jpserver_extensions = {"jupyter_server_nbmodel": nbmodel}
    config.ServerApp.root_dir = str(folder / "root")
    config.IdentityProvider.token = "secret"
    config.AsyncMultiKernelManager.connection_dir = str(folder / "runtime")
    if gateway is not None:
        config.GatewayClient.url = url or gateway.url
        config.GatewayClient.auth_token = gateway.token
        config.GatewayClient.gateway_retry_interval = 0.1

    class Specs(KernelSpecManager):
        """The kernelspecs of the tests only, whatever the machine has."""

        @default("kernel_dirs")
        def _of_the_tests(self) -> list[str]:
            return [str(specs)]

        @default("ensure_native_kernel")
        def _and_no_other(self) -> bool:
            return False

    ServerApp.clear_instance()
    GatewayClient.clear_instance()
    app = ServerApp.instance(config=config, log_level="WARN", open_browser=False, allow_root=True)
    app.init_signal = lambda: None
    if gateway is None:
        app.kernel_spec_manager_class = Specs
    app.initialize(argv=[], find_extensions=False, new_httpserver=False)
    provision_kernels(app.kernel_manager, [])
    # Each message of a flood is worth a debug record to it, which pytest would keep.
    app.log.setLevel(logging.WARNING)
    socket, port = bind_unused_port()
    http = HTTPServer(app.web_app)
    http.add_sockets([socket])
    try:
        yield Server(app, port, specs, gateway)
    finally:
        http.stop()
        await http.close_all_connections()
        stack = find_execution_stack(app.extension_manager)
        if stack is not None:
            await asyncio.wait({asyncio.ensure_future(stack.dispose())})  # it raises CancelledError
        await end_server(app)
        ServerApp.clear_instance()
        GatewayClient.clear_instance()


@pytest.fixture(scope="module", params=["bubblewrap", "podman"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    for finding in probe(Path("/nowhere")):
        if finding.name == request.param:
            if finding.sandbox is None:
                pytest.skip(f"{finding.name}: {finding.detail}")
            return finding.sandbox
    raise AssertionError(request.param)


@pytest.fixture(scope="module", params=["direct", "stack", "gateway"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    async with AsyncExitStack() as stack:
        gateway = None
        if backend == "gateway":
            gateway = await stack.enter_async_context(running_gateway(folder / "gateway"))
        yield await stack.enter_async_context(
            running_server(folder, nbmodel=backend == "stack", gateway=gateway)
        )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernels(server: Server) -> AsyncIterator[KernelService]:
    """The service over that server's kernels; `auto` takes the stack where there is one."""
    service = kernels_of(
        server.manager,
        server.app.kernel_spec_manager,
        environment=inherited_environment,
        ready_timeout=READY_TIMEOUT,
        stack=server.stack,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tk_ai_extension.kernels.kernel_run.INTERRUPT_TIMEOUT", 1.0)
        yield service
    await service.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel_id(kernels: KernelService) -> str:
    """A Python kernel that tests share and do not harm."""
    return await kernels.start("python3")


@pytest_asyncio.fixture(loop_scope="module")
async def harmed(kernels: KernelService) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """Starts Python kernels of the test's own."""
    started: list[str] = []

    async def start() -> str:
        started.append(await kernels.start("python3"))
        return started[-1]

    yield start
    for kernel_id in set(started) & set(kernels.ids()):
        await kernels.shutdown(kernel_id)


@pytest.fixture
def bench(
    server: Server,
    kernels: KernelService,
    backend: str,
    kernel_id: str,
    harmed: Callable[[], Awaitable[str]],
) -> ExecutorBench:
    return ExecutorBench(
        kernels=kernels,
        manager=server.kernels,
        backend=backend,
        kernel_id=kernel_id,
        harmed=harmed,
        request=server.request,
    )
