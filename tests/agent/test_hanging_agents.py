"""Whatever an agent does not do any more, each turn ends once, and the chat goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from tests.agent.conftest import USER, Talk, talk_with
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend, EchoSession
from tk_ai_extension.agent import session, silence
from tk_ai_extension.agent.backend import ContentBlock, SessionConfig
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.sent_messages import StartedTurn
from tk_ai_extension.model.agent_errors import AgentDied
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.registry import Registry

WITHIN = 20.0
CALL = 'call list_files {"path": ""}'


@dataclass
class Hanging(EchoBackend):
    """An echo that hangs at one point of its next session, and ignores interrupts then.

    Attributes:
        at: The point: ``send``, ``text``, ``call`` or ``steer``; empty for none.
        hangs: Set when it does.
        opened: Lets a message be given to a running turn.
        taken: Whether the turn takes it; None if the agent dies.
    """

    at: str = ""
    hangs: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool | None = True
    closed: int = 0

    async def start(self, config: SessionConfig) -> EchoSession:
        started = await super().start(config)
        hanging = HangingSession(self, config.call, started._session, started._kept)
        hanging.at, self.at = self.at, ""
        return hanging


class HangingSession(EchoSession):
    at = ""

    async def send(self, content: Sequence[ContentBlock], **options: Any) -> None:
        if self.at == "send":
            await self._hang()
        await super().send(content, **options)

    async def _answer(self, text: str, credential: Any) -> None:
        await super()._answer(text, credential)
        if self.at in ("text", "call"):
            await self._hang()

    async def _hang(self) -> None:
        cast("Hanging", self._echo).hangs.set()
        await asyncio.Event().wait()

    async def steer(self, content: Sequence[ContentBlock]) -> bool:  # noqa: ARG002
        echo = cast("Hanging", self._echo)
        await echo.opened.wait()
        if echo.taken is None:
            raise AgentDied("The echo has ended.")
        return echo.taken

    async def interrupt(self) -> None:
        if self.at:
            raise AgentDied("The echo does not respond.")
        await super().interrupt()

    async def close(self) -> None:
        cast("Hanging", self._echo).closed += 1
        self.at = ""
        await super().close()


Open = Callable[..., Talk]


@pytest.fixture
async def open_talk(
    harness: ToolHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    """Opens the chats of a server with an agent."""
    monkeypatch.setattr(silence, "STOP_TIMEOUT", 0.1)
    opened: list[Talk] = []

    def open_(echo: Hanging, silence: float = 0.3) -> Talk:
        opened.append(talk_with(harness, echo, tmp_path / f"chats{len(opened)}", silence=silence))
        return opened[-1]

    yield open_
    for talk in opened:
        await talk.close()


async def all_of(started: StartedTurn) -> list[Event]:
    async with asyncio.timeout(WITHIN):
        return [event async for event in started.events]


def ends(events: list[Event]) -> list[str]:
    return [event.data["end"] for event in events if event.kind == "done"]


async def begun(talk: Talk, started: StartedTurn) -> None:
    """Waits until the turn is running."""
    async with asyncio.timeout(WITHIN):
        async for event in await talk.chats.follow(USER, started.chat):
            if (event.turn, event.kind) == (started.turn, "began"):
                return


async def after(seconds: float) -> None:
    passed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
    await passed


@pytest.mark.proves("chat:one-end")
@pytest.mark.parametrize("act", ["wait", "stop", "stop twice", "delete", "close"])
async def test_the_turn_of_an_agent_that_hangs_ends_and_it_is_replaced(
    open_talk: Open, act: str
) -> None:
    for at in ("send", "text", "call"):
        await one_that_hangs(open_talk, at, act)


async def one_that_hangs(open_talk: Open, at: str, act: str) -> None:
    echo = Hanging(at=at)
    talk = open_talk(echo)
    started = await talk.send(CALL if at == "call" else "Hello.", mode="auto")
    collecting = asyncio.create_task(all_of(started))
    async with asyncio.timeout(WITHIN):
        await echo.hangs.wait()
        if act == "delete":
            await talk.chats.delete(USER, started.chat)
        elif act == "close":
            await talk.close()
        elif act != "wait":
            await talk.chats.stop(USER, started.chat)
        if act == "stop twice":
            await talk.chats.stop(USER, started.chat)
    events = await collecting
    assert ends(events) == ["failed" if act == "wait" else "stopped"]
    if act in ("wait", "stop", "stop twice"):
        answered = await all_of(await talk.send("And now?", chat=started.chat))
        assert answered[-1].data == {"end": "done", "text": "And now?"}
        await talk.close()
    assert echo.closed == (1 if act in ("delete", "close") else 2)


@pytest.mark.proves("chat:one-end")
@pytest.mark.parametrize("point", ["bind", "servers", "project", "start", "content"])
async def test_a_stop_ends_a_turn_before_its_agent_answers(
    open_talk: Open, harness: ToolHarness, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Whatever is awaited then: the next message is answered."""
    harness.write("a.ipynb", "a = 1")
    hangs = asyncio.Event()

    async def hang(*_: Any) -> Any:
        hangs.set()
        await asyncio.Event().wait()

    echo = Hanging()
    talk = open_talk(echo)
    started: StartedTurn
    for stops in (1, 2):
        hangs.clear()
        with monkeypatch.context() as patch:
            match point:
                case "bind":
                    patch.setattr(harness.workspace, "kernel_of", hang)
                case "servers":
                    patch.setattr(talk.services.setup.servers, "enabled", hang)
                case "project":
                    patch.setattr(session, "find_instructions", hang)
                case "start":
                    patch.setattr(echo, "start", hang)
                case _:
                    patch.setattr(session, "content", hang)
            started = await talk.send("Hello.", notebook="a.ipynb", chat=None)
            queued = await talk.send("Again.", notebook="a.ipynb", chat=started.chat)
            async with asyncio.timeout(WITHIN):
                await hangs.wait()
                for _ in range(stops):
                    await talk.chats.stop(USER, started.chat)
                assert ends([event async for event in started.events]) == ["stopped"]
                assert ends([event async for event in queued.events]) == ["stopped"]
        answered = await all_of(await talk.send("And now?", chat=started.chat))
        assert answered[-1].data == {"end": "done", "text": "And now?"}


