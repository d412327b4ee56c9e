"""Requests to a model's endpoint without Claude's process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cases import Cases
from tests.harness import ToolHarness
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
from tk_ai_extension.agent import code_assistant
from tk_ai_extension.agent.claude.providers import ClaudeProvider, ProviderSettings, choose
from tk_ai_extension.agent.code_assistant import (
    CompletionRequest,
    EarlierPrompt,
    EditRequest,
    VariableSummaries,
)
from tk_ai_extension.model.agent_errors import (
    ModelFailed,
    ModelUnauthorized,
)


class Bench:
    """The model for code in an environment that can be changed."""

    def __init__(self, environment: dict[str, str], harness: ToolHarness) -> None:
        self.environment = environment
        names = VariableSummaries(harness.workspace, "user")
        self.assistant = code_assistant.CodeAssistant(self.provider, names)

    async def provider(self) -> ClaudeProvider:
        return choose(ProviderSettings(), self.environment)

    async def complete(self) -> str:
        return (await self.assistant.complete(CompletionRequest(prefix="x = ")))["text"]

    async def edit(self) -> str:
        earlier = [EarlierPrompt(prompt="before", source="answer")]
        request = EditRequest(prompt="again", source="x", earlier=earlier)
        return (await self.assistant.edit(request))["source"]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running() as model:
        yield model


@pytest.fixture
async def bench(model: ScriptedModel, harness: ToolHarness) -> AsyncIterator[Bench]:
    bench = Bench({**model.environment, "ANTHROPIC_MODEL": "claude-exact-1"}, harness)
    yield bench
    await bench.assistant.close()


async def test_an_alias_becomes_the_newest_model_of_that_name(
    bench: Bench, model: ScriptedModel
) -> None:
    model.names = ("claude-haiku-9", "claude-sonnet-9", "claude-sonnet-8", "claude-haiku-8")
    model.add(*(Answer.of("<tk-source>ok") for _ in range(4)))
    del bench.environment["ANTHROPIC_MODEL"]
    await bench.complete()
    await bench.edit()
    bench.environment["ANTHROPIC_DEFAULT_HAIKU_MODEL"] = "small-one"
    await bench.complete()
    # A gateway that lists no such model may know its alias.
    bench.environment.pop("ANTHROPIC_DEFAULT_HAIKU_MODEL")
    bench.environment["ANTHROPIC_CUSTOM_HEADERS"] = "X-Other: 1"
    model.names = ()
    await bench.complete()
    assert [request.model for request in model.requests] == [
        "claude-haiku-9",
        "claude-sonnet-9",
        "small-one",
        "haiku",
    ]


@pytest.mark.proves("chat:one-end")
async def test_failures_of_the_model_are_typed_and_hold_no_key(
    bench: Bench, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
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
                    await bench.complete()
                assert key not in raised.value.as_text()
    monkeypatch.setattr(code_assistant, "COMPLETION_TIMEOUT", 0.2)
    hang = Hang()
    model.add(hang)
    with pytest.raises(ModelFailed):
        await bench.complete()
    async with asyncio.timeout(10):
        await hang.gone.wait()
    bench.environment["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    with pytest.raises(ModelFailed, match="cannot be reached"):
        await bench.complete()
