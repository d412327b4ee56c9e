"""The connection that a user enters in the panel, kept in the user's own configuration folder.

A file of mode 0600 in the syntax of `secrets_file`, written atomically. The secret is in it, or in the
system's keyring where the ``keyring`` package is installed and has a backend. In both places it stands
beside the address that it was entered for. All functions block. There is one writer at a time, from the
choice of an entry of the keyring to the removal of the former one.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from tk_ai_extension.agent.claude import secrets_file
from tk_ai_extension.agent.claude.secrets_file import OTHERS_READ, OTHERS_WRITE, SecretsFileError
from tk_ai_extension.agent.claude.sources import ADDRESS, CREDENTIALS, STORABLE
from tk_ai_extension.model.errors import ReadOnly
from tk_ai_extension.model.private_files import make_private, write_private
from tk_ai_extension.model.single_writer import single_writer

logger = logging.getLogger(__name__)

FILE = "connection.env"
SERVICE = "tk-ai-extension"
"""Name of the service in the keyring; the user name is the path of the file, and one of `_ENTRIES`."""

_PROVIDER = "TK_AI_PROVIDER"
_MODELS = "TK_AI_MODELS"
_KEYRING = "TK_AI_KEYRING"
"""Name of the variable whose value is in the keyring."""
_ENTRY = "TK_AI_KEYRING_ENTRY"
"""Which of `_ENTRIES` it is in: the first one if omitted."""
_ENTRIES = ("", "#2")
"""Endings of the user names in the keyring: the entry of the present file is never overwritten."""

_HEAD = "# Written by the panel (Connect a model). Delete this file to disconnect.\n"
_VALUE = re.compile(r"[!-&(-~]{1,8000}")
"""Printable ASCII without spaces and single quotes."""

Place = Literal["file", "keyring"]


class Keyring(Protocol):
    """The part of a backend of ``keyring`` that is used."""

    def get_password(self, service: str, username: str) -> str | None:
        """Return a password; None if there is none."""
        ...

    def set_password(self, service: str, username: str, password: str) -> None:
        """Store a password."""
        ...

    def delete_password(self, service: str, username: str) -> None:
        """Delete a password."""
        ...


@dataclass(frozen=True, slots=True)
class Connection:
    """A stored connection.

    Attributes:
        provider: The provider that the user chose.
        values: Its variables, with the secret.
        models: The models that the provider listed.
        place: Where the secret is kept.
    """

    provider: str
    values: Mapping[str, str] = field(repr=False)
    models: tuple[str, ...] = ()
    place: Place = "file"

    @property
    def secret(self) -> str:
        """The secret; empty without one."""
        return next((self.values[name] for name in CREDENTIALS if self.values.get(name)), "")

    @property
    def ending(self) -> str | None:
        """The last four characters of the secret; None if they would be much of it."""
        return self.secret[-4:] if len(self.secret) >= 16 else None


def is_storable(value: str) -> bool:
    """Whether a value is printable ASCII without spaces and quotes, as keys and addresses are.

    >>> is_storable("sk-ant-1"), is_storable("two words"), is_storable("a'b"), is_storable("")
    (True, False, False, False)
    """
    return _VALUE.fullmatch(value) is not None


def system_keyring() -> Keyring | None:
    """Return the system's keyring; None without the package, or without a secure backend."""
    try:
        backend: Any = importlib.import_module("keyring").get_keyring()
        # `fail` and `null` have 0 and less, files in plain text less than 1.
        secure = float(backend.priority) >= 1
    except Exception as error:  # noqa: BLE001 - backends raise errors of their own kinds
        logger.debug("No keyring: %s", type(error).__name__)
        return None
    return cast("Keyring", backend) if secure else None