@dataclass
class Lingering(Hanging):
    """An echo whose starts hang until `ends`, and whose cleanup waits for it."""

    ends: asyncio.Event = field(default_factory=asyncio.Event)
    cleaning: asyncio.Event = field(default_factory=asyncio.Event)
    processes: int = 0

    async def start(self, config: SessionConfig) -> EchoSession:
        if self.ends.is_set():
            return await super().start(config)
        self.processes += 1
        self.hangs.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cleaning.set()
            await self.ends.wait()
            self.processes -= 1
        raise AssertionError


@pytest.mark.proves("chat:one-end", "fault:server-stop")
@pytest.mark.parametrize("act", ["send", "send and stop", "delete", "close"])
async def test_what_a_stopped_start_has_begun_is_ended_whatever_comes_meanwhile(
    open_talk: Open, act: str
) -> None:
    """The turn ends before the cleanup does; what comes next waits for it and does not cancel it."""
    echo = Lingering()
    talk = open_talk(echo)
    started = await talk.send("Hello.")
    async with asyncio.timeout(WITHIN):
        await echo.hangs.wait()
        await talk.chats.stop(USER, started.chat)
        assert ends([event async for event in started.events]) == ["stopped"]
        await echo.cleaning.wait()
        assert echo.processes == 1
        match act:
            case "delete":
                work = asyncio.create_task(talk.chats.delete(USER, started.chat))
            case "close":
                work = asyncio.create_task(talk.close())
            case _:
                again = await talk.send("And now?", chat=started.chat)
                work = asyncio.create_task(all_of(again))
                await begun(talk, again)
                if act == "send and stop":
                    await talk.chats.stop(USER, started.chat)
                    assert ends(await work) == ["stopped"]
        await after(0.02)
        assert echo.processes == 1
        assert work.done() == (act == "send and stop")
        echo.ends.set()
        await work
        if act.startswith("send"):
            answered = await all_of(await talk.send("And then?", chat=started.chat))
            assert answered[-1].data == {"end": "done", "text": "And then?"}
        assert echo.processes == 0


@pytest.mark.proves("rest:steer", "chat:one-end")
@pytest.mark.parametrize(
    "act", ["stop all", "stop it", "stop the running", "replace", "delete", "close", "end", "none"]
)
async def test_a_message_that_is_being_given_to_a_turn_can_be_stopped(
    open_talk: Open, act: str
) -> None:
    for taken in (True, False, None):
        await one_that_is_given(open_talk, act, taken)


