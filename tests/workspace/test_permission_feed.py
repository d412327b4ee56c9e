"""The feed of permission requests publishes the outcome of each, and a follower costs little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, get_args

import pytest

from tests.proposals import running
from tk_ai_extension.model.callers import Caller, Interface
from tk_ai_extension.model.errors import PermissionRequired
from tk_ai_extension.workspace.permission_requests import (
    Answer,
    PermissionEvent,
    PermissionRequest,
    Reply,
)
from tk_ai_extension.workspace.permissions import PermissionPolicy

DEADLINE = 10.0
ADA = Caller("ada", "session-a", mode="ask")
BOB = Caller("bob", "session-a", mode="ask")

Events = AsyncGenerator[PermissionEvent]


async def check(
    policy: PermissionPolicy, caller: Caller = ADA, source: str = "x", **how: Any
) -> None:
    await policy.check(
        caller,
        "execute_ipython",
        "EXECUTE",
        arguments={"code": source},
        proposal=running(source),
        **how,
    )


async def refused(policy: PermissionPolicy, caller: Caller = ADA, source: str = "x") -> str:
    """The id of the request that a call leaves behind."""
    with pytest.raises(PermissionRequired) as required:
        await check(policy, caller, source)
    return str(required.value.details["permission_id"])


async def next_event(events: Events) -> dict[str, Any]:
    return (await asyncio.wait_for(anext(events), DEADLINE)).as_dict()


async def test_it_begins_with_what_waits_and_goes_on_with_what_is_asked_and_answered() -> None:
    policy = PermissionPolicy()
    first = await refused(policy)
    events = policy.follow("ada")
    (waits,) = (await next_event(events))["permissions"]
    assert (waits["id"], waits["proposal"], waits["within_call"]) == (
        first,
        running("x").as_dict(),
        False,
    )
    second = await refused(policy, source="y")
    asked = await next_event(events)
    assert (asked["kind"], asked["permission"]["id"]) == ("asked", second)
    answers: list[tuple[str, Answer]] = [(first, "deny"), (second, "notebook")]
    for permission, answer in answers:
        policy.answer("ada", permission, answer)
        assert await next_event(events) == {"kind": "settled", "id": permission, "outcome": answer}


@pytest.mark.parametrize("interface", get_args(Interface))
async def test_a_request_names_its_chat_and_no_other_key_passes_for_one(
    interface: Interface,
) -> None:
    policy = PermissionPolicy()
    await refused(policy, Caller("ada", "c", interface, mode="ask", name="Claude"))
    (asked,) = (await next_event(policy.follow("ada")))["permissions"]
    assert asked["chat"] == ("c" if interface == "chat" else None)


@pytest.mark.proves("threat:other-user")
async def test_each_user_receives_only_their_own_requests() -> None:
    policy = PermissionPolicy()
    await refused(policy, BOB)
    events = policy.follow("ada")
    assert await next_event(events) == {"kind": "waiting", "permissions": []}
    await refused(policy, BOB, "y")
    policy.answer("bob", await refused(policy, BOB, "z"), "once")
    mine = await refused(policy)
    assert (await next_event(events))["permission"]["id"] == mine


async def test_all_followers_receive_the_answer_that_one_gave() -> None:
    policy = PermissionPolicy()
    permission = await refused(policy)
    pages = [policy.follow("ada") for _ in range(3)]
    for events in pages:
        await next_event(events)
    policy.answer("ada", permission, "once")
    for events in pages:
        assert (await next_event(events))["outcome"] == "once"


async def test_a_request_expires_although_nobody_asks_for_the_list() -> None:
    policy = PermissionPolicy(keep_seconds=0.3)
    events = policy.follow("ada")
    await next_event(events)
    requests = [await refused(policy, source=source) for source in "xy"]
    assert [(await next_event(events))["permission"]["id"] for _ in requests] == requests
    ends = [await next_event(events) for _ in range(2)]
    assert [(end["id"], end["outcome"]) for end in ends] == [(each, "expired") for each in requests]
    # The next ones do as well.
    again = await refused(policy)
    assert (await next_event(events))["permission"]["id"] == again
    assert await next_event(events) == {"kind": "settled", "id": again, "outcome": "expired"}


async def test_requests_of_a_caller_that_goes_are_withdrawn() -> None:
    class Shows:
        async def ask(self, request: PermissionRequest) -> Reply | None:
            await asyncio.get_running_loop().create_future()
            return Reply(request.answers[0])

    policy = PermissionPolicy()
    events = policy.follow("ada")
    await next_event(events)
    call = asyncio.create_task(check(policy, approver=Shows()))
    asked = (await next_event(events))["permission"]
    assert asked["within_call"] is True
    call.cancel()
    assert await next_event(events) == {
        "kind": "settled",
        "id": asked["id"],
        "outcome": "withdrawn",
    }
    left = await refused(policy)
    await next_event(events)
    policy.forget(ADA)
    assert await next_event(events) == {"kind": "settled", "id": left, "outcome": "withdrawn"}


@pytest.mark.proves("threat:exhaustion")
async def test_a_slow_follower_receives_only_what_still_matters() -> None:
    policy = PermissionPolicy(max_pending=3)
    known = await refused(policy)
    events = policy.follow("ada")
    await next_event(events)
    for number in range(1000):
        policy.answer("ada", await refused(policy, source=f"number {number}"), "deny")
    policy.answer("ada", known, "deny")
    last = await refused(policy, source="last")
    assert (await next_event(events))["id"] == known
    assert (await next_event(events))["permission"]["id"] == last


async def test_one_that_gives_its_name_needs_no_key_to_be_known_by() -> None:
    policy = PermissionPolicy()
    await refused(policy, Caller("ada", "nightly", interface="rest", mode="ask"))
    await refused(
        policy, Caller("ada", "0f3c", interface="mcp", mode="ask", name="claude-code 2.1")
    )
    unnamed, named = (request.as_dict() for request in policy.pending("ada"))
    assert (unnamed["author"], unnamed["caller"]) == ("ada", "nightly")
    assert (named["author"], named["caller"]) == ("claude-code 2.1", None)
