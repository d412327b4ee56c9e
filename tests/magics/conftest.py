"""A person at a notebook of a Jupyter Server: its kernel, and cells that they run there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.session import Session
from traitlets.config import Config

from tests.server.conftest import Ask, ask, extension, jp_server_config, model, notebook, with_model
from tk_ai_extension.testing.scripted_model import ScriptedModel

__all__ = ["ask", "extension", "jp_server_config", "model", "notebook"]

DEADLINE = 60
"""Seconds for what comes at once on a machine that is not busy."""


@dataclass
class Ran:
    """What came of a cell: how it ended, what it displays in the end, what it printed and asked."""

    status: str = ""
    error: str = ""
    traceback: list[str] = field(default_factory=list[str])
    displays: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    updates: int = 0
    printed: str = ""
    asked: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """All that is displayed, as plain text."""
        return "\n".join(str(data["text/plain"]) for data in self.displays.values())


Answer = Callable[[str], str | None]
"""Returns the answer to a prompt; None to leave it unanswered."""


class Person:
    """Runs cells as JupyterLab does."""

    def __init__(self, client: AsyncKernelClient, kernel_id: str, interrupt: Any) -> None:
        self.kernel_id = kernel_id
        self.interrupt = interrupt
        """Interrupts the kernel."""
        self._client = client
        self.open_boxes: list[dict[str, Any]] = []
        """The headers of the questions that are not answered: JupyterLab keeps a box for each."""

    def type_in(self, box: dict[str, Any], text: str) -> None:
        """Sends what is typed in the box of a question, whether or not the kernel still waits for it."""
        session: Any = self._client.session
        message = session.msg("input_reply", {"value": text}, parent=box)
        self._client.stdin_channel.send(message)

    async def run(
        self,
        code: str,
        *,
        cell: str | None = None,
        answer: Answer | None = None,
        on_message: Callable[[Ran], object] = id,
    ) -> Ran:
        """Runs code to its end.

        Args:
            code: The cell's source.
            cell: The cell's id, where it is one of the notebook's.
            answer: Answers what it asks; a client that takes no questions where left out.
            on_message: Called after each message with what has come of it so far.
        """
        ran = Ran()
        session: Any = self._client.session
        content = {"code": code, "silent": False, "allow_stdin": answer is not None}
        metadata = {} if cell is None else {"cellId": cell}
        message = session.msg("execute_request", content, metadata=metadata)
        answering = asyncio.create_task(self._answer(answer, ran))
        try:
            async with asyncio.timeout(DEADLINE):
                self._client.shell_channel.send(message)
                await self._listen(message["header"]["msg_id"], ran, on_message)
                while True:
                    reply: Any = await self._client.get_shell_msg()
                    if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                        break
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        ran.status = reply["content"]["status"]
        ran.error = f"{reply['content'].get('ename')}: {reply['content'].get('evalue')}"
        return ran

    async def _listen(self, request: str, ran: Ran, on_message: Callable[[Ran], object]) -> None:
        while True:
            message: Any = await self._client.get_iopub_msg()
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    ran.printed += content["text"]
                case "display_data" | "update_display_data":
                    ran.displays[content["transient"]["display_id"]] = content["data"]
                    ran.updates += message["msg_type"] == "update_display_data"
                case "error":
                    ran.traceback = content["traceback"]
                case "status" if content["execution_state"] == "idle":
                    return
                case _:
                    continue
            on_message(ran)

    async def _answer(self, answer: Answer | None, ran: Ran) -> None:
        while answer is not None:
            question: Any = await self._client.get_stdin_msg()
            ran.asked.append(question["content"]["prompt"])
            self.open_boxes.append(question["header"])
            if (given := answer(ran.asked[-1])) is not None:
                self.type_in(self.open_boxes.pop(), given)


@pytest.fixture
def chat_config(jp_server_config: Config, tmp_path: Path) -> Config:
    return with_model(jp_server_config, tmp_path / "state")


@pytest.fixture
def headers(jp_auth_header: dict[str, str]) -> dict[str, str]:
    """What a person's browser shows to the server."""
    return jp_auth_header


class NotebookHarness:
    """The notebooks of a server, as people open them."""

    def __init__(self, ask: Ask, headers: dict[str, str], manager: Any) -> None:
        self._ask = ask
        self._headers = headers
        self._manager = manager
        self._clients: list[AsyncKernelClient] = []

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """Asks the server."""
        response = await self._ask(method, path, body, **self._headers)
        assert response.code < 400, response.body
        return json.loads(response.body) if response.body else None

    async def open(self, path: str) -> Person:
        """Opens a notebook: a kernel starts, as by JupyterLab, and has the magics."""
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}}
        session = await self.request("POST", "api/sessions", body)
        return await self.person(session["kernel"]["id"])

    async def person(self, kernel_id: str) -> Person:
        """Somebody at a kernel that runs, who has loaded the magics."""
        manager = self._manager.get_kernel(kernel_id)
        client: AsyncKernelClient = manager.client()
        # The manager's session is one identity: a kernel that restarts would answer one of its clients.
        client.session = Session(key=manager.session.key)
        client.start_channels()
        self._clients.append(client)
        await client.wait_for_ready(timeout=DEADLINE)
        person = Person(client, kernel_id, manager.interrupt_kernel)
        loaded = await person.run("%load_ext tk_ai_extension.magics")
        assert loaded.status == "ok", loaded.traceback
        return person

    async def close(self) -> None:
        """Closes the lines to the kernels, and ends those."""
        for client in self._clients:
            client.stop_channels()
        await self._manager.shutdown_all(now=True)


@pytest.fixture
async def harness(
    model: ScriptedModel, chat_config: Config, ask: Ask, headers: Any, jp_serverapp: Any
) -> AsyncIterator[NotebookHarness]:
    harness = NotebookHarness(ask, headers, jp_serverapp.kernel_manager)
    yield harness
    await harness.close()


def cells_of(root: Path, notebook: str) -> list[Any]:
    """The cells of a notebook, as they are saved."""
    return nbformat.read(root / notebook, as_version=4).cells
