"""Requests of one connection of lines whose ids come again: the first is answered, or can be cancelled."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from tests.cases import Cases
from tests.mcp.lines import Lines
from tests.mcp.probes.tools import Probe
from tests.mcp.test_invalid_lines import answered, initialized

IDS = (7, "7", " 07", 8, "8", "eight")
DEADLINE = 60


def same(request_id: Any) -> Any:
    """What the SDK compares: an integer in text is that integer."""
    return int(request_id) if str(request_id).strip().isdigit() else request_id


class Client:
    """A client that uses few ids.

    Attributes:
        running: The names of the calls that have not ended, with their ids.
    """

    def __init__(self, lines: Lines, probe: Probe) -> None:
        self._lines = lines
        self._probe = probe
        self.running: dict[str, Any] = {}

    async def send(self, method: str, **more: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, **more}
        await self._lines.send(json.dumps(message).encode())

    async def ping(self, request_id: Any) -> Any:
        await self.send("ping", id=request_id)
        return await answered(self._lines, request_id)

    async def call(self, request_id: Any, name: str) -> None:
        """Begins a call; one whose id is taken has to be refused."""
        self._probe.started.clear()
        self._probe.held[name] = asyncio.Event()
        params = {"name": "probe_wait", "arguments": {"notebook": name}}
        await self.send("tools/call", id=request_id, params=params)
        if same(request_id) in map(same, self.running.values()):
            refused = await answered(self._lines, request_id)
            assert refused["error"]["code"] == -32600, refused
            assert refused["error"]["data"]["error"]["hint"]
            assert (await self.ping(request_id))["error"]["code"] == -32600
            assert not self._probe.started.is_set()
        else:
            await self._probe.started.wait()
            self.running[name] = request_id

    async def cancel(self, name: str, request_id: Any) -> None:
        """Cancels a call, under any form of its id; the others stay."""
        self._probe.cancelled.clear()
        await self.send("notifications/cancelled", params={"requestId": request_id})
        await self._probe.cancelled.wait()
        used = self.running.pop(name)
        while "error" in await self.ping(used):
            pass

    async def end(self, name: str) -> None:
        """Lets a call end; its id can be used again at once."""
        request_id = self.running.pop(name)
        self._probe.held[name].set()
        answer = await answered(self._lines, request_id)
        assert f"waited for {name}" in json.dumps(answer["result"])
        assert (await self.ping(request_id))["result"] == {}


async def act(client: Client, rng: random.Random, number: int) -> None:
    """Has one thing happen."""
    names = list(client.running)
    if names and rng.random() < 0.25:
        name = rng.choice(names)
        forms = [each for each in IDS if same(each) == same(client.running[name])]
        await client.cancel(name, rng.choice(forms))
    elif names and rng.random() < 0.3:
        await client.end(rng.choice(names))
    else:
        await client.call(rng.choice(IDS), f"call-{number}.ipynb")


@pytest.mark.proves("mcp:requests-refused", "mcp:cancel", "mcp:stdio")
async def test_a_second_request_with_a_running_id_is_refused_and_the_first_can_be_cancelled(
    address: str, jp_auth_header: dict[str, str], probe: Probe
) -> None:
    with Cases() as cases:
        for seed in range(8):
            with cases.case(seed):
                async with asyncio.timeout(DEADLINE):
                    rng = random.Random(seed)
                    lines = await initialized(address, jp_auth_header)
                    client = Client(lines, probe)
                    for number in range(20):
                        await act(client, rng, number)
                    for name in list(client.running):
                        await client.end(name)
                    lines.cut()
