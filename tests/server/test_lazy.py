"""Parts of the server that are made on first use: one attempt at a time, and again after a failure."""

from __future__ import annotations

import asyncio
import errno
import importlib
import json
import os
import random
from types import ModuleType
from typing import Any

import pytest

from tests.cases import Cases
from tests.harness import loop_turns
from tests.server.conftest import Ask
from tk_ai_extension.server import services
from tk_ai_extension.server.lazy import Lazy

USERS = 6
DEADLINE = 30


class Attempts:
    """What makes a value, and fails some times before.

    Args:
        failures: The number of attempts that fail.
    """

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.count = 0
        self.running = False
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def make(self) -> int:
        assert not self.running, "Two attempts at once."
        self.running = True
        try:
            await self.outcome
        finally:
            self.running = False
            self.outcome = asyncio.get_running_loop().create_future()
        self.count += 1
        if self.count <= self.failures:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), f"attempt {self.count}")
        return self.count


@pytest.mark.proves("fault:disk-full")
async def test_concurrent_users_share_an_attempt_and_the_next_makes_another() -> None:
    with Cases() as cases:
        for seed in range(60):
            with cases.case(seed):
                rng = random.Random(seed)
                attempts = Attempts(rng.randrange(4))
                lazy = Lazy(attempts.make, "test")
                async with asyncio.timeout(DEADLINE):
                    while lazy.made is None:
                        await use(lazy, attempts, rng)
                assert lazy.made == await lazy.get() == attempts.failures + 1 == attempts.count


async def use(lazy: Lazy[int], attempts: Attempts, rng: random.Random) -> None:
    """Has some use the value at once, and cancels some of them; then the attempt ends."""
    before = attempts.count
    users = [asyncio.create_task(lazy.get()) for _ in range(rng.randrange(1, USERS))]
    observers = [asyncio.create_task(lazy.settled()) for _ in range(rng.randrange(3))]
    await loop_turns(2)
    for user in users:
        if rng.random() < 0.3:
            user.cancel()
    await loop_turns(1)
    assert lazy.made is None
    attempts.outcome.set_result(None)
    await lazy.settled()
    results = await asyncio.gather(*users, return_exceptions=True)
    seen = await asyncio.gather(*observers)
    assert attempts.count == before + 1
    succeeded = attempts.count > attempts.failures
    assert lazy.made == (attempts.count if succeeded else None)
    for result in results:
        if isinstance(result, OSError):
            assert not succeeded
            assert result.filename == f"attempt {attempts.count}"
        elif not isinstance(result, asyncio.CancelledError):
            assert result == attempts.count
    assert set(seen) <= {attempts.count if succeeded else None, None}


@pytest.mark.proves("fault:disk-full")
@pytest.mark.parametrize("path", ["api/tk-ai/tools", "api/tk-ai/chats", "api/tk-ai/mcp"])
async def test_a_part_that_could_not_be_imported_is_imported_for_the_next_request(
    ask: Ask, jp_auth_header: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: set[str] = set()

    def import_module(name: str) -> ModuleType:
        """Fails once for each module, as at the limit of open files."""
        if name not in failed:
            failed.add(name)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), name)
        return importlib.import_module(name)

    monkeypatch.setattr(services, "import_module", import_module)
    errors: list[Any] = []
    while (answer := await ask("GET", path, **jp_auth_header)).code == 503:
        found = json.loads(answer.body)["error"]
        errors.append(found["data"]["error"] if "data" in found else found)
        assert len(errors) < 10
    assert answer.code in (200, 400, 406), answer.body
    assert errors
    assert {each["code"] for each in errors} == {"too_many_open_files"}
    assert all(each["retryable"] for each in errors)
    assert failed
