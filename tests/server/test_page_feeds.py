"""The feeds of a page over many connections, and what a page may name in a subscription."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from getpass import getuser
from typing import Any
from unittest.mock import Mock

import pytest

from tests.server.test_event_channel import OpenPage, open_page
from tk_ai_extension.model.errors import DiskFull, ToolError
from tk_ai_extension.server import page_channels
from tk_ai_extension.server.page_channels import PageChannel, PageChannels

__all__ = ["open_page"]

DEADLINE = 30


class Driver:
    """A channel without a connection, and the timers that it has set.

    Attributes:
        known: The last id of each feed that was read.
        timers: Timers of its feeds.
    """

    def __init__(self, services: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.channel = PageChannel(services, getuser())
        self.known: list[str] = []
        self.timers: list[tuple[asyncio.TimerHandle, Any]] = []
        self._count = 0
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def recorded(delay: float, callback: Any, *args: Any, **more: Any) -> asyncio.TimerHandle:
            handle = call_later(delay, callback, *args, **more)
            if callback == self.channel._expire:
                self.timers.append((handle, args[0]))
            return handle

        monkeypatch.setattr(loop, "call_later", recorded)

    async def subscribe(self, after: str | None) -> None:
        live = asyncio.Event()

        async def send(text: str) -> None:
            message = json.loads(text)
            if "id" in message:
                self.known.append(message["id"])
            if "id" in message or "live" in message:
                live.set()

        self._count += 1
        topic = {"subscribe": self._count, "permissions": True, "after": after}
        assert self.channel.receive(topic, send)
        async with asyncio.timeout(DEADLINE):
            await live.wait()

    async def end(self, *numbers: int) -> None:
        tasks = [self.channel._tasks[number] for number in numbers]
        for number in numbers:
            self.channel.receive({"unsubscribe": number}, self._ignore)
        if tasks:
            await asyncio.wait(tasks)

    async def _ignore(self, _: str) -> None:
        pass

    def check(self) -> None:
        """Check that exactly the feeds without readers have a timer, one each."""
        feeds = self.channel._feeds.values()
        pending = sorted(feed.name for timer, feed in self.timers if not timer.cancelled())
        assert pending == sorted(feed.name for feed in feeds if not feed.readers)


async def test_each_feed_without_readers_has_one_timer_in_any_order_of_connections(
    extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await extension.services.ready()
    monkeypatch.setattr(page_channels, "MAX_IDLE_FEEDS", 3)
    driver = Driver(extension.services, monkeypatch)
    for seed in range(20):
        choices = random.Random(seed)
        for _ in range(12):
            running = sorted(driver.channel._tasks)
            if not running or choices.random() < 0.5:
                known = [None, *driver.known[-4:]]
                await driver.subscribe(choices.choice(known))
            else:
                # One of them, or all as when the connection is lost.
                await driver.end(*choices.choice([running, [choices.choice(running)]]))
            driver.check()
    await driver.end(*driver.channel._tasks)
    driver.check()
    driver.channel.close()
    assert all(timer.cancelled() for timer, _ in driver.timers)


@pytest.mark.proves("fault:server-stop")
async def test_nothing_of_a_page_begins_once_the_channels_are_closed(extension: Any) -> None:
    """A page may subscribe, disconnect and reconnect until the server has stopped."""
    await extension.services.ready()
    channels, loop = PageChannels(), asyncio.get_running_loop()
    connections = [object() for _ in range(3)]
    said: list[str] = []

    async def send(text: str) -> None:
        said.append(text)

    topic = {"permissions": True}
    away, here = (
        channels.attach(extension.services, getuser(), name, connection)
        for name, connection in zip(("away", "here"), connections, strict=False)
    )
    channels.lost(away, connections[0], left=False)
    here.receive({"subscribe": 1, **topic}, send)
    before = asyncio.all_tasks()
    channels.close()
    later = channels.attach(extension.services, getuser(), "later", connections[2])
    timers = Mock(wraps=loop.call_later)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_later", timers)
        for channel, connection in ((here, connections[1]), (later, connections[2])):
            assert channel.receive({"subscribe": 2, **topic}, send)
            for _ in range(5):
                await asyncio.sleep(0)
            channels.lost(channel, connection, left=False)
            for _ in range(5):
                await asyncio.sleep(0)
    assert not {task for task in asyncio.all_tasks() - before if "tk-ai" in task.get_name()}
    assert not timers.called
    assert said == []


@pytest.mark.proves("rest:call")
async def test_whatever_a_page_names_is_no_failure_of_the_server(
    open_page: OpenPage, caplog: pytest.LogCaptureFixture, notebook: str
) -> None:
    page = await open_page("page")
    number = await page.subscribe(permissions=True)
    assert (await page.next(number))["reset"] is True
    name = (await page.next(number))["id"].partition("-")[0]
    numbers = ["9" * 5000, "1" * 16, "²", "-1", "", "٣", "1\ud800"]
    afters = [
        10**4000,
        -1,
        True,
        1.5,
        [],
        {},
        "",
        "-",
        "\ud800-1",
        *(f"{name}-{n}" for n in numbers),
    ]
    for after in afters:
        for topic in ({"permissions": True}, {"changes": notebook}, {"chat": "missing"}):
            message = await page.next(await page.subscribe(after=after, **topic))
            if "chat" in topic:
                assert message["error"]["code"] == "chat_not_found", after
            else:
                assert message.get("reset") is True, after
    for text in ("\ud800", "a\udfff.ipynb", "a\x00.ipynb", "x" * 100_000, "../a.ipynb", ""):
        for topic in ({"changes": text}, {"chat": text}):
            message = await page.next(await page.subscribe(**topic))
            error = message.get("error", {"code": "none", "retryable": False})
            assert (error["code"] == ToolError.code, error["retryable"]) == (False, False), topic
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_failure_of_the_server_may_be_tried_again(
    open_page: OpenPage, extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow(_user: str) -> AsyncIterator[Any]:
        raise RuntimeError("It broke.")
        yield

    monkeypatch.setattr(extension.services.workspace.policy, "follow", follow)
    page = await open_page("page")
    number = await page.subscribe(permissions=True)
    assert (await page.next(number))["reset"] is True
    message = await page.next(number)
    error = message["error"]
    assert (error["retryable"], "details" in error, "broke" in str(error)) == (True, False, False)
    assert message["status"] == 500


async def test_an_error_has_its_http_status_by_which_a_page_decides_whether_it_passes(
    open_page: OpenPage, extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def chats() -> Any:
        raise DiskFull("The disk is full.")

    page = await open_page("page")
    missing = await page.next(await page.subscribe(chat="missing"))
    monkeypatch.setattr(extension.services, "chats", chats)
    full = await page.next(await page.subscribe(chat="missing"))
    found = [(message["error"]["code"], message["status"]) for message in (missing, full)]
    assert found == [("chat_not_found", 404), ("disk_full", 507)]
