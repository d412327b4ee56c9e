"""The scripted model, asked as the real SDK and its real CLI ask it, and over plain HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    create_sdk_mcp_server,
    tool,
)
from tornado.httpclient import AsyncHTTPClient, HTTPResponse

from tests.cases import Cases
from tk_ai_extension.testing.scripted_model import (
    BROKEN,
    KEY,
    MODEL,
    OVERLOADED,
    UNAUTHORIZED,
    Answer,
    Cut,
    Hang,
    Held,
    ScriptedModel,
    Text,
    Thinking,
    ToolUse,
    Usage,
    rate_limited,
)

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
DEADLINE = 40.0


@tool("add", "Adds two numbers.", {"a": int, "b": int})
async def add(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}


@asynccontextmanager
async def client_of(
    model: ScriptedModel, folder: Path, **environment: str
) -> AsyncGenerator[ClaudeSDKClient]:
    """The SDK with one tool, talking to a model that runs."""
    options = ClaudeAgentOptions(
        model=MODEL,
        tools=[],
        mcp_servers={"tk": create_sdk_mcp_server("tk", tools=[add])},
        allowed_tools=["mcp__tk__add"],
        setting_sources=[],
        strict_mcp_config=True,
        verbatim_prompts=True,
        include_partial_messages=True,
        cli_path=CLI,
        cwd=folder,
        env={**model.environment, "CLAUDE_CONFIG_DIR": str(folder / "config"), **environment},
    )
    async with asyncio.timeout(DEADLINE), ClaudeSDKClient(options) as client:
        yield client


async def turn(client: ClaudeSDKClient, message: str = "Hello") -> list[Message]:
    await client.query(message)
    return [each async for each in client.receive_response()]


def result_of(messages: list[Message]) -> ResultMessage:
    assert isinstance(messages[-1], ResultMessage)
    return messages[-1]


def texts_of(messages: list[Message]) -> list[str]:
    return [
        block.text
        for message in messages
        if isinstance(message, AssistantMessage)
        for block in message.content
        if isinstance(block, TextBlock)
    ]


def deltas_of(messages: list[Message], kind: str) -> list[str]:
    """What was streamed of one kind, piece by piece."""
    deltas = [
        message.event["delta"]
        for message in messages
        if isinstance(message, StreamEvent) and message.event["type"] == "content_block_delta"
    ]
    names = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
    return [delta[names[kind]] for delta in deltas if delta["type"] == kind]


def retries_of(messages: list[Message]) -> list[Any]:
    return [
        message.data.get("error_status")
        for message in messages
        if isinstance(message, SystemMessage) and message.subtype == "api_retry"
    ]


# -- through the real SDK and its CLI


async def test_a_script_of_thoughts_text_and_a_tool_goes_through_the_real_cli(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(
        Answer.of(
            Thinking("They want a sum, then."),
            "I'll add them.",
            ToolUse("add", {"a": 19, "b": 23}, piece=5),
            usage=Usage(input_tokens=100, output_tokens=20),
        ),
        lambda request: Answer.of(f"It is {request.tool_results[0].text}."),
    )
    async with model.running(), client_of(model, tmp_path) as client:
        messages = await turn(client, "What is 19 + 23?")

    result = result_of(messages)
    assert (result.is_error, result.result) == (False, "It is 42.")
    assert texts_of(messages) == ["I'll add them.", "It is 42."]
    assert "".join(deltas_of(messages, "thinking_delta")) == "They want a sum, then."
    assert json.loads("".join(deltas_of(messages, "input_json_delta"))) == {"a": 19, "b": 23}
    assert result.usage is not None
    assert result.usage["input_tokens"] == 110
    assert model.left == 0
    first, second = model.requests
    assert (first.model, first.streams) == (MODEL, True)
    assert "mcp__tk__add" in first.tools
    assert "What is 19 + 23?" in first.prompts[-1]
    [answered] = second.tool_results
    assert (answered.name, answered.text, answered.is_error) == ("add", "42", False)


async def test_a_cut_stream_and_each_failure_of_the_api_is_retried_with_the_next_turn_of_the_script(
    tmp_path: Path,
) -> None:
    model = ScriptedModel()
    async with model.running(), client_of(model, tmp_path) as client:
        with Cases() as cases:
            for failure in (rate_limited(0), BROKEN, OVERLOADED):
                with cases.case(failure):
                    model.add(failure, Answer.of("Back again."))
                    messages = await turn(client)
                    assert retries_of(messages) == [failure.status]
                    assert result_of(messages).result == "Back again."
                    assert model.left == 0
            with cases.case("cut"):
                asked_before = len(model.requests)
                model.add(Cut(Answer.of("Once upon a time there was")), Answer.of("The whole."))
                assert result_of(await turn(client)).result == "The whole."
                assert len(model.requests) == asked_before + 2


async def test_a_wrong_key_is_a_result_with_its_status(tmp_path: Path) -> None:
    model = ScriptedModel(UNAUTHORIZED)
    retries = {"CLAUDE_CODE_MAX_RETRIES": "0"}
    async with model.running(), client_of(model, tmp_path, **retries) as client:
        result = result_of(await turn(client))
    assert (result.is_error, result.api_error_status) == (True, 401)


async def test_text_comes_in_the_pieces_of_the_script_which_the_test_may_hold(
    tmp_path: Path,
) -> None:
    held = Held(Answer.of(Text("first second", piece=6)))
    model = ScriptedModel(Answer.of(Text("abcdefgh", piece=3)), held)
    async with model.running(), client_of(model, tmp_path) as client:
        assert deltas_of(await turn(client), "text_delta") == ["abc", "def", "gh"]
        await client.query("Hello")
        seen: list[Message] = []
        async for message in client.receive_response():
            seen.append(message)
            if deltas_of([message], "text_delta") == ["first "]:
                await held.held.wait()
                held.go_on.set()
    assert result_of(seen).result == "first second"


async def test_a_client_that_stops_waiting_is_noticed_and_the_end_of_a_script_ends_the_turn_at_once(
    tmp_path: Path,
) -> None:
    model = ScriptedModel()
    async with model.running(), client_of(model, tmp_path) as client:
        with Cases() as cases:
            for reply in (Hang(), Held(Answer.of("Never whole"))):
                with cases.case(reply):
                    model.add(reply, Answer.of("Here."))
                    asked_before = len(model.requests)
                    await client.query("Hello")
                    await model.requested(asked_before + 1)
                    await client.interrupt()
                    stopped = [each async for each in client.receive_response()]
                    await reply.gone.wait()
                    assert result_of(stopped).subtype == "error_during_execution"
                    assert result_of(await turn(client)).result == "Here."
        asked_before = len(model.requests)
        result = result_of(await turn(client))
    assert result.is_error
    assert "script of the model has ended" in str(result.result)
    assert len(model.requests) == asked_before + 1


async def test_several_chats_at_once_have_scripts_of_their_own(tmp_path: Path) -> None:
    model = ScriptedModel(
        chats={"about cats": [Answer.of("Meow.")], "about dogs": [Answer.of("Woof.")]}
    )
    async with model.running():

        async def ask(about: str) -> str | None:
            folder = tmp_path / about
            folder.mkdir()
            async with client_of(model, folder) as client:
                return result_of(await turn(client, f"Tell me about {about}")).result

        assert await asyncio.gather(ask("dogs"), ask("cats")) == ["Woof.", "Meow."]


# -- over plain HTTP

QUESTION = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}


async def fetch(url: str, body: object = None, *, key: str | None = KEY) -> HTTPResponse:
    return await AsyncHTTPClient(force_instance=True).fetch(
        url,
        method="GET" if body is None else "POST",
        headers={} if key is None else {"x-api-key": key},
        body=None if body is None else json.dumps(body),
        raise_error=False,
        request_timeout=DEADLINE,
    )


async def test_an_answer_without_a_stream_is_one_message() -> None:
    blocks = [Thinking("Hm."), Text("Yes"), ToolUse("add", {"a": 1, "b": 2})]
    async with ScriptedModel(Answer.of(*blocks)).running() as model:
        answer = json.loads((await fetch(f"{model.url}/v1/messages", QUESTION)).body)
    thought, text, call = answer["content"]
    assert thought["thinking"] == "Hm."
    assert text == {"type": "text", "text": "Yes"}
    assert (call["name"], call["input"]) == ("add", {"a": 1, "b": 2})
    assert answer["stop_reason"] == "tool_use"


async def test_a_rate_limit_says_when_to_try_again() -> None:
    async with ScriptedModel(rate_limited(7)).running() as model:
        response = await fetch(f"{model.url}/v1/messages", QUESTION)
    assert (response.code, response.headers["retry-after"]) == (429, "7")
    assert json.loads(response.body)["error"]["type"] == "rate_limit_error"


async def test_tokens_are_counted_and_models_listed() -> None:
    async with ScriptedModel().running() as model:
        count = await fetch(f"{model.url}/v1/messages/count_tokens", QUESTION)
        models = await fetch(f"{model.url}/v1/models")
    assert json.loads(count.body)["input_tokens"] > 5
    assert [each["id"] for each in json.loads(models.body)["data"]] == [MODEL]


@pytest.mark.parametrize("route", ["messages", "messages/count_tokens", "models"])
@pytest.mark.parametrize("key", [None, "sk-ant-other", "ключ".encode().decode("latin-1")])
async def test_nobody_without_the_key_is_answered(route: str, key: str | None) -> None:
    async with ScriptedModel(Answer.of("Secret.")).running() as model:
        body = None if route == "models" else QUESTION
        response = await fetch(f"{model.url}/v1/{route}", body, key=key)
    assert response.code == 401
    assert model.requests == []


async def test_a_body_that_is_no_json_object_is_refused() -> None:
    async with ScriptedModel().running() as model:
        response = await fetch(f"{model.url}/v1/messages", ["no", "object"])
    assert response.code == 400
    assert json.loads(response.body)["error"]["type"] == "invalid_request_error"
