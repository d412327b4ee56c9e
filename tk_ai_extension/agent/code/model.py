"""The model for code while a person types, at the provider's Messages API, without Claude's process.

A process of the CLI takes seconds to start and a turn of it hundreds of milliseconds more than the
model. Here one client is kept open for the same `Provider` as the chat's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tk_ai_extension.agent.claude.messages_api import MessagesApi
from tk_ai_extension.agent.claude.providers import CLAUDE_MODELS, Provider
from tk_ai_extension.agent.code.prompts import Prompt
from tk_ai_extension.model.agent_errors import NoModel

FAST: Final = "haiku"
"""The alias of the model that completes code, where a chat may choose it."""
CONNECT: Final = 10.0
"""Timeout for the list of models, in seconds."""
DIRECT: Final = ("anthropic", "compatible")
"""The providers whose keys are good for the Messages API itself."""


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """A model's answer.

    Attributes:
        text: The answer, without the text that ended it.
        is_cut: Whether it ended at the limit of tokens.
    """

    text: str
    is_cut: bool


class CodeModel:
    """The model for code. The provider is asked at each request, so that a new key is used at once.

    Args:
        provider: Returns the current provider.
    """

    def __init__(self, provider: Callable[[], Awaitable[Provider]]) -> None:
        self._provider = provider
        self._environment: Mapping[str, str] = {}
        self._api: MessagesApi | None = None

    async def answer(self, prompt: Prompt, timeout: float, *, fast: bool) -> CodeAnswer:
        """Return the model's answer; cancelling it closes the request.

        Args:
            prompt: The prompt.
            timeout: Timeout of the model, in seconds.
            fast: Whether the answer is wanted while a person types.

        Raises:
            NoModel: No model is connected, or the configured one cannot be asked.
            ModelFailed, ModelUnauthorized.
        """
        provider = (await self._provider()).require_ready()
        if provider.name not in DIRECT:
            what = "No model is connected."
            if provider.name != "tour":
                what = f"{provider.label} cannot complete code or edit a cell in place."
            raise NoModel(
                what,
                hint=(
                    "Connect a model by a key in the panel, or set ANTHROPIC_API_KEY in the "
                    "environment of the server."
                ),
            )
        api = await self._open(provider.environment)
        name = FAST if fast and FAST in provider.models else provider.model
        message = await api.answer(
            await _id_of(name, provider, api),
            timeout,
            max_tokens=prompt.max_tokens,
            system=prompt.system,
            stop_sequences=[prompt.stop],
            messages=[
                {"role": "assistant" if number % 2 else "user", "content": text}
                for number, text in enumerate(prompt.messages)
            ],
        )
        return CodeAnswer(
            text="".join(block.text for block in message.content if block.type == "text"),
            is_cut=message.stop_reason == "max_tokens",
        )

    async def close(self) -> None:
        """Close all connections; running requests fail."""
        if self._api is not None:
            await self._api.close()

    async def _open(self, environment: Mapping[str, str]) -> MessagesApi:
        if self._api is None or environment != self._environment:
            api = await MessagesApi.open(environment, CONNECT)
            await self.close()
            self._api, self._environment = api, environment
        return self._api


async def _id_of(name: str, provider: Provider, api: MessagesApi) -> str:
    """Return the id of a model: aliases such as `haiku` are the CLI's, not the API's."""
    if name not in CLAUDE_MODELS:
        return name
    chosen = provider.environment.get(f"ANTHROPIC_DEFAULT_{name.upper()}_MODEL")
    # A gateway may know the alias, and list nothing.
    return chosen or next((each for each in await api.models() if name in each), name)
