"""Selection of the provider that is configured now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from tk_ai_extension.agent.claude import secrets_file
from tk_ai_extension.agent.claude.connection_store import FILE, Connection, ConnectionStore
from tk_ai_extension.agent.claude.providers import Provider, ProviderSettings, choose
from tk_ai_extension.agent.claude.secrets_file import OTHERS_READ, SecretsFileError
from tk_ai_extension.agent.claude.sources import Given
from tk_ai_extension.agent.claude.trusted_folders import (
    SECRETS,
    TrustedFolders,
    trusted_folders,
    user_folder,
)
from tk_ai_extension.agent.models import ConnectionInfo, ModelsInfo, NewConnection
from tk_ai_extension.kernels.sandbox.lookup import has_sandbox
from tk_ai_extension.model.agent_errors import NoModel
from tk_ai_extension.model.errors import PermissionDenied


class ClaudeModels:
    """A `ModelSource` that selects the provider at each call.

    Args:
        settings: The administrator's settings.
        environment: Returns the current environment of the server, or of the command.
        root: The server's root folder.
        is_sandboxed: Whether kernels of the root run in a sandbox: then they can write the files of the
            root, and no key is read from there. Reads files; by default those of ``nb``.
        trusted: The trusted folders; by default the user's.
        user_file: The user's own file of keys; by default in the configuration folder.
        store: The connection of the panel; by default beside the user's file.
    """

    def __init__(
        self,
        settings: ProviderSettings,
        environment: Callable[[], Mapping[str, str]],
        root: Path,
        *,
        is_sandboxed: Callable[[], bool] | None = None,
        trusted: TrustedFolders | None = None,
        user_file: Path | None = None,
        store: ConnectionStore | None = None,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._root = root
        self._is_sandboxed = is_sandboxed or partial(has_sandbox, root)
        self._trusted = trusted or trusted_folders()
        self._user_file = user_file or user_folder() / SECRETS
        self._store = store or ConnectionStore(self._user_file.with_name(FILE))

    async def provider(self) -> Provider:
        """Return the provider that is configured now.

        If it is not `ready`, its hint says what is missing.
        """
        return await asyncio.to_thread(self._choose)

    async def health(self) -> ModelsInfo:
        """Return what is configured and what is missing, without values."""
        return (await self.provider()).health()

    async def trust(self, *, trusted: bool = True) -> ModelsInfo:
        """Trust the root's file of keys, or stop trusting it; return the new `health`.

        Raises:
            ReadOnly: the decision cannot be saved.
            NoModel: kernels of the root run in a sandbox.
        """
        await asyncio.to_thread(self._trust, trusted)
        return await self.health()

    async def connection(self) -> ConnectionInfo:
        """Return the state of the connection, without its secret."""
        return await asyncio.to_thread(self._connection)

    async def connect(self, new: NewConnection) -> ConnectionInfo:
        """Test a connection with one request, then store it; return the new state.

        Raises:
            ToolError: See `ModelSource.connect`.
        """
        self._check_allowed()
        # Slow to import, and needed once.
        from tk_ai_extension.agent.claude.connections import in_daemon_thread, tested

        stored, network = await asyncio.to_thread(self._before)
        values, listed = await in_daemon_thread(partial(tested, new, stored, network))
        await asyncio.to_thread(self._store.save, new.provider, values, listed)
        return await self.connection()

    async def disconnect(self) -> ConnectionInfo:
        """Delete the stored connection and its secret; return the new state.

        Raises:
            ReadOnly: It cannot be deleted.
        """
        await asyncio.to_thread(self._store.delete)
        return await self.connection()

    def _check_allowed(self) -> None:
        if self._settings.connect:
            return
        contact = self._settings.contact
        raise PermissionDenied(
            "Connecting a model in the panel is switched off here.",
            hint=f"Ask {contact} to connect a model." if contact else None,
        )

    def _connection(self) -> ConnectionInfo:
        from tk_ai_extension.agent.claude.connections import described

        provider = self._choose()
        try:
            stored = self._store.read()
        except SecretsFileError:
            # The hint of the provider says it, unless another source takes precedence.
            stored = None
        return {
            "allowed": self._settings.connect,
            "contact": self._settings.contact,
            "stored": None if stored is None else described(stored, provider),
            "models": provider.health(),
        }

    def _before(self) -> tuple[Connection | None, Mapping[str, str]]:
        """Return the present connection, and the variables of the network."""
        stored: Connection | None = None
        with suppress(SecretsFileError):
            stored = self._store.read()
        try:
            user = self._read_user(self._is_sandboxed())
        except SecretsFileError:
            user = {}
        return stored, {**user, **self._environment()}

    def _trust(self, trusted: bool) -> None:
        if not trusted:
            self._trusted.forget(self._root)
            return
        if self._is_sandboxed():
            raise NoModel(
                (
                    "Kernels of this folder run in a sandbox and could have written its file of "
                    "keys."
                ),
                hint=f"Put the key in the environment, or in {self._user_file!s}.",
            )
        self._trusted.trust(self._root)

    def _choose(self) -> Provider:
        sandboxed = self._is_sandboxed()
        given = Given(environment=self._environment())
        try:
            given = replace(given, user=self._read_user(sandboxed))
        except SecretsFileError as error:
            return choose(self._settings, given, problem=error.message)
        problem, listed = None, ()
        try:
            if (stored := self._read_stored(sandboxed)) is not None:
                given, listed = replace(given, stored=stored.values), stored.models
        except SecretsFileError as error:
            problem = error.message
        without = choose(self._settings, given, listed=listed)
        if problem is not None and without.name == "tour" and self._settings.provider == "auto":
            return choose(self._settings, given, problem=problem)
        if not self._settings.secrets_file or sandboxed:
            return without
        file = self._root / Path(self._settings.secrets_file).expanduser()
        # A file outside the root was chosen by the administrator.
        elsewhere = not file.is_relative_to(self._root)
        agreed = elsewhere or self._settings.trust_folder or self._trusted.trusts(self._root)
        try:
            project = self._read_project(file)
        except SecretsFileError as error:
            if without.source is not None:
                return without
            return choose(self._settings, given, problem=error.message)
        found = choose(self._settings, replace(given, project=project), listed=listed)
        if agreed or found.source != "project":
            return found
        return replace(without, untrusted=str(self._root))

    def _read_user(self, sandboxed: bool) -> dict[str, str]:
        file = self._user_file.resolve()
        if sandboxed and file.is_relative_to(self._root.resolve()):
            return {}
        return secrets_file.read(self._user_file, refused_bits=OTHERS_READ)

    def _read_stored(self, sandboxed: bool) -> Connection | None:
        file = self._store.file.resolve()
        if not self._settings.connect or (sandboxed and file.is_relative_to(self._root.resolve())):
            return None
        return self._store.read()

    def _read_project(self, file: Path) -> dict[str, str]:
        root = self._root.resolve()
        if file.is_relative_to(self._root) and not file.parent.resolve().is_relative_to(root):
            raise SecretsFileError(f"{file!s} is ignored: it is reached by a symbolic link.")
        return secrets_file.read(file)
