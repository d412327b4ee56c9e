"""The followers of a notebook are notified of what is done to it."""

from __future__ import annotations

import asyncio

import pytest

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.activity import MAX_BEHIND, Activity, ActivityFeed

ADA = Caller("ada", "s", "mcp", name="Ada's agent")


async def test_each_follower_is_notified_of_their_notebook_alone() -> None:
    feed = ActivityFeed()
    one, other = feed.follow("a.ipynb"), feed.follow("b.ipynb")
    waiting = [asyncio.ensure_future(anext(each)) for each in (one, other)]
    await asyncio.wait(waiting, timeout=0)
    feed.publish("a.ipynb", ADA, "changed", ["x", None, "x", "y"], entry=3)
    feed.publish("b.ipynb", ADA, "ran", ["z"], status="ok")
    assert await waiting[0] == Activity("changed", "Ada's agent", ("x", "y"), None, 3)
    assert await waiting[1] == Activity("ran", "Ada's agent", ("z",), status="ok")
    await one.aclose()
    await other.aclose()


async def test_a_slow_follower_is_notified_of_the_gap_and_holds_nobody_up() -> None:
    feed = ActivityFeed()
    slow = feed.follow("a.ipynb")
    first = asyncio.ensure_future(anext(slow))
    await asyncio.wait([first], timeout=0)
    for number in range(MAX_BEHIND + 2):
        feed.publish("a.ipynb", ADA, "changed", ["x"], entry=number)
    assert [(await first).kind, (await anext(slow)).entry] == ["missed", MAX_BEHIND + 1]
    await slow.aclose()


async def test_a_follower_goes_with_a_notebook_that_is_renamed() -> None:
    feed = ActivityFeed()
    following = feed.follow("old/a.ipynb")
    first = asyncio.ensure_future(anext(following))
    await asyncio.wait([first], timeout=0)
    feed.renamed("old", "new")
    feed.publish("old/a.ipynb", ADA, "changed", ["x"])
    feed.publish("new/a.ipynb", ADA, "changed", ["y"])
    assert (await first).cells == ("y",)
    await following.aclose()


async def test_a_new_follower_gets_first_what_runs_and_not_what_ended() -> None:
    feed = ActivityFeed()
    feed.publish("old/a.ipynb", ADA, "running", ["x"])
    feed.publish("old/a.ipynb", ADA, "running", ["y"])
    feed.publish("old/a.ipynb", ADA, "ran", ["x"], status="ok")
    feed.publish("b.ipynb", ADA, "running", ["z"])
    feed.renamed("old", "new")
    following = feed.follow("new/a.ipynb")
    assert await anext(following) == Activity("running", "Ada's agent", ("y",))
    feed.publish("new/a.ipynb", ADA, "ran", ["y"], status="ok")
    assert (await anext(following)).kind == "ran"
    await following.aclose()


async def test_a_failing_listener_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    feed = ActivityFeed()
    kinds: list[str] = []

    def fails(path: str, caller: Caller, activity: Activity) -> None:
        raise OSError("no room")

    feed.add_listener(fails)
    feed.add_listener(lambda _path, _caller, activity: kinds.append(activity.kind))
    feed.publish("a.ipynb", ADA, "running", ["x"])
    feed.publish("a.ipynb", ADA, "ran", ["x"])
    assert (kinds, feed.running("a.ipynb")) == (["running", "ran"], [])
    assert "no room" in caplog.text
