"""A model that says the same to everybody, in a process of its own: no way of asking pays for it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.support.scripted_model import Answer, MessagesRequest, ScriptedModel

SAID = "Forty-two. " * 8


class Script(ScriptedModel):
    """Answers everything alike, and remembers nothing."""

    def reply(self, request: MessagesRequest) -> Answer:
        """The same words each time; the source of a cell where that is asked for."""
        return Answer.of(f"<tk-source>{SAID}" if "<tk-source>" in request.system else SAID)


@asynccontextmanager
async def scripted() -> AsyncGenerator[dict[str, str]]:
    """The model, up inside the block; what the environment of one who asks it has to hold."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


async def main() -> None:
    """Serves until the input ends."""
    async with Script().running() as model:
        print(json.dumps(model.environment), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
