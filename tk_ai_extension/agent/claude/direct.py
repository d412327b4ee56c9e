"""Requests to the provider's Messages API without Claude's process, for code while a person types.

A process of the CLI takes seconds to start and a turn of it hundreds of milliseconds more than the
model. Here one connection is kept open. Address, key, proxy and certificates are those of the same
`Provider` as the chat's; they never leave this process but for the provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tk_ai_extension.agent.claude.messages_api import Endpoint, error_of, json_of
from tk_ai_extension.agent.claude.providers import CLAUDE_MODELS, Provider
from tk_ai_extension.agent.claude.translator import provider_error
from tk_ai_extension.agent.code_assistant import CodeAnswer
from tk_ai_extension.agent.code_prompts import Prompt
from tk_ai_extension.model.agent_errors import ModelFailed, NoModel

if TYPE_CHECKING:
    import httpx2

FAST: Final = "haiku"
"""The alias of the model that completes code, where a chat may choose it."""
CONNECT: Final = 10.0
"""Timeout for a connection to the provider, in seconds."""

DIRECT: Final = ("anthropic", "compatible")
"""The providers whose keys are good for the Messages API itself."""


class _Connection:
    """An open connection to a provider.

    Args:
        http: The client.
        redact: Removes secrets from what the provider says.
    """

    def __init__(self, http: httpx2.AsyncClient, redact: Callable[[str], str]) -> None:
        self.redact = redact
        """Removes secrets from what the provider says."""
        self.names: dict[str, str] = {}
        """The ids of its models by their aliases, as far as they were asked for."""
        self._http = http
        self._requests = 0
        self._is_retired = False

    async def retire(self) -> None:
        """Close it, once its running requests have ended."""
        self._is_retired = True
        if not self._requests:
            await self._http.aclose()

    async def request(
        self, method: str, path: str, timeout: float, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a request and return its JSON.

        Raises:
            ModelFailed, ModelUnauthorized.
        """
        if self._http.is_closed:
            raise provider_error(None, "its settings have changed", "Try again.")
        self._requests += 1
        try:
            return await self._request(method, path, timeout, body)
        finally:
            self._requests -= 1
            if self._is_retired and not self._requests:
                await self._http.aclose()

    async def _request(
        self, method: str, path: str, timeout: float, body: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        import httpx2

        again = "Try again."
        try:
            async with asyncio.timeout(timeout):
                response = await self._http.request(method, path, json=body)
        except (TimeoutError, httpx2.TimeoutException):
            seconds = f"{timeout:.0f}"
            raise ModelFailed(f"The model sent nothing for {seconds} s.", hint=again) from None
        except httpx2.HTTPError as error:
            said = self.redact(str(error) or type(error).__name__)
            raise provider_error(None, said, again) from error
        found = json_of(response.content)
        if response.is_success and found is not None:
            return found
        said = error_of(found)[1] or response.reason_phrase
        status = None if response.is_success else response.status_code
        raise provider_error(status, self.redact(said).rstrip(".")[:500], again)


class DirectModels:
    """The `CodeModels` of Claude's providers.

    Args:
        provider: Returns the current provider.
    """

    def __init__(self, provider: Callable[[], Awaitable[Provider]]) -> None:
        self._provider = provider
        self._endpoint: Endpoint | None = None
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()

    async def find(self, *, fast: bool) -> DirectModel | None:
        """Return the model for code, or None if the tour answers.

        Args:
            fast: Whether the answer is wanted while a person types.

        Raises:
            FolderNotTrusted, NoModel, ModelFailed.
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
        connection = await self._connected(provider)
        name = FAST if fast and FAST in provider.models else provider.model
        return DirectModel(connection, await self._id_of(name, provider, connection))

    async def close(self) -> None:
        """Close the connection."""
        async with self._connecting:
            old, self._connection = self._connection, None
        if old is not None:
            await old.retire()

    async def _connected(self, provider: Provider) -> _Connection:
        endpoint = Endpoint.of(provider.environment)
        old = None
        async with self._connecting:
            connection = self._connection
            if connection is None or endpoint != self._endpoint:
                # Only an open one replaces the old: the new settings may be wrong.
                http = await asyncio.to_thread(endpoint.open_async, CONNECT)
                old, connection = connection, _Connection(http, provider.redact)
                self._connection, self._endpoint = connection, endpoint
            connection.redact = provider.redact
        if old is not None:
            await old.retire()
        return connection

    async def _id_of(self, name: str, provider: Provider, connection: _Connection) -> str:
        """Return the id of a model: aliases such as `haiku` are the CLI's, not the API's."""
        if name not in CLAUDE_MODELS:
            return name
        chosen = provider.environment.get(f"ANTHROPIC_DEFAULT_{name.upper()}_MODEL")
        if chosen:
            return chosen
        if name not in connection.names:
            try:
                listed = await connection.request("GET", "v1/models?limit=100", CONNECT)
            except ModelFailed:
                return name  # A gateway may know the alias, and list nothing.
            # The newest is the first.
            ids = (str(each["id"]) for each in listed.get("data", ()))
            connection.names[name] = next((each for each in ids if name in each), name)
        return connection.names[name]


class DirectModel:
    """A `CodeModel` at the provider's Messages API."""

    def __init__(self, connection: _Connection, model: str) -> None:
        self._connection = connection
        self._model = model

    async def answer(self, prompt: Prompt, timeout: float) -> CodeAnswer:
        """Return the model's answer; cancelling it closes the request.

        Raises:
            ModelFailed, ModelUnauthorized.
        """
        body = {
            "model": self._model,
            "max_tokens": prompt.max_tokens,
            "system": prompt.system,
            "stop_sequences": [prompt.stop],
            "messages": [
                {"role": "assistant" if number % 2 else "user", "content": text}
                for number, text in enumerate(prompt.messages)
            ],
        }
        found = await self._connection.request("POST", "v1/messages", timeout, body)
        blocks: list[dict[str, Any]] = found.get("content") or []
        usage: dict[str, Any] = found.get("usage") or {}
        return CodeAnswer(
            text="".join(
                str(block.get("text", "")) for block in blocks if block.get("type") == "text"
            ),
            is_cut=found.get("stop_reason") == "max_tokens",
            input_tokens=int(usage.get("input_tokens") or 0),
            output_tokens=int(usage.get("output_tokens") or 0),
        )
