"""Selection of the provider that is configured now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tk_ai_extension.agent.claude import secrets_file
from tk_ai_extension.agent.claude.providers import Provider, ProviderSettings, choose
from tk_ai_extension.agent.claude.secrets_file import OTHERS_READ, SecretsFileError
from tk_ai_extension.agent.claude.sources import Given
from tk_ai_extension.agent.claude.trusted_folders import (
    SECRETS,
    TrustedFolders,
    trusted_folders,
    user_folder,
)
from tk_ai_extension.agent.models import ModelsInfo
from tk_ai_extension.kernels.sandbox.lookup import has_sandbox
from tk_ai_extension.model.agent_errors import NoModel
from tk_ai_extension.model.sentences import Sentence


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
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._root = root
        self._is_sandboxed = is_sandboxed or partial(has_sandbox, root)
        self._trusted = trusted or trusted_folders()
        self._user_file = user_file or user_folder() / SECRETS

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

    def _trust(self, trusted: bool) -> None:
        if not trusted:
            self._trusted.forget(self._root)
            return
        if self._is_sandboxed():
            raise NoModel(
                Sentence("model_sandboxed"),
                hint=Sentence("model_sandboxed_hint", file=str(self._user_file)),
            )
        self._trusted.trust(self._root)

    def _choose(self) -> Provider:
        sandboxed = self._is_sandboxed()
        given = Given(environment=self._environment())
        try:
            given = replace(given, user=self._read_user(sandboxed))
        except SecretsFileError as error:
            return choose(self._settings, given, problem=error.message)
        without = choose(self._settings, given)
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
        found = choose(self._settings, replace(given, project=project))
        if agreed or found.source != "project":
            return found
        return replace(without, untrusted=str(self._root))

    def _read_user(self, sandboxed: bool) -> dict[str, str]:
        file = self._user_file.resolve()
        if sandboxed and file.is_relative_to(self._root.resolve()):
            return {}
        return secrets_file.read(self._user_file, refused_bits=OTHERS_READ)

    def _read_project(self, file: Path) -> dict[str, str]:
        root = self._root.resolve()
        if file.is_relative_to(self._root) and not file.parent.resolve().is_relative_to(root):
            raise SecretsFileError(Sentence("keys_linked", file=file.name))
        return secrets_file.read(file)
