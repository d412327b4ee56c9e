"""The provider that answers now, with the tour served where no model is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tk_ai_extension.agent.providers import Provider, ProviderSettings, choose
from tk_ai_extension.agent.tour import TourServer


class Provision:
    """Says, whenever it is asked, who answers: a key is used as soon as it is there.

    Args:
        settings: What an administrator chose.
        environment: The server's own, as it is (``os.environ``).
        root: The server's root folder.
    """

    def __init__(
        self, settings: ProviderSettings, environment: Mapping[str, str], root: Path
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._root = root
        self._tour = TourServer()

    async def provider(self) -> Provider:
        """The provider that is configured now; a tour is served from then on, on this loop.

        One that is not `ready` says by its hint what is missing.
        """
        provider = await self._chosen()
        if provider.name != "tour":
            return provider
        environment = {**provider.environment, **self._tour.environment()}
        return replace(provider, environment=environment)

    async def health(self) -> dict[str, Any]:
        """What is configured and what is missing, without values."""
        return (await self._chosen()).health()

    async def close(self) -> None:
        """Stops the tour, where it was served."""
        await self._tour.close()

    async def _chosen(self) -> Provider:
        # It looks into a file.
        return await asyncio.to_thread(choose, self._settings, self._environment, self._root)
