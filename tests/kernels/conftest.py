"""A Jupyter Server for the tests of one module, and the kernels in it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.serverapp import ServerApp
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from traitlets import default
from traitlets.config import Config

from tk_ai_extension.kernels.nbmodel import find_execution_stack
from tk_ai_extension.kernels.run import Patience
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.testing.executor_bench import ExecutorBench
from tk_ai_extension.testing.faults import write_kernelspec

PATIENCE = Patience(second_half=5.0, interrupt=1.0, stopping=15.0)


@dataclass
class Server:
    """A Jupyter Server with its HTTP side."""

    app: ServerApp
    port: int
    specs: Path
    """The folder of its kernelspecs."""

    @property
    def manager(self) -> Any:
        return self.app.kernel_manager

    @property
    def stack(self) -> Any:
        return find_execution_stack(self.app.extension_manager)

    async def request(self, method: str, path: str, body: object = None) -> None:
        """A request to the REST API, as a person's browser makes it."""
        await AsyncHTTPClient().fetch(
            f"http://127.0.0.1:{self.port}/{path}",
            method=method,
            headers={"Authorization": "token secret"},
            body=None if method in {"GET", "DELETE"} else json.dumps(body or {}),
            request_timeout=30,
        )


@asynccontextmanager
async def running_server(folder: Path, *, nbmodel: bool) -> AsyncIterator[Server]:
    """A Jupyter Server in this process, with kernelspecs and files of its own."""
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

    class Specs(KernelSpecManager):
        """The kernelspecs of the tests alone, whatever the machine has."""

        @default("kernel_dirs")
        def _of_the_tests(self) -> list[str]:
            return [str(specs)]

        @default("ensure_native_kernel")
        def _and_no_other(self) -> bool:
            return False

    ServerApp.clear_instance()
    app = ServerApp.instance(config=config, log_level="WARN", open_browser=False, allow_root=True)
    app.init_signal = lambda: None
    app.kernel_spec_manager_class = Specs
    app.initialize(argv=[], find_extensions=False, new_httpserver=False)
    # Each message of a flood is worth a debug record to it, which pytest would keep.
    app.log.setLevel(logging.WARNING)
    socket, port = bind_unused_port()
    http = HTTPServer(app.web_app)
    http.add_sockets([socket])
    try:
        yield Server(app, port, specs)
    finally:
        http.stop()
        await http.close_all_connections()
        stack = find_execution_stack(app.extension_manager)
        if stack is not None:
            await stack.dispose()
        await app._cleanup()
        app.kernel_manager.context.destroy(linger=0)
        ServerApp.clear_instance()


@pytest.fixture(scope="module", params=["direct", "stack"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    async with running_server(folder, nbmodel=backend == "stack") as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernels(server: Server) -> AsyncIterator[JupyterKernels]:
    """The service over that server's kernels; `auto` takes the stack where there is one."""
    service = JupyterKernels(
        server.manager, server.app.kernel_spec_manager, stack=server.stack, patience=PATIENCE
    )
    yield service
    await service.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel_id(kernels: JupyterKernels) -> str:
    """A Python kernel that is not to be harmed."""
    return await kernels.start("python3")


@pytest_asyncio.fixture(loop_scope="module")
async def harmed(kernels: JupyterKernels) -> AsyncIterator[Callable[[], Awaitable[str]]]:
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
    kernels: JupyterKernels,
    backend: str,
    kernel_id: str,
    harmed: Callable[[], Awaitable[str]],
) -> ExecutorBench:
    return ExecutorBench(
        kernels=kernels,
        manager=server.manager,
        backend=backend,
        kernel_id=kernel_id,
        harmed=harmed,
        request=server.request,
    )
