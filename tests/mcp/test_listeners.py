"""Streams that listen to the same notebooks: each change is notified once to each, however many they are."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.cases import Cases
from tk_ai_extension.mcp import subscriptions
from tk_ai_extension.mcp.subscriptions import Subscriptions, Throttle

DEADLINE = 30
INTERVAL = 0.01
NOTEBOOKS = ("a", "b")


class Store:
    """Notebooks that change when the test says so."""

    def __init__(self) -> None:
        self.followers: list[tuple[str, Callable[[], None]]] = []
        self.store = self

    def contain(self, path: str) -> str:
        return path

    def subscribe(self, path: str, changed: Callable[[], None]) -> Callable[[], None]:
        follower = (path, changed)
        self.followers.append(follower)
        return partial(self.followers.remove, follower)

    def change(self, path: str) -> None:
        for followed, changed in list(self.followers):
            if followed == path:
                changed()


class Listener:
    """A stream of a client.

    Attributes:
        updates: The notifications that it got, by URI.
    """

    def __init__(self, followed: Subscriptions, number: int, names: Sequence[str]) -> None:
        self.names = names
        self.updates: Counter[str] = Counter()
        self.ready = asyncio.Event()
        self.updated = asyncio.Event()
        context: Any = SimpleNamespace(
            request_id=number, session=self, protocol_version="2026-07-28"
        )
        wanted = types.SubscriptionFilter(
            resource_subscriptions=[f"notebook://{name}.ipynb" for name in names]
        )
        params = types.SubscriptionsListenRequestParams(notifications=wanted)
        self.task = asyncio.create_task(followed.listen(context, params))

    async def send_notification(self, sent: Any, related_request_id: object) -> None:
        del related_request_id
        if isinstance(sent, types.ResourceUpdatedNotification):
            self.updates[sent.params.uri] += 1
            self.updated.set()
        self.ready.set()

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


@pytest.mark.proves("mcp:subscriptions", "threat:exhaustion")
async def test_each_listener_is_notified_once_whatever_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriptions, "Throttle", partial(Throttle, interval=INTERVAL))
    with Cases() as cases:
        for seed in range(10):
            with cases.case(seed):
                async with asyncio.timeout(DEADLINE):
                    await schedule(random.Random(seed))


async def schedule(rng: random.Random) -> None:
    """Listeners come and go, and between that notebooks change."""
    store: Any = Store()
    followed = Subscriptions(store)
    listeners: list[Listener] = []
    for number in range(12):
        if listeners and rng.random() < 0.4:
            await listeners.pop(rng.randrange(len(listeners))).close()
        else:
            names = rng.sample(NOTEBOOKS, rng.randrange(1, 3))
            listeners.append(Listener(followed, number, names))
            await listeners[-1].ready.wait()
        named = {name for each in listeners for name in each.names}
        assert sorted(path for path, _ in store.followers) == sorted(f"{n}.ipynb" for n in named)
        await change(store, listeners, rng.choice(NOTEBOOKS), rng.randrange(1, 20))
    for each in listeners:
        await each.close()
    assert store.followers == []
    await followed.close()


async def change(store: Store, listeners: list[Listener], name: str, count: int) -> None:
    """Changes a notebook several times at once."""
    uri = f"notebook://{name}.ipynb"
    concerned = [each for each in listeners if name in each.names]
    for each in listeners:
        each.updates.clear()
        each.updated.clear()
    for _ in range(count):
        store.change(f"{name}.ipynb")
    for each in concerned:
        await each.updated.wait()
    # Further changes are notified together, after an interval.
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(3 * INTERVAL, over.set)
    await over.wait()
    for each in listeners:
        assert each.updates[uri] in (({1} if count == 1 else {1, 2}) if each in concerned else {0})
        assert not each.updates.keys() - {uri}


@pytest.mark.proves("mcp:subscriptions", "mcp:requests-refused", "threat:exhaustion")
async def test_more_resources_than_the_limit_are_refused_by_both_protocols() -> None:
    store: Any = Store()
    followed = Subscriptions(store)
    names = [str(number) for number in range(subscriptions.MAX_SUBSCRIPTIONS + 1)]
    # A resource that is named twice counts once, and each one is followed.
    most = Listener(followed, 1, [*names[1:], *names[1:]])
    await most.ready.wait()
    assert sorted(path for path, _ in store.followers) == sorted(f"{n}.ipynb" for n in names[1:])
    await most.close()

    refused = Listener(followed, 2, names)
    with pytest.raises(MCPError) as listening:
        await asyncio.wait_for(refused.task, DEADLINE)
    assert not refused.ready.is_set()

    with ExitStack() as stack:
        connection = SimpleNamespace(state={}, exit_stack=stack)
        context: Any = SimpleNamespace(session=SimpleNamespace(_connection=connection))
        *allowed, last = [types.SubscribeRequestParams(uri=f"notebook://{n}.ipynb") for n in names]
        for params in allowed:
            await followed.subscribe(context, params)
        with pytest.raises(MCPError) as subscribing:
            await followed.subscribe(context, last)
        assert len(store.followers) == subscriptions.MAX_SUBSCRIPTIONS
    assert listening.value.error == subscribing.value.error
    assert store.followers == []
    await followed.close()
