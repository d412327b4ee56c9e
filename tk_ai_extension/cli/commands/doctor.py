"""What this machine and this project can do: each thing looked at, and what to do where it is missing."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
from pathlib import Path

from pydantic import BaseModel

from tk_ai_extension import __version__
from tk_ai_extension.cli.commands.base import Command
from tk_ai_extension.cli.servers import Servers
from tk_ai_extension.cli.session import Session
from tk_ai_extension.kernels.sandbox.detection import probe
from tk_ai_extension.tools.results import Result

LABELS = {"host": "server"}
"""What the text says for a name that scripts may read in JSON."""


class Look(BaseModel):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


class Looks(Result):
    """All that was looked at."""

    looks: list[Look]

    def as_text(self) -> str:
        """A line for each."""
        return "\n".join(
            f"{'ok' if look.ok else '--'}  {LABELS.get(look.name, look.name)}: {look.detail}"
            for look in self.looks
        )


async def _doctor(session: Session, args: argparse.Namespace) -> int:  # noqa: ARG001 - takes none
    context = session.context
    server = f"process {context.host}" if context.host else "none: `nb open NOTEBOOK` starts one"
    version = f"{__version__}, Python {platform.python_version()}, {platform.system()}"
    looks = [
        Look(name="nb", ok=True, detail=version),
        Look(name="host", ok=context.host is not None, detail=server),
        await _writable(context.root),
        await _kernelspecs(session),
        *await _servers(),
    ]
    findings = await asyncio.to_thread(probe, Path(context.root))
    looks += [
        Look(name=f"sandbox: {found.name}", ok=found.ok, detail=found.detail) for found in findings
    ]
    return session.finish(Looks(looks=looks))


async def _writable(root: str) -> Look:
    ok = await asyncio.to_thread(os.access, root, os.W_OK)
    return Look(name="project", ok=ok, detail=root if ok else f"{root} cannot be written")


async def _kernelspecs(session: Session) -> Look:
    specs = await session.context.workspace.kernels.kernelspecs()
    names = [spec.name for spec in specs]
    detail = ", ".join(names) or "none is installed: `pip install ipykernel` brings Python's"
    return Look(name="kernels", ok=bool(names), detail=detail)


async def _servers() -> list[Look]:
    servers = Servers()
    looks: list[Look] = []
    for server in servers.running():
        ok = await servers.has_extension(server)
        detail = f"{server.url} on {server.root}"
        if not ok:
            detail += " has no tk-ai-extension: what is open there is not changed from here"
        looks.append(Look(name="Jupyter Server", ok=ok, detail=detail))
    return looks


def _nothing(parser: argparse.ArgumentParser) -> None:
    """Takes no arguments."""


COMMANDS = (
    Command(
        "doctor",
        "Looks at what this machine and this project can do.",
        _nothing,
        _doctor,
        ("nb doctor", "nb doctor --json"),
    ),
)