@dataclass(frozen=True, slots=True)
class ConnectionStore:
    """The file of the connection, and the keyring.

    Attributes:
        file: Path of the file.
        keyring: Returns the keyring, or None.
    """

    file: Path
    keyring: Callable[[], Keyring | None] = system_keyring

    def read(self) -> Connection | None:
        """Return the connection; None if there is none.

        Raises:
            SecretsFileError: the file cannot be read or is not private, or the keyring has no secret
                for its address.
        """
        found = secrets_file.read(self.file, refused_bits=OTHERS_READ)
        while True:
            try:
                return self._connection(found)
            except SecretsFileError:
                # The secret that the file names may have been replaced since; a writer may hold its lock
                # while a dialog of the keyring is open.
                before = found
                found = secrets_file.read(self.file, refused_bits=OTHERS_READ)
                if found == before:
                    raise

    def _connection(self, found: Mapping[str, str]) -> Connection | None:
        if not found.get(_PROVIDER):
            return None
        values = {name: value for name, value in found.items() if name in STORABLE}
        in_keyring = found.get(_KEYRING, "")
        if in_keyring in CREDENTIALS:
            values[in_keyring] = self._from_keyring(found.get(_ENTRY, ""), values.get(ADDRESS, ""))
        models = tuple(name for name in found.get(_MODELS, "").split(",") if name)
        return Connection(
            found[_PROVIDER], values, models, "keyring" if in_keyring in CREDENTIALS else "file"
        )

    def save(
        self, provider: str, values: Mapping[str, str], models: tuple[str, ...] = ()
    ) -> Connection:
        """Store a connection instead of the present one, and return it.

        Raises:
            ReadOnly: The file cannot be written, or its folder is not private.
            ValueError: A value is not `is_storable`; the message has its name only.
        """
        invalid = [n for n, v in values.items() if n not in STORABLE or not is_storable(v)]
        if invalid:
            raise ValueError(f"Not storable: {', '.join(invalid)}")
        self._make_folder()
        with single_writer(self.file):
            return self._save(provider, values, models)

    def _save(
        self, provider: str, values: Mapping[str, str], models: tuple[str, ...]
    ) -> Connection:
        secret = next((name for name in CREDENTIALS if name in values), None)
        place: Place = "file"
        entry = self._free_entry()
        if secret is not None and self._to_keyring(entry, values[secret], values.get(ADDRESS, "")):
            place = "keyring"
        lines = {n: v for n, v in values.items() if not (n == secret and place == "keyring")}
        lines[_PROVIDER] = provider
        if models:
            lines[_MODELS] = ",".join(name for name in models if is_storable(name))
        if place == "keyring" and secret is not None:
            lines |= {_KEYRING: secret, _ENTRY: entry}
        try:
            self._write(_HEAD + "".join(f"{name}='{value}'\n" for name, value in lines.items()))
        except ReadOnly:
            if place == "keyring":
                self._forget_in_keyring(entry)
            raise
        self._forget_in_keyring(*(each for each in _ENTRIES if place == "file" or each != entry))
        return Connection(provider, dict(values), models, place)

    def delete(self) -> None:
        """Delete the connection and its secret; nothing happens without one.

        Raises:
            ReadOnly: The file cannot be deleted.
        """
        with single_writer(self.file):
            self._delete()

    def _delete(self) -> None:
        try:
            # Of a symbolic link, the link.
            self.file.unlink(missing_ok=True)
            # Left by a process that was killed while it saved.
            for left in self.file.parent.glob(f".{self.file.name}-*"):
                left.unlink(missing_ok=True)
        except OSError as error:
            raise self._unsaved(error) from error
        self._forget_in_keyring(*_ENTRIES)

    def _make_folder(self) -> None:
        folder = self.file.parent
        try:
            make_private(folder)
            found = folder.stat()
        except OSError as error:
            raise self._unsaved(error) from error
        if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & OTHERS_WRITE):
            raise ReadOnly(
                f"{folder!s} is not private: others can write it, or it is another user's."
            )

    def _write(self, text: str) -> None:
        try:
            write_private(self.file, text)
        except OSError as error:
            raise self._unsaved(error) from error

    def _unsaved(self, error: OSError) -> ReadOnly:
        why = error.strerror or type(error).__name__
        return ReadOnly(f"The connection cannot be saved in {self.file!s}: {why}.")

    def _free_entry(self) -> str:
        """Return the entry of the keyring that the present file does not name."""
        try:
            used = secrets_file.read(self.file, refused_bits=OTHERS_READ).get(_ENTRY, "")
        except SecretsFileError:
            return _ENTRIES[1]
        return next(entry for entry in reversed(_ENTRIES) if entry != used)

    def _from_keyring(self, entry: str, address: str) -> str:
        backend = self.keyring()
        if backend is not None:
            with suppress(Exception):
                found = json.loads(backend.get_password(SERVICE, f"{self.file}{entry}") or "null")
                # Who can write the file cannot send the secret to another address.
                if found is not None and found["address"] == address:
                    return str(found["secret"])
        raise SecretsFileError(f"{self.file!s} cannot be read: keyring.")

    def _to_keyring(self, name: str, secret: str, address: str) -> bool:
        backend = self.keyring()
        if backend is None:
            return False
        entry = json.dumps({"address": address, "secret": secret})
        try:
            backend.set_password(SERVICE, f"{self.file}{name}", entry)
            return backend.get_password(SERVICE, f"{self.file}{name}") == entry
        except Exception as error:  # noqa: BLE001 - a locked keyring: the file is used
            logger.warning("The keyring cannot be used: %s", type(error).__name__)
            return False

    def _forget_in_keyring(self, *entries: str) -> None:
        backend = self.keyring()
        if backend is None:
            return
        try:
            for name in (f"{self.file}{entry}" for entry in entries):
                if backend.get_password(SERVICE, name) is not None:
                    backend.delete_password(SERVICE, name)
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("The keyring cannot be used: %s", type(error).__name__)
