"""What lets `nb` in at a Jupyter Server: taken from who asks, shown and written down nowhere else."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Nb
from tests.servers import ServerProcess, StartServer, start_server
from tk_ai_extension.cli.project import Project
from tk_ai_extension.cli.serverless import local_context
from tk_ai_extension.cli.servers import Server, Servers, ServerUnreachable
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.masking import MaskingFormatter, masked

__all__ = ["start_server"]

pytestmark = pytest.mark.proves("threat:secrets")

CANARY = "5ec4e7-canary"


@pytest.fixture
async def server(start_server: StartServer) -> ServerProcess:
    return await start_server()


@pytest.mark.parametrize(
    "text",
    [
        f"http://localhost:8888/lab?token={CANARY}",
        f"see http://localhost:8888/lab?a=1&token={CANARY}&b=2 for more",
        f"['open', 'http://x/?token={CANARY}']",
        f"http://me:{CANARY}@localhost/",
        f"http://x/?next=%3Ftoken%3D{CANARY}",
        f"{{'Authorization': 'token {CANARY}'}}",
        f"Authorization: Bearer {CANARY}",
    ],
)
def test_a_token_is_masked_wherever_it_stands(text: str) -> None:
    assert CANARY not in masked(text)
    assert masked(text).count("***") == 1
    record = logging.LogRecord("nb", logging.ERROR, "", 0, "failed: %s", (text,), None)
    error = ValueError(text)
    record.exc_info = (ValueError, error, None)
    assert CANARY not in MaskingFormatter("%(message)s").format(record)


@pytest.mark.parametrize("text", ["tokens: 3", "a token was missing", "http://x/?tokens", "a@b.c"])
def test_text_without_a_token_stays(text: str) -> None:
    assert masked(text) == text


def test_a_server_is_shown_without_its_token() -> None:
    server = Server.at(f"http://localhost:8888/lab/tree/a.ipynb?token={CANARY}")
    assert (server.url, server.token) == ("http://localhost:8888/", CANARY)
    assert CANARY not in f"{server} {server!r}"
    assert Server.at("http://localhost:8888/", CANARY).token == CANARY
    for address in (
        f"localhost?token={CANARY}",
        f"http://[?token={CANARY}",
        f"http://u:{CANARY}@h",
    ):
        with pytest.raises(ServerUnreachable, match="is not an address") as refused:
            Server.at(address)
        assert CANARY not in refused.value.message


def holding(folder: Path, text: str) -> list[Path]:
    """The files below a folder in which a text stands."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return [file for file in files if text.encode() in file.read_bytes()]


async def test_it_is_in_no_log_answer_or_file_of_the_project(nb: Nb, server: ServerProcess) -> None:
    printed: list[str] = []
    for address, status in (
        (f"{server.url}lab?token={server.token}", 0),
        (f"ftp://nowhere/?token={server.token}", 3),
        (f"http://127.0.0.1:1/?token={server.token}", 3),
        (f"{server.url}?token={server.token}x", 3),
    ):
        ended = await asyncio.to_thread(nb, "open", "a.ipynb", "--server", address, status=status)
        printed += [ended.out, ended.err]
    for words in (["status"], ["status", "--json"], ["doctor"], ["ps", "--json"]):
        printed.append((await asyncio.to_thread(nb, *words)).out)
    address = server.url.replace("127.0.0.1", "localhost")
    assert f"in the Jupyter Server at {address}" in "".join(printed)
    printed += [file.read_text() for file in (nb.root / ".nb").rglob("*") if file.is_file()]
    assert server.token not in "".join(printed)
    holders = holding(Path(nb.environment["JUPYTER_DATA_DIR"]), server.token)
    assert [file.name for file in holders] == ["server.json"]
    assert holders[0].stat().st_mode & 0o777 == 0o600
    await asyncio.to_thread(nb, "shutdown")
    assert not holders[0].exists()


async def test_it_is_that_of_the_command_which_names_the_server(
    nb: Nb, server: ServerProcess
) -> None:
    nb.environment["JUPYTER_TOKEN"] = "of the command that has started the host"
    await asyncio.to_thread(nb, "open", "a.ipynb")
    open_there = ("open", "there.ipynb", "--server", server.url)
    await asyncio.to_thread(nb, *open_there, status=3)
    await asyncio.to_thread(nb, *open_there, env={"JUPYTER_TOKEN": server.token})
    assert (server.root / "there.ipynb").exists()


async def test_it_need_not_be_typed_for_a_server_that_runs_here(
    nb: Nb, server: ServerProcess
) -> None:
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    await asyncio.to_thread(nb, "open", "there.ipynb", "--server", f"{server.url}lab")
    assert (server.root / "there.ipynb").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_server_that_another_user_has_written_down_is_none(tmp_path: Path) -> None:
    file = tmp_path / f"jpserver-{os.getpid()}.json"
    address = "http://localhost:8888/"
    file.write_text(json.dumps({"url": address, "token": CANARY, "root_dir": str(tmp_path)}))
    assert [server.token for server in Servers(tmp_path).running()] == [CANARY]
    os.chown(file, 12345, 12345)
    assert Servers(tmp_path).running() == []
    assert Servers(tmp_path).at(address).token == ""


@pytest.mark.proves("nb:sandbox")
async def test_a_project_does_not_get_both_a_server_and_a_sandbox(
    tmp_path: Path, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    project = Project(str(tmp_path))
    project.make()
    context = local_context(project)
    services = context.project
    assert services is not None
    try:
        ended = await asyncio.gather(
            services.attach(server.url, server.token),
            services.confine(context.workspace.kernels, sandbox=True),
            return_exceptions=True,
        )
        assert ended[0] is None
        assert isinstance(ended[1], InvalidArguments)
        assert (services.settings.now.server is None) == services.settings.now.sandbox
        await services.attach(None)
    finally:
        await context.workspace.close()
