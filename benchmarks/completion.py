"""Code while a person types: a completion and an edit over REST beside the model's endpoint alone."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from contents import write
from family import Options, main
from harness import CallFailed
from measure import Row, interleaved, timed
from script import scripted
from serving import own_folders, server_command, serving

from tests.support.scripted_model import MODEL

SAMPLES = 40
ABOVE = 30
"""Cells above the one that is completed, as many as a page sends."""
NAMES = "; ".join(f"name_{number} = {number}" for number in range(200))
NOTEBOOK = "many.ipynb"
CELL = "total = sum(prices)\nprint(total)\n" * 5


async def measure(options: Options) -> AsyncGenerator[Row]:
    """A warm server with a kernel of 200 variables, and a model that answers at once."""
    root = options.new_folder("root")
    write(root / NOTEBOOK, [CELL] * ABOVE)
    async with scripted() as model, served(options, root, model) as (ours, alone):
        await ours("tools/use_notebook", notebook=NOTEBOOK)
        run = {"notebook": NOTEBOOK, "code": NAMES}
        await ours("tools/execute_ipython", **run)
        above = [{"type": "code", "source": CELL}] * ABOVE
        asked = {"client": "bench", "notebook": NOTEBOOK, "language": "python", "above": above}
        count = options.count(SAMPLES)
        floor, completion, edit = await interleaved(
            count,
            alone,
            lambda: ours("code/completion", prefix=CELL + "total = su", suffix=CELL, **asked),
            lambda: ours("code/edit", prompt="Sort the prices.", source=CELL, **asked),
        )
        what = f"a completion with {ABOVE} cells above and a kernel"
        yield timed(f"{what} (floor: the model alone)", completion, floor, above=30)
        yield timed("an edit of a cell by a prompt (floor: the model alone)", edit, floor, above=30)
        # After each run the kernel is asked again for its variables.
        ran: list[float] = []
        for _ in range(count):
            await ours("tools/execute_ipython", **run)
            ((once,),) = await interleaved(
                1, lambda: ours("code/completion", prefix="total = su", **asked), warm_ups=0
            )
            ran.append(once)
        yield timed("the same right after a cell ran, 200 variables", ran, floor, above=30)


@asynccontextmanager
async def served(
    options: Options, root: Path, model: Mapping[str, str]
) -> AsyncGenerator[tuple[Any, Any]]:
    """A server that asks this model, and the model alone: two functions that ask and wait."""
    folder = options.new_folder("server")
    environment = {**os.environ, **own_folders(folder), **model}
    del environment["JUPYTER_NO_CONFIG"]
    command = server_command(
        root,
        "--ServerApp.jpserver_extensions=jupyter_server_ydoc=False",
        f"--TkAIExtensionApp.chat_model={MODEL}",
    )
    key = {"x-api-key": model["ANTHROPIC_API_KEY"]}
    async with (
        serving(command, folder, environment, folder / "server.log") as server,
        httpx2.AsyncClient(headers=server.headers, timeout=60, trust_env=False) as http,
        httpx2.AsyncClient(headers=key, timeout=60, trust_env=False) as direct,
    ):

        async def ours(path: str, **body: Any) -> None:
            answer = await http.post(f"{server.url}api/tk-ai/{path}", json=body)
            if answer.status_code != 200:
                raise CallFailed(f"{path}: {answer.text}")

        async def alone() -> None:
            message = {"role": "user", "content": CELL * ABOVE}
            body = {"model": MODEL, "max_tokens": 256, "messages": [message]}
            answer = await direct.post(f"{model['ANTHROPIC_BASE_URL']}/v1/messages", json=body)
            answer.raise_for_status()

        yield ours, alone


if __name__ == "__main__":
    main(measure, __doc__)
