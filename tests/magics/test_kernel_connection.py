"""A kernel's connection to the server: whose it is, until when, and what it may not do."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.magics.conftest import DEADLINE, NotebookHarness, cells_of
from tests.server.test_users import TOKENS, TwoUsers
from tk_ai_extension.testing.scripted_model import Answer, ScriptedModel, ToolUse

pytestmark = pytest.mark.proves("threat:kernel-pass")

PRINT_CREDENTIALS = """\
import os, json
print(json.dumps([os.environ['TK_AI_SOCKET'], os.environ['TK_AI_CREDENTIAL']]))
"""

FROM_A_CHILD = """\
import os, subprocess, sys
code = '''
import sys
from tk_ai_extension.magics.server_connection import ServerConnection
with ServerConnection() as connection:
    connection.ask(message="From a child.")
    while (event := connection.receive())["kind"] != "done":
        pass
    print(event["text"])
'''
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
"""


async def ask(address: str, **question: Any) -> dict[str, Any]:
    """Asks over a kernel's socket from this process, which is no kernel; the first answer."""
    reader, writer = await asyncio.open_unix_connection(address)
    writer.write(json.dumps(question).encode() + b"\n")
    async with asyncio.timeout(DEADLINE):
        answer = json.loads(await reader.readline())
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.fixture
async def credentials(harness: NotebookHarness, notebook: str) -> tuple[str, str]:
    """The socket of a notebook's kernel, and its credential."""
    address, shown = json.loads(
        (await (await harness.open(notebook)).run(PRINT_CREDENTIALS)).printed
    )
    return address, shown


@pytest.mark.skipif(
    sys.platform != "linux", reason="the system does not say who is at the other end"
)
async def test_a_credential_is_good_in_its_own_kernel_alone(
    harness: NotebookHarness, model: ScriptedModel, credentials: tuple[str, str]
) -> None:
    address, shown = credentials
    for name in ("credential", "pass"):
        for given in ("", "guessed", shown):
            answer = await ask(address, **{name: given}, message="Hello.")
            assert answer["error"]["code"] == "permission_denied", given
    assert stat.S_IMODE(Path(address).parent.stat().st_mode) == 0o700
    assert model.requests == []


async def test_a_credential_ends_with_its_kernel_and_a_restart_gives_a_new_one(
    harness: NotebookHarness, extension: Any, notebook: str
) -> None:
    person = await harness.open(notebook)
    address, shown = json.loads((await person.run(PRINT_CREDENTIALS)).printed)
    await extension.workspace.kernels.restart(person.kernel_id)
    again = await harness.person(person.kernel_id)
    assert json.loads((await again.run(PRINT_CREDENTIALS)).printed) not in ([address, shown], [])
    refused = await ask(address, credential=shown, message="Hello.")
    assert "does not know this credential" in refused["error"]["message"]
    await extension.workspace.kernels.shutdown(person.kernel_id)
    assert extension.services.kernel_chat._credentials == {}


@pytest.mark.proves("threat:secrets")
async def test_no_key_and_no_token_reaches_a_kernel_and_its_child_processes_may_ask_without(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, jp_serverapp: Any
) -> None:
    person = await harness.open(notebook)
    ran = await person.run("import os; print(dict(os.environ))")
    assert jp_serverapp.identity_provider.token not in ran.printed
    assert model.environment["ANTHROPIC_API_KEY"] not in ran.printed
    model.add(Answer.of("Hello, child."))
    assert (await person.run(FROM_A_CHILD)).printed == "Hello, child.\n\n"