async def one_that_is_given(open_talk: Open, act: str, taken: bool | None) -> None:
    echo = Hanging(taken=taken)
    # Nothing is silent for too long: the running turn would end, and the next message begin.
    talk = open_talk(echo, silence=WITHIN)
    running = await talk.send("wait", mode="auto")
    await begun(talk, running)
    chat = running.chat
    queued = await talk.send("Given.", chat=chat)
    collecting = asyncio.create_task(all_of(queued))
    giving = [asyncio.create_task(talk.chats.steer(USER, chat, queued.turn)) for _ in range(2)]
    await after(0.05)
    match act:
        case "stop all":
            await talk.chats.stop(USER, chat)
        case "stop it":
            await talk.chats.stop(USER, chat, queued.turn)
        case "stop the running" | "end":
            await talk.chats.stop(USER, chat, running.turn)
        case "replace":
            await talk.send("Instead.", chat=chat, replaces=queued.turn)
        case "delete":
            await talk.chats.delete(USER, chat)
        case "close":
            await talk.close()
        case _:
            pass
    if act == "end":
        await after(0.05)
    echo.opened.set()
    async with asyncio.timeout(WITHIN):
        given = await asyncio.gather(*giving)
        if act not in ("delete", "close"):
            await talk.chats.stop(USER, chat, running.turn)
    events = await collecting
    said = [text for kept in echo.kept.values() for text in kept]
    assert len(ends(events)) == 1
    if act in ("stop all", "stop it", "replace", "delete", "close"):
        assert ends(events) == ["stopped"]
        assert given == [False, False]
        assert "Given." not in said
    else:
        assert ends(events) == ["done"]
        assert sum(given) == (taken is True)
        assert said.count("Given.") == (taken is not True)


class Stubborn:
    """Tools whose calls do not end at once when they are cancelled."""

    effect = "READ"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __iter__(self) -> Any:
        return iter(self._registry)

    def get(self, _name: str) -> Any:
        return self

    async def call(self, *_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            await after(0.2)


@pytest.mark.proves("chat:one-end", "ui:stopped-call")
@pytest.mark.parametrize("act", ["delete", "close"])
async def test_a_turn_that_is_ended_while_it_ends_has_one_end(open_talk: Open, act: str) -> None:
    randomness = random.Random(act)
    for _ in range(8):
        talk = open_talk(Hanging(), silence=WITHIN)
        chats, services = talk.chats, talk.services
        object.__setattr__(services, "registry", Stubborn(services.registry))
        started = await talk.send(CALL, mode="auto")
        collecting = asyncio.create_task(all_of(started))
        await begun(talk, started)
        await after(randomness.uniform(0, 0.1))
        stopping = asyncio.create_task(chats.stop(USER, started.chat))
        restoring = asyncio.create_task(chats.restore(USER, started.chat, started.turn))
        await after(randomness.uniform(0, 0.2))
        async with asyncio.timeout(WITHIN):
            await (talk.close() if act == "close" else chats.delete(USER, started.chat))
            await stopping
            with suppress(ToolError):
                await restoring
        assert ends(await collecting) == ["stopped"]


@pytest.mark.proves("chat:one-end", "fault:server-stop")
@pytest.mark.parametrize("act", ["follow", "restore", "send", "delete"])
async def test_a_server_that_stops_does_not_report_its_turns_as_interrupted(
    harness: ToolHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """Whatever comes while it ends them."""
    monkeypatch.setattr(silence, "STOP_TIMEOUT", 0.1)
    talk = talk_with(harness, Hanging(), tmp_path, silence=WITHIN)
    chats, services = talk.chats, talk.services
    object.__setattr__(services, "registry", Stubborn(services.registry))
    started = await talk.send(CALL, mode="auto")
    await begun(talk, started)
    # The call has begun to wait.
    await after(0.1)
    closing = asyncio.create_task(talk.close())
    async with asyncio.timeout(WITHIN):
        while not closing.done():
            await asyncio.sleep(0)
            with suppress(ToolError):
                match act:
                    case "follow":
                        await chats.follow(USER, started.chat)
                    case "restore":
                        await chats.restore(USER, started.chat, started.turn)
                    case "send":
                        await talk.send("Again.", chat=started.chat)
                    case _:
                        await chats.delete(USER, started.chat)
        await closing
    ended = [event.data["end"] async for event in started.events if event.kind == "done"]
    assert ended == ["stopped"]
    again = talk_with(harness, Hanging(), tmp_path)
    if act != "delete":
        assert ends(await again.chats.events(USER, started.chat)) == ["stopped"]
    await again.close()
