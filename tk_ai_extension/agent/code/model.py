"""The model for code while a person types, at the provider's Messages API, without Claude's process.

A process of the CLI takes seconds to start and a turn of it hundreds of milliseconds more than the
model. Here one client is kept open for the same `Provider` as the chat's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tk_ai_extension.agent.claude.messages_api import open_client
from tk_ai_extension.agent.claude.providers import CLAUDE_MODELS, Provider
from tk_ai_extension.agent.claude.translator import provider_error
from tk_ai_extension.agent.code.prompts import Prompt
from tk_ai_extension.agent.code.requests import CodeUsage
from tk_ai_extension.model.agent_errors import ModelFailed, NoModel

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

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
        usage: Its tokens.
    """

    text: str
    is_cut: bool
    usage: CodeUsage


class CodeModels:
    """Finds the model at each request, so that a new key is used at once.

    Args:
        provider: Returns the current provider.
    """

    def __init__(self, provider: Callable[[], Awaitable[Provider]]) -> None:
        self._provider = provider
        # One for each configuration that there was: requests of a former one end in peace.
        self._clients: dict[tuple[tuple[str, str], ...], AsyncAnthropic] = {}
        self._opening = asyncio.Lock()
        self._ids: dict[tuple[AsyncAnthropic, str], str] = {}

    async def find(self, *, fast: bool) -> CodeModel | None:
        """Return the model for code, or None if no model is connected and the tour answers.

        Args:
            fast: Whether the answer is wanted while a person types.

        Raises:
            NoModel, ModelFailed: The configured model cannot be asked.
        """
        provider = (await self._provider()).require_ready()
        if provider.name == "tour":
            return None
        if provider.name not in DIRECT:
            raise NoModel(
                f"{provider.label} cannot complete code or edit a cell in place.",
                hint=(
                    "Set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL and "
                    "ANTHROPIC_MODEL, in the environment of the server."
                ),
            )
        key = tuple(sorted(provider.environment.items()))
        async with self._opening:
            if key not in self._clients:
                client = await asyncio.to_thread(open_client, provider.environment, CONNECT)
                self._clients[key] = client
        client = self._clients[key]
        name = FAST if fast and FAST in provider.models else provider.model
        return CodeModel(client, await self._id_of(name, provider, client), provider.redact)

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()

    async def _id_of(self, name: str, provider: Provider, client: AsyncAnthropic) -> str:
        """Return the id of a model: aliases such as `haiku` are the CLI's, not the API's."""
        import anthropic

        if name not in CLAUDE_MODELS:
            return name
        chosen = provider.environment.get(f"ANTHROPIC_DEFAULT_{name.upper()}_MODEL")
        if chosen:
            return chosen
        if (client, name) not in self._ids:
            try:
                # The newest is the first.
                listed = await client.models.list(limit=100)
            except anthropic.APIError:
                return name  # A gateway may know the alias, and list nothing.
            ids = (each.id for each in listed.data)
            self._ids[client, name] = next((each for each in ids if name in each), name)
        return self._ids[client, name]


class CodeModel:
    """A model that answers one prompt.

    Args:
        client: The client of its provider.
        model: Its id.
        redact: Removes secrets from what the provider says.
    """

    def __init__(self, client: AsyncAnthropic, model: str, redact: Callable[[str], str]) -> None:
        self._client = client
        self._model = model
        self._redact = redact

    async def answer(self, prompt: Prompt, timeout: float) -> CodeAnswer:
        """Return the model's answer; cancelling it closes the request.

        Raises:
            ModelFailed, ModelUnauthorized.
        """
        import anthropic

        again = "Try again."
        messages: Any = [
            {"role": "assistant" if number % 2 else "user", "content": text}
            for number, text in enumerate(prompt.messages)
        ]
        try:
            async with asyncio.timeout(timeout):
                message = await self._client.messages.create(
                    model=self._model,
                    max_tokens=prompt.max_tokens,
                    system=prompt.system,
                    stop_sequences=[prompt.stop],
                    messages=messages,
                    timeout=timeout,
                )
        except (TimeoutError, anthropic.APITimeoutError):
            raise ModelFailed(f"The model sent nothing for {timeout:.0f} s.", hint=again) from None
        except anthropic.APIError as error:
            status = error.status_code if isinstance(error, anthropic.APIStatusError) else None
            said = (isinstance(error, anthropic.APIStatusError) and error.api_message) or str(error)
            said = self._redact(said).rstrip(".")[:500]
            raise provider_error(status, said, again) from None
        usage = message.usage
        return CodeAnswer(
            text="".join(block.text for block in message.content if block.type == "text"),
            is_cut=message.stop_reason == "max_tokens",
            usage={"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        )
