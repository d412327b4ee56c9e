"""Modes, caps, and approvals that let through what was approved and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.proposals import running
from tk_ai_extension.model.callers import Caller, Mode
from tk_ai_extension.model.errors import (
    InvalidArguments,
    LimitReached,
    NotFound,
    PermissionDenied,
    PermissionRequired,
)
from tk_ai_extension.model.proposals import MAX_SHOWN
from tk_ai_extension.notebooks.notebook import Notebooks
from tk_ai_extension.workspace.permission_requests import (
    Answer,
    Effect,
    PermissionReply,
    PermissionRequest,
)
from tk_ai_extension.workspace.permissions import (
    MODES,
    PermissionDecision,
    PermissionPolicy,
    capped,
    decide,
)

DEADLINE = 5.0
ASKS = Caller("ada", "session-a", mode="ask")
SAME_USER = Caller("ada", "session-b", mode="ask")
OTHER_USER = Caller("bob", "session-a", mode="ask")
NO_KEY = Caller("ada", mode="ask")

TABLE: dict[tuple[Mode, Effect], PermissionDecision] = {
    ("plan", "READ"): PermissionDecision.RUN,
    ("plan", "WRITE"): PermissionDecision.REFUSE,
    ("plan", "EXECUTE"): PermissionDecision.REFUSE,
    ("ask", "READ"): PermissionDecision.RUN,
    ("ask", "WRITE"): PermissionDecision.ASK,
    ("ask", "EXECUTE"): PermissionDecision.ASK,
    ("edit", "READ"): PermissionDecision.RUN,
    ("edit", "WRITE"): PermissionDecision.RUN,
    ("edit", "EXECUTE"): PermissionDecision.ASK,
    ("auto", "READ"): PermissionDecision.RUN,
    ("auto", "WRITE"): PermissionDecision.RUN,
    ("auto", "EXECUTE"): PermissionDecision.RUN,
}

CHAT: tuple[Answer, ...] = ("chat", "chat_tool")
NOTEBOOK: tuple[Answer, ...] = ("notebook", "notebook_tool")


async def check(
    policy: PermissionPolicy,
    caller: Caller = ASKS,
    *,
    tool: str = "edit_cell",
    effect: Effect = "WRITE",
    arguments: Mapping[str, Any] | None = None,
    notebook: str | None = "n.ipynb",
    code: str = "old\nnew",
    kernel: str | None = None,
    approver: Any = None,
) -> None:
    await policy.check(
        caller,
        tool,
        effect,
        arguments={"cell": "318a", "new": "x"} if arguments is None else arguments,
        proposal=running(code, notebook, kernel),
        approver=approver,
    )


async def refused(policy: PermissionPolicy, caller: Caller = ASKS, **call: Any) -> str:
    """The id of the request that a call leaves behind."""
    with pytest.raises(PermissionRequired) as required:
        await check(policy, caller, **call)
    return str(required.value.details["permission_id"])


async def check_other_tool(policy: PermissionPolicy, answer: Answer) -> None:
    """An approval of one tool holds for no other."""
    if answer.endswith("_tool"):
        await refused(policy, tool="delete_cell")
    else:
        await check(policy, tool="delete_cell")


class Says:
    """An approver who gives one answer, and remembers what was shown."""

    def __init__(self, answer: Answer) -> None:
        self.reply = PermissionReply(answer)
        self.shown: list[PermissionRequest] = []

    async def ask(self, request: PermissionRequest) -> PermissionReply | None:
        self.shown.append(request)
        return self.reply


class Shows:
    """An approver who shows the request and leaves the answer to another way in."""

    def __init__(self) -> None:
        self.shown: asyncio.Queue[PermissionRequest] = asyncio.Queue()

    async def ask(self, request: PermissionRequest) -> PermissionReply | None:
        self.shown.put_nowait(request)
        await asyncio.Event().wait()


@pytest.mark.proves("perm:modes")
@pytest.mark.parametrize(("mode", "effect"), TABLE)
async def test_a_mode_runs_asks_or_refuses_by_effect(mode: Mode, effect: Effect) -> None:
    decision = TABLE[mode, effect]
    assert decide(mode, effect) is decision
    policy, caller = PermissionPolicy(), Caller("ada", "k", mode=mode)
    assert policy.decision(caller, effect, "n.ipynb") is decision
    match decision:
        case PermissionDecision.RUN:
            await check(policy, caller, effect=effect)
        case PermissionDecision.ASK:
            with pytest.raises(PermissionRequired, match="approval"):
                await check(policy, caller, effect=effect)
            approver = Says("once")
            await check(policy, caller, effect=effect, approver=approver)
            assert len(approver.shown) == 1
        case PermissionDecision.REFUSE:
            approver = Says("once")
            with pytest.raises(PermissionDenied, match=f"{mode} mode"):
                await check(policy, caller, effect=effect, approver=approver)
            assert approver.shown == []
            assert policy.pending("ada") == []


@pytest.mark.proves("perm:cap")
@pytest.mark.parametrize("cap", MODES)
@pytest.mark.parametrize("mode", MODES)
async def test_a_cap_leaves_the_stricter_of_two_modes(mode: Mode, cap: Mode) -> None:
    effective = MODES[min(MODES.index(mode), MODES.index(cap))]
    assert capped(mode, cap) == effective
    policy, caller = PermissionPolicy(cap=cap), Caller("ada", "k", mode=mode)
    assert policy.mode(caller) == effective
    if decide(effective, "EXECUTE") is PermissionDecision.RUN:
        await check(policy, caller, effect="EXECUTE")
    else:
        with pytest.raises((PermissionDenied, PermissionRequired)):
            await check(policy, caller, effect="EXECUTE")


@pytest.mark.proves("perm:approvals")
class TestApprovals:
    @pytest.mark.parametrize(
        "other",
        [
            {"caller": SAME_USER},
            {"caller": OTHER_USER},
            {"caller": NO_KEY},
            {"tool": "overwrite_cell"},
            {"effect": "EXECUTE"},
            {"arguments": {"cell": "318a", "new": "y"}},
            {"arguments": {"cell": "318a", "new": "x", "replace_all": True}},
            {"arguments": {}},
            {"notebook": "other.ipynb"},
            {"notebook": None},
            {"code": "old\nos.system('rm -rf ~')"},
            {"kernel": "another"},
        ],
    )
    async def test_once_is_bound_to_the_exact_call(self, other: dict[str, Any]) -> None:
        policy = PermissionPolicy()
        policy.answer("ada", await refused(policy), "once")
        await refused(policy, **other)
        await check(policy)

    async def test_what_is_too_large_to_be_shown_is_refused_and_nothing_is_asked(self) -> None:
        policy = PermissionPolicy()
        with pytest.raises(LimitReached, match="more than a person is asked to read"):
            await check(policy, code="x" * MAX_SHOWN)
        assert policy.pending("ada") == []
        await refused(policy, code="x" * (MAX_SHOWN - 1_000))
        (request,) = policy.pending("ada")
        assert request.preview.endswith("x" * (MAX_SHOWN - 1_000))

    async def test_hidden_characters_are_written_out_in_text_and_in_json(self) -> None:
        policy = PermissionPolicy()
        hidden = "\u034f\u115f\u17b4\u180b\u200b\u202e\u2800\u3164\ufe00\uffa0\U000e0100\U000e0020\x1b\u00a0"
        await refused(policy, code=f"a{'a'.join(hidden)}\tdone = '❤\ufe0f 👩\u200d💻 क\u200d'")
        (request,) = policy.pending("ada")
        line = "a".join(["", *(f"⟨U+{ord(char):04X}⟩" for char in hidden)])
        line += "\tdone = '❤\ufe0f 👩\u200d💻 क\u200d'"
        assert line in request.preview
        assert request.as_dict()["proposal"]["steps"][0]["lines"][0]["text"] == line

    @pytest.mark.parametrize("answer", CHAT)
    async def test_in_a_chat_it_covers_the_effect_for_this_caller(self, answer: Answer) -> None:
        policy = PermissionPolicy()
        policy.answer("ada", await refused(policy), answer)
        await check(policy, arguments={"cell": "1"}, notebook="other.ipynb")
        await check(policy, notebook=None)
        await check_other_tool(policy, answer)
        await refused(policy, effect="EXECUTE")
        for caller in (SAME_USER, OTHER_USER, NO_KEY):
            await refused(policy, caller)
        policy.forget(ASKS)
        await refused(policy)

    @pytest.mark.parametrize("answer", NOTEBOOK)
    async def test_in_a_notebook_it_covers_the_effect_for_this_user(self, answer: Answer) -> None:
        notebooks = Notebooks()
        policy = PermissionPolicy(notebooks=notebooks)
        policy.answer("ada", await refused(policy), answer)
        await check(policy, SAME_USER, arguments={"cell": "1"})
        await check(policy, NO_KEY)
        await check_other_tool(policy, answer)
        await refused(policy, effect="EXECUTE")
        await refused(policy, notebook="other.ipynb")
        await refused(policy, notebook=None)
        await refused(policy, OTHER_USER)
        notebooks.rename("n.ipynb", "m.ipynb")
        await check(policy, notebook="m.ipynb")
        await refused(policy, notebook="n.ipynb")

    @pytest.mark.parametrize(
        ("caller", "notebook", "answers"),
        [
            (ASKS, "n.ipynb", ("once", *CHAT, *NOTEBOOK, "deny")),
            (NO_KEY, "n.ipynb", ("once", *NOTEBOOK, "deny")),
            (ASKS, None, ("once", *CHAT, "deny")),
            (NO_KEY, None, ("once", "deny")),
        ],
    )
    async def test_only_answers_that_mean_something_are_taken(
        self, caller: Caller, notebook: str | None, answers: tuple[Answer, ...]
    ) -> None:
        policy = PermissionPolicy()
        permission = await refused(policy, caller, notebook=notebook)
        assert policy.pending("ada")[0].answers == answers
        for answer in {*CHAT, *NOTEBOOK} - {*answers}:
            with pytest.raises(InvalidArguments, match=answer):
                policy.answer("ada", permission, answer)


@pytest.mark.proves("perm:approvals")
class TestStandingApprovals:
    """Approvals for a chat or a notebook."""

    @pytest.mark.parametrize("answer", [*CHAT, *NOTEBOOK])
    async def test_none_applies_above_the_cap_or_in_plan(self, answer: Answer) -> None:
        policy = PermissionPolicy(cap="plan")
        wide = PermissionPolicy()
        wide.answer("ada", await refused(wide), answer)
        await check(wide)
        policy.standing = wide.standing
        with pytest.raises(PermissionDenied):
            await check(policy)
        with pytest.raises(PermissionDenied):
            await check(wide, Caller(ASKS.user, ASKS.key, mode="plan"))

    @pytest.mark.parametrize("answer", [*CHAT, *NOTEBOOK])
    async def test_each_is_listed_for_its_user_and_can_be_removed(self, answer: Answer) -> None:
        policy = PermissionPolicy()
        policy.answer("ada", await refused(policy), answer)
        (listed,) = policy.standing.list("ada")
        assert listed["tool"] == ("edit_cell" if answer.endswith("_tool") else None)
        assert listed["notebook"] == (None if answer in CHAT else "n.ipynb")
        assert listed["caller"] == (ASKS.key if answer in CHAT else None)
        assert policy.standing.list("bob") == []
        for user, name in (("bob", listed["id"]), ("ada", "none")):
            with pytest.raises(NotFound):
                policy.standing.remove(user, name)
        await check(policy)
        policy.standing.remove("ada", listed["id"])
        assert policy.standing.list("ada") == []
        await refused(policy)

    @pytest.mark.proves("chat:servers-own")
    async def test_a_tool_of_another_server_is_asked_about_until_it_is_approved_itself(
        self,
    ) -> None:
        policy, effect = PermissionPolicy(), "EXECUTE"
        policy.answer("ada", await refused(policy), "chat")
        policy.answer("ada", await refused(policy, SAME_USER), "notebook")
        decisions = {
            mode: policy.decision(
                Caller(ASKS.user, ASKS.key, mode=mode), effect, "n.ipynb", tool="s__t", scope="tool"
            ).value
            for mode in MODES
        }
        assert decisions == {"plan": "refuse", "ask": "ask", "edit": "ask", "auto": "run"}
        approver = Says("chat_tool")
        await policy.check(
            ASKS,
            "s__t",
            effect,
            arguments={},
            proposal=running("x", None, None),
            approver=approver,
            scope="tool",
        )
        assert approver.shown[0].answers == ("once", "chat_tool", "deny")
        for tool, decided in (("s__t", "run"), ("s__u", "ask"), (None, "ask")):
            found = policy.decision(ASKS, effect, None, tool=tool, scope="tool")
            assert found is PermissionDecision(decided)

    async def test_an_agents_own_action_has_no_rule_by_its_name(self) -> None:
        policy, approver = PermissionPolicy(), Says("once")
        policy.answer("ada", await refused(policy), "chat_tool")
        proposal = running("x", None, None)
        await policy.check(
            ASKS,
            "edit_cell",
            "WRITE",
            arguments={},
            proposal=proposal,
            approver=approver,
            scope="effect",
        )
        assert approver.shown[0].answers == ("once", "chat", "deny")


async def test_two_calls_at_once_are_asked_for_one_by_one() -> None:
    policy, approver = PermissionPolicy(), Shows()
    calls = [asyncio.create_task(check(policy, approver=approver)) for _ in range(2)]
    first = await asyncio.wait_for(approver.shown.get(), DEADLINE)
    second = await asyncio.wait_for(approver.shown.get(), DEADLINE)
    assert first.id != second.id
    policy.answer("ada", first.id, "once")
    policy.answer("ada", second.id, "deny")
    await asyncio.wait(calls, timeout=DEADLINE)
    assert calls[0].exception() is None
    assert isinstance(calls[1].exception(), PermissionDenied)


@pytest.mark.proves("threat:exhaustion")
async def test_at_the_bound_a_user_gets_no_more_requests_and_others_still_do() -> None:
    policy = PermissionPolicy(max_pending=3)
    for number in range(3):
        await refused(policy, arguments={"number": number})
    with pytest.raises(LimitReached, match="3 pending"):
        await check(policy, arguments={"number": 3})
    await refused(policy, arguments={"number": 0})
    await refused(policy, OTHER_USER)
    policy.forget(ASKS)
    await refused(policy, arguments={"number": 3})
