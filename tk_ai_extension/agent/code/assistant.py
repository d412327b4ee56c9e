"""Code for a person who types: completions at the cursor, and edits of one cell by a prompt.

Nothing is written to a notebook here: the page shows a proposal, and the person accepts it. The model is
asked at the provider's Messages API: a process of the CLI takes seconds to start, and a turn of it
hundreds of milliseconds more than the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from tk_ai_extension.agent.claude.messages_api import MessagesApi
from tk_ai_extension.agent.claude.providers import CLAUDE_MODELS, Provider
from tk_ai_extension.agent.code.prompts import (
    Prompt,
    completion_of,
    completion_prompt,
    edit_prompt,
    source_of,
)
from tk_ai_extension.agent.code.requests import (
    CodeContext,
    CompletedCode,
    CompletionRequest,
    EditedCell,
    EditRequest,
)
from tk_ai_extension.agent.code.variable_names import VariableNames
from tk_ai_extension.model.agent_errors import ModelFailed, NoModel

if TYPE_CHECKING:
    from anthropic.types import Message

COMPLETION_TIMEOUT: Final = 15.0
"""Timeout of the model for a completion, in seconds."""
EDIT_TIMEOUT: Final = 120.0
"""Timeout of the model for an edit, in seconds."""
LIST_TIMEOUT: Final = 10.0
"""Timeout for the list of models, in seconds."""
NAMES_WITHIN: Final = 0.02
"""Seconds that a completion waits for the names of variables; until then the last known ones count."""
EDIT_NAMES_WITHIN: Final = 2.0
"""Seconds that an edit waits for the names of variables."""

FAST: Final = "haiku"
"""The alias of the model that completes code, where a chat may choose it."""
DIRECT: Final = ("anthropic", "compatible")
"""The providers whose keys are good for the Messages API itself."""


class CodeAssistant:
    """Answers requests for code. A page that wants another answer ends its request, and so the model's.

    Args:
        provider: Returns the current provider; asked at each request, so that a new key is used at once.
        names: The variables of the kernels.
    """

    def __init__(self, provider: Callable[[], Awaitable[Provider]], names: VariableNames) -> None:
        self._provider = provider
        self._names = names
        self._environment: Mapping[str, str] = {}
        self._api: MessagesApi | None = None

    async def close(self) -> None:
        """Close connections; running requests fail."""
        await self._names.close()
        if self._api is not None:
            await self._api.close()

    async def complete(self, request: CompletionRequest) -> CompletedCode:
        """Return the text to insert at the cursor.

        Raises:
            PathRefused, InvalidArguments: The path is none of a notebook in the root.
            NoModel: No model is connected, or the configured one cannot be asked.
            ModelFailed, ModelUnauthorized: See `MessagesApi.answer`.
        """
        prompt = completion_prompt(request, await self._variables(request, NAMES_WITHIN))
        answer = await self._answer(prompt, COMPLETION_TIMEOUT, fast=True)
        is_cut = answer.stop_reason == "max_tokens"
        return {"text": completion_of(_text(answer), request, is_cut=is_cut)}

    async def edit(self, request: EditRequest) -> EditedCell:
        """Return the source that is proposed for a cell.

        Raises:
            ModelFailed: The model's answer has no source, or not all of it.
            ToolError: See `complete`.
        """
        prompt = edit_prompt(request, await self._variables(request, EDIT_NAMES_WITHIN))
        answer = await self._answer(prompt, EDIT_TIMEOUT, fast=False)
        if answer.stop_reason == "max_tokens":
            raise ModelFailed(
                "The new source is too long for one answer of the model.",
                hint="Split the cell, or ask in the chat.",
            )
        source = source_of(_text(answer), request.source)
        if source is None:
            raise ModelFailed(
                "The model did not answer with the source of a cell.", hint="Try again."
            )
        return {"source": source}

    async def _variables(self, request: CodeContext, within: float) -> str:
        if request.notebook is None or request.cell_type != "code":
            return ""
        return await self._names.of(request.notebook, within)

    async def _answer(self, prompt: Prompt, timeout: float, *, fast: bool) -> Message:
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
        return await api.answer(
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

    async def _open(self, environment: Mapping[str, str]) -> MessagesApi:
        if self._api is None or environment != self._environment:
            former = self._api
            self._api = await MessagesApi.open(environment, LIST_TIMEOUT)
            self._environment = environment
            if former is not None:
                await former.close()
        return self._api


def _text(answer: Message) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


async def _id_of(name: str, provider: Provider, api: MessagesApi) -> str:
    """Return the id of a model: aliases such as `haiku` are the CLI's, not the API's."""
    if name not in CLAUDE_MODELS:
        return name
    chosen = provider.environment.get(f"ANTHROPIC_DEFAULT_{name.upper()}_MODEL")
    # A gateway may know the alias, and list nothing.
    return chosen or next((each for each in await api.models() if name in each), name)
