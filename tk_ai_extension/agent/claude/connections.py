"""The connection that a user enters in the panel, kept in one file of the user's own configuration folder.

The file has mode 0600 and is replaced atomically. The key in it is sent to the address beside it only.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from jupyter_core.paths import jupyter_config_dir

from tk_ai_extension.agent.claude.providers import (
    ANTHROPIC,
    BEDROCK_KEY,
    KEYS,
    OAUTH,
    Connection,
    host_of,
    is_elsewhere,
)
from tk_ai_extension.model.errors import InvalidArguments, ReadOnly
from tk_ai_extension.model.private_files import (
    PrivateFileError,
    make_private,
    read_private,
    write_private,
)

if TYPE_CHECKING:
    from tk_ai_extension.agent.requests import ConnectRequest

FILE = "connection.json"

_PRINTABLE = re.compile(r"[!-~]{1,8000}")
"""Printable ASCII without spaces, as keys and addresses are."""
_REGION = re.compile(r"[a-z0-9-]{2,40}")
_PROJECT = re.compile(r"[a-z0-9.:-]{2,100}")
_MODEL = re.compile(r"[A-Za-z0-9._:/@\[\]-]{1,200}")


def user_folder() -> Path:
    """Return this package's folder in the user's Jupyter configuration."""
    return Path(jupyter_config_dir()) / "tk-ai-extension"


@dataclass(frozen=True, slots=True)
class ConnectionStore:
    """The file of the connection. All methods block.

    Attributes:
        file: Path of the file.
    """

    file: Path

    def read(self) -> Connection | None:
        """Return the connection; None if there is none.

        Raises:
            PrivateFileError: the file cannot be read or is not private.
        """
        text = read_private(self.file)
        if text is None:
            return None
        try:
            found: dict[str, Any] = json.loads(text)
            found["models"] = tuple(found["models"])
            return Connection(**found)
        except (ValueError, TypeError, KeyError):
            # Not chained: that error would hold the file's text.
            raise PrivateFileError(
                f"{self.file!s} cannot be used. Connect a model again."
            ) from None

    def save(self, connection: Connection) -> None:
        """Store a connection instead of the present one.

        Raises:
            ReadOnly: The file cannot be written, or its folder is not private.
        """
        folder = self.file.parent
        try:
            make_private(folder)
            found = folder.stat()
            if os.name != "nt" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
                raise ReadOnly(
                    f"{folder!s} is not private: others can write it, or it is another user's."
                )
            write_private(self.file, json.dumps(asdict(connection), indent=1))
        except OSError as error:
            raise self._unsaved(error) from error

    def delete(self) -> None:
        """Delete the connection and its secret; nothing happens without one.

        Raises:
            ReadOnly: The file cannot be deleted.
        """
        try:
            self.file.unlink(missing_ok=True)
            # Left by a process that was killed while it saved.
            for left in self.file.parent.glob(f".{self.file.name}-*"):
                left.unlink(missing_ok=True)
        except OSError as error:
            raise self._unsaved(error) from error

    def _unsaved(self, error: OSError) -> ReadOnly:
        return ReadOnly(f"The connection cannot be saved in {self.file!s}: {error.strerror}.")


def connection_of(new: ConnectRequest, stored: Connection | None) -> Connection:
    """Return what the user entered as a connection, before its test.

    Args:
        new: What the user entered.
        stored: The present connection. Its key is used again for the same provider and address only.

    Raises:
        InvalidArguments: A field is missing or invalid.
    """
    if new.model and not _MODEL.fullmatch(new.model):
        _invalid("model")
    if new.provider in ("bedrock", "vertex") and not _REGION.fullmatch(new.region):
        _invalid("region")
    if new.provider == "vertex":
        if not _PROJECT.fullmatch(new.project):
            _invalid("project")
        return Connection("vertex", model=new.model, region=new.region, project=new.project)
    if new.provider == "bedrock":
        secret = _secret(new, stored, "")
        variable = BEDROCK_KEY if secret else ""
        return Connection("bedrock", secret, variable, model=new.model, region=new.region)
    address = _address(new)
    secret = _secret(new, stored, address)
    if not secret and new.provider != "compatible":
        _invalid("secret")
    variable = OAUTH if new.provider == "oauth" else KEYS[0] if secret else ""
    return Connection(new.provider, secret, variable, address, new.model)


def _address(new: ConnectRequest) -> str:
    """Return the address of an endpoint, without a slash at its end."""
    if new.provider != "compatible":
        return ANTHROPIC
    url = new.base_url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        has_more = bool(parts.query or parts.fragment or "@" in parts.netloc)
        valid = parts.port is None or parts.port > 0
    except ValueError:
        has_more, valid = True, False
    # Anthropic's own address is that provider: a key is not sent there as a bearer token.
    usable = valid and not has_more and _PRINTABLE.fullmatch(url)
    if not usable or not host_of(url) or not is_elsewhere(url):
        _invalid("base_url")
    return url.removesuffix("/v1")


def _secret(new: ConnectRequest, stored: Connection | None, address: str) -> str:
    """Return the secret that was entered, or the stored one if it was entered for this address."""
    if new.secret:
        secret = new.secret.strip()
        if not _PRINTABLE.fullmatch(secret):
            _invalid("secret")
        return secret
    if new.secret is not None or stored is None:
        return ""
    kept = (stored.provider, stored.base_url, stored.region)
    return stored.secret if kept == (new.provider, address, new.region) else ""


def _invalid(field: str) -> NoReturn:
    raise InvalidArguments(f"The field {field} is missing or invalid.", field=field)