async def test_a_cell_reaches_no_other_chat_and_answers_nobody_elses_question(
    harness: NotebookHarness, model: ScriptedModel, notebook: str, jp_root_dir: Path
) -> None:
    """It names neither a chat nor a notebook, and knows only the questions of its own turn."""
    person = await harness.open(notebook)
    model.add(Answer.of(ToolUse("insert_cell", {"source": "x"})), Answer.of("Hm."))
    ran = await person.run(
        "from tk_ai_extension.magics.server_connection import ServerConnection\n"
        "with ServerConnection() as connection:\n"
        "    connection.ask(message='Hello.', chat='another', notebook='/elsewhere/other.ipynb')\n"
        "    while (event := connection.receive())['kind'] != 'permission':\n"
        "        print(event.get('notebook', ''))\n"
        "    print(event['answers'])\n"
        "    connection.send({'permission': event['id'], 'answer': 'chat'})\n"
        "    while (event := connection.receive())['kind'] != 'done': pass\n"
        "    connection.receive()\n"
    )
    assert notebook in ran.printed.split()
    assert "['once', 'notebook', 'deny']" in ran.printed
    assert "has no such permission request" in ran.traceback[0]
    assert len(cells_of(jp_root_dir, notebook)) == 2


async def test_a_kernel_without_a_notebook_or_a_connection_gets_an_error(
    harness: NotebookHarness, notebook: str
) -> None:
    kernel = await harness.request("POST", "api/kernels", {"name": "python3"})
    ran = await (await harness.person(kernel["id"])).run("%tk Hello.")
    assert ran.traceback[0].startswith("tk [notebook_required]: ")

    person = await harness.open(notebook)
    ran = await person.run(
        "import os\nfor name in ('TK_AI_SOCKET', 'TK_AI_LINE'): os.environ.pop(name)\n%tk Hello."
    )
    assert ran.traceback[0].startswith("tk [no_connection]: This kernel has no connection")
    assert "nb chat" in ran.traceback[1]
    # The first name is that of the previous release.
    for name in ("TK_AI_LINE", "TK_AI_SOCKET"):
        ran = await person.run(f"os.environ['{name}'] = '/nowhere'\n%tk Hello.")
        assert ran.traceback[0].startswith(
            "tk [no_connection]: The server that started this kernel"
        ), name


class TestSeveralUsers:
    @pytest.fixture
    def chat_config(self, chat_config: Any) -> Any:
        chat_config.ServerApp.identity_provider_class = TwoUsers
        return chat_config

    @pytest.fixture
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"token {next(iter(TOKENS))}"}

    @pytest.mark.proves("threat:other-user", "ext:multi-user")
    async def test_where_a_server_has_several_users_a_cell_asks_for_none_of_them(
        self, harness: NotebookHarness, model: ScriptedModel, notebook: str
    ) -> None:
        person = await harness.open(notebook)
        ran = await person.run("%tk Hello.")
        assert ran.traceback[0].startswith("tk [permission_denied]: ")
        assert model.requests == []

    async def test_a_server_of_jupyterhub_is_its_owners(
        self,
        harness: NotebookHarness,
        model: ScriptedModel,
        notebook: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("JUPYTERHUB_USER", "ada")
        person = await harness.open(notebook)
        model.add(Answer.of("Hello, Ada."))
        assert (await person.run("%tk Hello.")).text == "Hello, Ada."


class TestWithoutCellChat:
    @pytest.fixture
    def chat_config(self, chat_config: Any) -> Any:
        chat_config.TkAIExtensionApp.cell_chat = False
        return chat_config

    async def test_an_administrator_may_give_kernels_no_connection(
        self, harness: NotebookHarness, notebook: str
    ) -> None:
        person = await harness.open(notebook)
        assert "TK_AI" not in (await person.run("import os; print(dict(os.environ))")).printed
        assert "no_connection" in (await person.run("%tk Hello.")).traceback[0]


async def test_a_kernel_starts_also_where_there_can_be_no_connection(
    harness: NotebookHarness, notebook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("d" * 120)  # a socket's path may have about a hundred bytes
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    person = await harness.open(notebook)
    assert "no_connection" in (await person.run("%tk Hello.")).traceback[0]


async def test_the_socket_goes_with_the_server(extension: Any) -> None:
    server = extension.services.kernel_chat
    variables = await server.issue("a kernel")
    address = variables["TK_AI_SOCKET"]
    assert variables["TK_AI_LINE"] == address
    assert variables["TK_AI_PASS"] == variables["TK_AI_CREDENTIAL"]
    folder = Path(address).parent
    assert [each.name for each in folder.iterdir()] == ["chat.sock"]
    await server.close()
    assert not folder.exists()
    assert await server.issue("another") == {}
