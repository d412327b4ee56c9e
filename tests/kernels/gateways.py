"""A gateway: a second Jupyter Server, in a process of its own, that runs the kernels of another."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.session import Session
from tornado.httpclient import AsyncHTTPClient

from tests.servers import Log
from tk_ai_extension.testing.faults import write_kernelspec

EXTENSIONS = {
    # A gateway has no pages: what they are made of takes most of its start.
    **dict.fromkeys(("jupyterlab", "jupyter_lsp", "notebook", "notebook_shim"), False),
    "tk_ai_extension": False,
    "jupyter_server_nbmodel": False,
    "jupyter_server_ydoc": False,
}


class RemoteManager:
    """As much of a kernel's manager as a person's client needs, from its connection file."""

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
        token: What it requires of its clients.
        folder: With its configuration, data and runtime folders.
    """

    process: asyncio.subprocess.Process
    url: str
    token: str
    folder: Path
    log: Log

    def get_kernel(self, kernel_id: str) -> RemoteManager:
        """What gives a person's client of a kernel, without the server whose kernel it is."""
        return RemoteManager(self.folder / "runtime" / f"kernel-{kernel_id}.json")

    async def kernels(self) -> dict[str, Mapping[str, Any]]:
        """What runs there, by id."""
        return {each["id"]: each for each in await self.request("GET", "api/kernels")}

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """A request to its REST API by somebody else than the server whose gateway it is."""
        answer = await AsyncHTTPClient().fetch(
            self.url + path,
            method=method,
            headers={"Authorization": f"token {self.token}"},
            body=None if method in {"GET", "DELETE"} else json.dumps(body or {}),
        )
        return json.loads(answer.body) if answer.body else None


@asynccontextmanager
async def running_gateway(folder: Path, config: str = "") -> AsyncIterator[Gateway]:
    """Starts a gateway with the kernelspecs ``python3`` and ``bash``; ``config`` is added to its own."""
    token = secrets.token_hex()
    for name in ("root", "config"):
        (folder / name).mkdir(parents=True)
    bash = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    write_kernelspec(folder / "data" / "kernels", "bash", bash, language="bash")
    (folder / "config" / "jupyter_server_config.py").write_text(
        f"c = get_config()\nc.ServerApp.jpserver_extensions = {EXTENSIONS}\n"
        f"c.IdentityProvider.token = {token!r}\n"
        # How often it looks whether kernels live, in seconds: 3 by default.
        f"c.KernelRestarter.time_to_dead = 1.0\n{config}"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jupyter_server", "--ServerApp.port=0", "--no-browser"),
        *("--allow-root", f"--ServerApp.root_dir={folder / 'root'}"),
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
