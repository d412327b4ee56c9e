"""Requests to a model's endpoint without Claude's process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cases import Cases
from tests.support.scripted_model import (
    BROKEN,
    OVERLOADED,
    UNAUTHORIZED,
    Answer,
    Failure,
    Hang,
    ScriptedModel,
    rate_limited,
)
from tk_ai_extension.agent.claude.providers import Provider, ProviderSettings, choose
from tk_ai_extension.agent.code.model import CodeModel
from tk_ai_extension.agent.code.prompts import Prompt
from tk_ai_extension.model.agent_errors import (
    ModelFailed,
    ModelUnauthorized,
    NoModel,
)

PROMPT = Prompt("Complete.", ("before", "answer", "again"), 99, "</end>")


class Bench:
    """The direct models of an environment that can be changed."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.model = CodeModel(self.provider)

    async def provider(self) -> Provider:
        return choose(ProviderSettings(), self.environment)

    async def answer(self, *, fast: bool = True, timeout: float = 30) -> str:
        return (await self.model.answer(PROMPT, timeout, fast=fast)).text


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running() as model:
        yield model


@pytest.fixture
async def bench(model: ScriptedModel) -> AsyncIterator[Bench]:
    bench = Bench({**model.environment, "ANTHROPIC_MODEL": "claude-exact-1"})
    yield bench
    await bench.model.close()


async def test_a_prompt_is_sent_as_the_messages_api_has_it(
    bench: Bench, model: ScriptedModel
) -> None:
    model.add(Answer.of("one ", "two"))
    bench.environment["ANTHROPIC_CUSTOM_HEADERS"] = "X-Team: notebooks\nnonsense"
    assert await bench.answer() == "one two"
    (request,) = model.requests
    assert request.body == {
        "model": "claude-exact-1",
        "max_tokens": 99,
        "system": "Complete.",
        "stop_sequences": ["</end>"],
        "messages": [
            {"role": "user", "content": "before"},
            {"role": "assistant", "content": "answer"},
            {"role": "user", "content": "again"},
        ],
    }
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-api-key"] == model.environment["ANTHROPIC_API_KEY"]
    assert "authorization" not in headers
    assert headers["x-team"] == "notebooks"


async def test_an_alias_becomes_the_newest_model_of_that_name(
    bench: Bench, model: ScriptedModel
) -> None:
    model.names = ("claude-haiku-9", "claude-sonnet-9", "claude-sonnet-8", "claude-haiku-8")
    model.add(*(Answer.of("ok") for _ in range(4)))
    del bench.environment["ANTHROPIC_MODEL"]
    await bench.answer(fast=True)
    await bench.answer(fast=False)
    bench.environment["ANTHROPIC_DEFAULT_HAIKU_MODEL"] = "small-one"
    await bench.answer(fast=True)
    # A gateway that lists no such model may know its alias.
    bench.environment.pop("ANTHROPIC_DEFAULT_HAIKU_MODEL")
    bench.environment["ANTHROPIC_CUSTOM_HEADERS"] = "X-Other: 1"
    model.names = ()
    await bench.answer(fast=True)
    assert [request.model for request in model.requests] == [
        "claude-haiku-9",
        "claude-sonnet-9",
        "small-one",
        "haiku",
    ]


@pytest.mark.proves("chat:one-end")
async def test_failures_of_the_model_are_typed_and_hold_no_key(
    bench: Bench, model: ScriptedModel
) -> None:
    key = bench.environment["ANTHROPIC_API_KEY"]
    leak = Failure(400, "invalid_request_error", f"invalid x-api-key: {key}")
    with Cases() as cases:
        for reply, error, says in (
            (UNAUTHORIZED, ModelUnauthorized, "401"),
            (leak, ModelFailed, "[secret]"),
            (rate_limited(), ModelFailed, "429"),
            (OVERLOADED, ModelFailed, "529"),
            (BROKEN, ModelFailed, "500"),
        ):
            with cases.case(reply):
                model.add(reply)
                with pytest.raises(error, match=says.replace("[", r"\[")) as raised:
                    await bench.answer()
                assert key not in raised.value.as_text()
    hang = Hang()
    model.add(hang)
    with pytest.raises(ModelFailed):
        await bench.answer(timeout=0.2)
    async with asyncio.timeout(10):
        await hang.gone.wait()
    bench.environment["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    with pytest.raises(ModelFailed, match="cannot be reached"):
        await bench.answer()


@pytest.mark.proves("chat:one-end")
@pytest.mark.parametrize(
    "wrong", [{"HTTPS_PROXY": "nonsense://proxy"}, {"SSL_CERT_FILE": "/no/such/file.pem"}]
)
async def test_settings_that_cannot_be_used_break_nothing_once_they_are_gone(
    bench: Bench, model: ScriptedModel, wrong: dict[str, str]
) -> None:
    before = dict(bench.environment)
    model.add(*(Answer.of(f"{number}") for number in range(3)))
    assert await bench.answer() == "0"
    for _ in range(2):
        bench.environment |= {"ANTHROPIC_BASE_URL": "https://gateway.example", **wrong}
        with pytest.raises(ModelFailed):
            await bench.answer()
    bench.environment.clear()
    bench.environment |= before
    assert await bench.answer() == "1"
    bench.environment["ANTHROPIC_CUSTOM_HEADERS"] = "X-Team: notebooks"
    assert await bench.answer() == "2"


@pytest.mark.proves("chat:one-end")
async def test_a_provider_without_an_endpoint_says_so() -> None:
    for environment, error in (
        ({"CLAUDE_CODE_OAUTH_TOKEN": "t"}, NoModel),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}, NoModel),
        ({"ANTHROPIC_BASE_URL": "http://localhost:11434"}, NoModel),
        ({}, NoModel),
    ):
        with pytest.raises(error) as raised:
            await Bench(environment).answer()
        assert raised.value.hint
