"""A gateway: a second Jupyter Server, in a separate process, that runs the kernels of another."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.session import Session
from tornado.httpclient import AsyncHTTPClient

from scripts.versions import with_packages
from tests.servers import Log
from tests.support.faults import write_kernelspec

EXTENSIONS = {
    # A gateway has no pages: what they are made of takes most of its start.
    **dict.fromkeys(("jupyterlab", "jupyter_lsp", "notebook", "notebook_shim"), False),
    "tk_ai_extension": False,
    "jupyter_server_nbmodel": False,
    "jupyter_server_ydoc": False,
}


class RemoteManager:
    """The part of a kernel manager that a person's client needs, from its connection file."""

    def __init__(self, connection_file: Path) -> None:
        self._info: dict[str, Any] = json.loads(connection_file.read_text())
        self.session = Session(
            key=self._info["key"].encode(), signature_scheme=self._info["signature_scheme"]
        )

    def client(self, *, session: Session) -> AsyncKernelClient:
        client: Any = AsyncKernelClient(session=session)
        client.load_connection_info(self._info)
        return client


@dataclass
class Gateway:
    """A running gateway.

    Attributes:
        url: Ends in a slash.
        token: For authentication.
        folder: With its configuration, data and runtime folders.
    """

    process: asyncio.subprocess.Process
    url: str
    token: str
    folder: Path
    log: Log

    def get_kernel(self, kernel_id: str) -> RemoteManager:
        """A manager of clients that connect to a kernel without its server."""
        return RemoteManager(self.folder / "runtime" / f"kernel-{kernel_id}.json")

    async def kernels(self) -> dict[str, Mapping[str, Any]]:
        """What runs there, by id."""
        return {each["id"]: each for each in await self.request("GET", "api/kernels")}

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """A request to its REST API by another client than the server that uses it."""
        answer = await AsyncHTTPClient().fetch(
            self.url + path,
            method=method,
            headers={"Authorization": f"token {self.token}"},
            body=None if method in {"GET", "DELETE"} else json.dumps(body or {}),
        )
        return json.loads(answer.body) if answer.body else None


@dataclass(frozen=True)
class Program:
    """A program that serves kernels.

    Attributes:
        module: What ``python -m`` runs.
        config: The name of its configuration file.
        settings: In that file, with ``{token}``.
        arguments: Further arguments, with ``{root}`` for the folder of its notebooks.
        packages: What it is installed from, with the name of its environment first; empty for the
            environment of the tests.
    """

    module: str
    config: str
    settings: str
    arguments: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


JUPYTER_SERVER = Program(
    "jupyter_server",
    "jupyter_server_config.py",
    f"c.ServerApp.jpserver_extensions = {EXTENSIONS}\nc.IdentityProvider.token = '{{token}}'\n",
    ("--ServerApp.port=0", "--no-browser", "--allow-root", "--ServerApp.root_dir={root}"),
)
KERNEL_GATEWAY = Program(
    "kernel_gateway",
    "jupyter_kernel_gateway_config.py",
    "c.KernelGatewayApp.auth_token = '{token}'\n"
    # The kernel of the tests' environment: the gateway's own may be years old.
    "c.KernelSpecManager.ensure_native_kernel = False\n"
    "c.JupyterWebsocketPersonality.list_kernels = True\n"
    # By default it drops what is printed beyond 1 MB a second.
    "c.ZMQChannelsWebsocketConnection.iopub_data_rate_limit = 1e9\n",
    ("--KernelGatewayApp.ip=127.0.0.1", "--KernelGatewayApp.port={port}"),
)
ENTERPRISE_GATEWAY = Program(
    "enterprise_gateway",
    "jupyter_enterprise_gateway_config.py",
    "c.EnterpriseGatewayApp.auth_token = '{token}'\n"
    "c.KernelSpecManager.ensure_native_kernel = False\n"
    "c.EnterpriseGatewayApp.list_kernels = True\n"
    # By default it starts nothing for root, which may run these tests.
    "c.EnterpriseGatewayApp.unauthorized_users = []\n",
    ("--EnterpriseGatewayApp.ip=127.0.0.1", "--EnterpriseGatewayApp.port={port}"),
)


@asynccontextmanager
async def running_gateway(
    folder: Path, config: str = "", program: Program = JUPYTER_SERVER
) -> AsyncGenerator[Gateway]:
    """Starts a gateway with the kernelspecs ``python3`` and ``bash``; ``config`` is added to its own."""
    token = secrets.token_hex()
    for name in ("root", "config"):
        (folder / name).mkdir(parents=True)
    bash = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    write_kernelspec(folder / "data" / "kernels", "bash", bash, language="bash")
    if program.packages:
        ipython = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        write_kernelspec(folder / "data" / "kernels", "python3", ipython)
    (folder / "config" / program.config).write_text(
        f"c = get_config()\n{program.settings.replace('{token}', token)}"
        # How often it looks whether kernels live, in seconds: 3 by default.
        f"c.KernelRestarter.time_to_dead = 1.0\n{config}"
    )
    python = sys.executable
    if program.packages:
        python = str(await asyncio.to_thread(with_packages, *program.packages))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = (each.format(root=folder / "root", port=port) for each in program.arguments)
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", program.module, *arguments),
        env={
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "IPYTHONDIR": str(folder / "ipython"),
        },
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    log = Log()
    reading = asyncio.create_task(log.read(process.stderr))
    try:
        url = (await log.line("http://127.0.0.1:")).split()[-1].partition("?")[0]
        yield Gateway(process, url, token, folder, log)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
        await reading
