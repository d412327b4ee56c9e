"""Selection of the provider that is configured now."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tk_ai_extension.agent.claude.connections import FILE, ConnectionStore, user_folder
from tk_ai_extension.agent.claude.providers import Connection, Provider, ProviderSettings, choose
from tk_ai_extension.agent.claude.secrets_file import parse
from tk_ai_extension.agent.models import ConnectionInfo, ModelsInfo
from tk_ai_extension.model.errors import PermissionDenied
from tk_ai_extension.model.private_files import PrivateFileError, read_private

if TYPE_CHECKING:
    from tk_ai_extension.agent.requests import ConnectRequest


class ClaudeModels:
    """Selects the provider at each call, so that a new key is used at once.

    Args:
        settings: The administrator's settings.
        root: The server's root folder.
        store: The connection of the panel; by default in the user's configuration folder.
        environment: The server's environment.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        root: Path,
        store: ConnectionStore | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._root = root
        self._store = store or ConnectionStore(user_folder() / FILE)

    async def provider(self) -> Provider:
        """Return the provider that is configured now.

        If it is not `ready`, its hint says what is missing.
        """
        return await asyncio.to_thread(self._choose)

    async def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, without values."""
        return (await self.provider()).health()

    async def connection(self) -> ConnectionInfo:
        """Return the state of the connection, without its secret."""
        return await asyncio.to_thread(self._connection)

    async def connect(self, new: ConnectRequest) -> ConnectionInfo:
        """Test a connection with one request, then store it; return the new state.

        Raises:
            PermissionDenied: The administrator has switched this off.
            InvalidArguments: A field is missing or invalid; the provider refused the key, the account
                has no credit, or there is no Messages API at the address.
            NoModel: The provider has no such model.
            ModelFailed: The provider is busy, or failed.
            ReadOnly: The connection cannot be stored.
        """
        if not self._settings.connect:
            contact = self._settings.contact
            raise PermissionDenied(
                "Connecting a model in the panel is switched off here.",
                hint=f"Ask {contact} to connect a model." if contact else None,
            )
        # Slow to import, and needed once.
        from tk_ai_extension.agent.claude.connection_check import tested

        connection = await tested(new, await asyncio.to_thread(self._stored))
        await asyncio.to_thread(self._store.save, connection)
        return await self.connection()

    async def disconnect(self) -> ConnectionInfo:
        """Delete the stored connection and its secret; return the new state.

        Raises:
            ReadOnly: It cannot be deleted.
        """
        await asyncio.to_thread(self._store.delete)
        return await self.connection()

    def _stored(self) -> Connection | None:
        with suppress(PrivateFileError):
            return self._store.read()
        return None

    def _connection(self) -> ConnectionInfo:
        provider, stored = self._choose(), self._stored()
        in_force = provider.source == "stored"
        return {
            "allowed": self._settings.connect,
            "contact": self._settings.contact,
            "stored": None if stored is None else stored.described(in_force=in_force),
            "models": provider.health(),
        }

    def _choose(self) -> Provider:
        environment = self._environment
        keys: dict[str, str] = {}
        if self._settings.secrets_file:
            file = self._root / Path(self._settings.secrets_file).expanduser()
            try:
                keys = parse(read_private(file, refused_bits=0o022) or "", str(file))
            except PrivateFileError as error:
                return choose(self._settings, environment, problem=error.message)
        if not self._settings.connect:
            return choose(self._settings, environment, keys)
        try:
            stored = self._store.read()
        except PrivateFileError as error:
            found = choose(self._settings, environment, keys)
            if found.name != "tour" or self._settings.provider == "tour":
                return found
            return choose(self._settings, environment, keys, problem=error.message)
        return choose(self._settings, environment, keys, stored)
