"""A shared kernel's stable path, independent of its current connection file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from uuid import uuid4

from jupyter_client.session import Session

Channel = Literal["shell", "iopub", "stdin", "hb", "control"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)

SHARES = "shared"
"""The folder in ``.nb`` for shares."""

EXTERNAL = "external"
"""The folder in ``.nb`` for a Jupyter Server's `ServerApp.external_connection_dir`."""


class NoConnection(Exception):
    """There is no kernel to connect to; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The content of a kernel's connection file.

    Attributes:
        ports: The port of each channel; with the transport ``ipc`` the suffix of its socket's name.
        key: Signs the messages; never empty.
    """

    transport: str
    ip: str
    ports: Mapping[Channel, int]
    key: bytes
    signature_scheme: str = "hmac-sha256"

    @classmethod
    def read(cls, path: Path) -> Connection:
        """Read a connection file.

        Raises:
            NoConnection: there is none, it is incomplete, or it has no key: without a key every
                user of this machine can run code in the kernel.
        """
        try:
            info: Any = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NoConnection(f"There is no connection file at {path}.") from None
        except (OSError, ValueError) as problem:
            raise NoConnection(f"The connection file {path} cannot be read: {problem}.") from None
        try:
            found = cls(
                transport=str(info["transport"]),
                ip=str(info["ip"]),
                ports={channel: int(info[f"{channel}_port"]) for channel in CHANNELS},
                key=str(info["key"]).encode(),
                signature_scheme=str(info["signature_scheme"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise NoConnection(f"{path} is not a connection file: {problem!r}.") from None
        if not found.key:
            raise NoConnection(
                f"The connection file {path} has no key, so its kernel cannot be shared."
            )
        return found

    def address(self, channel: Channel) -> str:
        """Return the ZeroMQ address of a channel's socket."""
        between = ":" if self.transport == "tcp" else "-"
        return f"{self.transport}://{self.ip}{between}{self.ports[channel]}"

    def session(self) -> Session:
        """Return a new session that signs with this kernel's key."""
        return Session(key=self.key, signature_scheme=self.signature_scheme)


@dataclass(frozen=True, slots=True)
class Share:
    """A shared kernel, under a path that stays the same when the kernel is replaced.

    The path is a symbolic link to the kernel's connection file, so that changes by the owner take
    effect at once. No link means that the share was withdrawn; a dead link means that the kernel is
    gone and may be restarted.

    A second link, with the file's own name, is for a Jupyter Server with
    ``--ServerApp.allow_external_kernels=True --ServerApp.external_connection_dir=.nb/external``, which
    reads a file of a given name only once.

    Attributes:
        folder: The project's ``.nb``; absolute.
        name: Distinguishes several shared kernels of a project.
    """

    folder: Path
    name: str = "kernel"

    @property
    def path(self) -> Path:
        """The stable link, such as ``.nb/shared/kernel.json``."""
        return self.folder / SHARES / f"{self.name}.json"

    @classmethod
    def at(cls, path: Path) -> Share:
        """Return the share with this `path`."""
        return cls(path.absolute().parent.parent, path.stem)

    def publish(self, connection_file: Path) -> None:
        """Share the kernel of a connection file, replacing the previously shared one.

        Raises:
            NoConnection: the file is not a connection file, or has no key.
            OSError: ``.nb`` cannot be written.
        """
        Connection.read(connection_file)
        target = connection_file.absolute()
        listed = self.folder / EXTERNAL / target.name
        for link in (self.path, listed):
            link.parent.mkdir(mode=0o700, exist_ok=True)
        self._take_from_list(unless=target)
        for link in (self.path, listed):
            # Atomic: readers find the old kernel or the new one. Made elsewhere, because a server
            # would list a temporary link in this folder.
            aside = self.folder / f".{uuid4().hex}"
            aside.symlink_to(target)
            aside.replace(link)

    def withdraw(self) -> None:
        """Stop sharing: new clients are refused, connected ones stay until the kernel ends."""
        self._take_from_list()
        self.path.unlink(missing_ok=True)

    def is_withdrawn(self) -> bool:
        """Return whether the kernel is no longer shared."""
        return not os.path.lexists(self.path)

    def read(self) -> Connection:
        """Return the connection of the currently shared kernel.

        Raises:
            NoConnection: nothing is shared, or the kernel is gone.
        """
        if self.is_withdrawn():
            raise NoConnection(f"No kernel is shared at {self.path}.")
        return Connection.read(self.path)

    def _take_from_list(self, unless: Path | None = None) -> None:
        if not self.is_withdrawn():
            before = self.path.readlink()
            if before != unless:
                (self.folder / EXTERNAL / before.name).unlink(missing_ok=True)
