"""Where a shared kernel is found: one stable path, whichever connection file the kernel has now."""

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
"""The folder in ``.nb`` that holds the shares."""

EXTERNAL = "external"
"""The folder in ``.nb`` that a Jupyter Server may list (`ServerApp.external_connection_dir`)."""


class NoConnection(Exception):
    """There is no kernel to connect to; the message is a sentence that says what is missing."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a kernel: what its connection file holds.

    Attributes:
        ports: The number of each channel; with the transport ``ipc`` the end of a socket's name.
        key: What messages are signed with; never empty.
        kernel_name: The name of the kernelspec that it was started from.
    """

    transport: str
    ip: str
    ports: Mapping[Channel, int]
    key: bytes
    signature_scheme: str = "hmac-sha256"
    kernel_name: str = ""

    @classmethod
    def read(cls, path: Path) -> Connection:
        """What a connection file holds.

        Raises:
            NoConnection: there is none, it is not whole, or it has no key: with such a kernel
                anybody on this machine could run code.
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
                kernel_name=str(info.get("kernel_name", "")),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise NoConnection(f"{path} is no connection file: {problem!r}.") from None
        if not found.key:
            raise NoConnection(f"The connection file {path} has no key: its kernel is not shared.")
        return found

    def address(self, channel: Channel) -> str:
        """The address of one of its sockets, as ZeroMQ writes it."""
        between = ":" if self.transport == "tcp" else "-"
        return f"{self.transport}://{self.ip}{between}{self.ports[channel]}"

    def session(self) -> Session:
        """A session of its own that signs with this kernel's key."""
        return Session(key=self.key, signature_scheme=self.signature_scheme)

    def info(self) -> dict[str, Any]:
        """The same as jupyter_client has it in memory: the key as bytes."""
        return {
            "transport": self.transport,
            "ip": self.ip,
            "key": self.key,
            "signature_scheme": self.signature_scheme,
            "kernel_name": self.kernel_name,
            **{f"{channel}_port": self.ports[channel] for channel in CHANNELS},
        }


@dataclass(frozen=True, slots=True)
class Share:
    """A kernel that others may use, under a path that stays when the kernel is replaced.

    It is a symbolic link to the kernel's connection file: the file is the kernel's owner's, and what
    he writes there is seen at once. A share that is gone was withdrawn; one whose file is gone waits
    for the kernel to come back.

    A second link, under the file's own name, is for a Jupyter Server with
    ``--ServerApp.allow_external_kernels=True --ServerApp.external_connection_dir=.nb/external``: such
    a server reads a file of one name only once.

    Attributes:
        folder: The project's ``.nb``; absolute.
        name: What it is called, where a project shares more than one kernel.
    """

    folder: Path
    name: str = "kernel"

    @property
    def path(self) -> Path:
        """The link that stays, such as ``.nb/shared/kernel.json``."""
        return self.folder / SHARES / f"{self.name}.json"

    @classmethod
    def at(cls, path: Path) -> Share:
        """The share whose `path` this is."""
        return cls(path.absolute().parent.parent, path.stem)

    def publish(self, connection_file: Path) -> None:
        """Share the kernel of this connection file, instead of the one before if there was one.

        Raises:
            NoConnection: the file is not one of a kernel that can be shared.
            OSError: ``.nb`` cannot be written.
        """
        Connection.read(connection_file)
        target = connection_file.absolute()
        listed = self.folder / EXTERNAL / target.name
        for link in (self.path, listed):
            link.parent.mkdir(mode=0o700, exist_ok=True)
        self._take_from_list(unless=target)
        for link in (self.path, listed):
            # In one step: who looks meanwhile finds the kernel before or this one. And not made
            # there: a server would list it.
            aside = self.folder / f".{uuid4().hex}"
            aside.symlink_to(target)
            aside.replace(link)

    def withdraw(self) -> None:
        """Share it no more: nobody comes anew. Who uses it already stays until the kernel ends."""
        self._take_from_list()
        self.path.unlink(missing_ok=True)

    def is_withdrawn(self) -> bool:
        """Return whether nothing is shared here any more."""
        return not os.path.lexists(self.path)

    def read(self) -> Connection:
        """How to reach the kernel that is shared now.

        Raises:
            NoConnection: nothing is shared, or the kernel is gone.
        """
        if self.is_withdrawn():
            raise NoConnection(f"No kernel is shared at {self.path} any more.")
        return Connection.read(self.path)

    def _take_from_list(self, unless: Path | None = None) -> None:
        if not self.is_withdrawn():
            before = self.path.readlink()
            if before != unless:
                (self.folder / EXTERNAL / before.name).unlink(missing_ok=True)
