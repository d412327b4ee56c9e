"""`nb doctor`: check what this machine and this project support, and say what to do if it is missing."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
from pathlib import Path

from pydantic import BaseModel

from tk_ai_extension._version import __version__
from tk_ai_extension.cli.commands.command import Command
from tk_ai_extension.cli.servers import Servers
from tk_ai_extension.cli.session import Session
from tk_ai_extension.kernels.sandbox.programs import probe
from tk_ai_extension.model.agent_variables import FOR_CHATS
from tk_ai_extension.tools.context import Result

LABELS = {"host": "server"}
"""Labels in the text for names that are stable in JSON."""

SOURCES = {
    "environment": "the environment",
    "project": "the file of keys that the settings name",
    "stored": "the panel",
}
"""Sources of keys, see `agent.claude.providers`."""


class Check(BaseModel):
    """Result of one check."""

    name: str
    ok: bool
    detail: str


class CheckResults(Result):
    """Results of all checks."""

    looks: list[Check]

    def as_text(self) -> str:
        """Return one line per check."""
        return "\n".join(
            f"{'ok' if check.ok else '--'}  {LABELS.get(check.name, check.name)}: {check.detail}"
            for check in self.looks
        )


async def _doctor(session: Session, args: argparse.Namespace) -> int:  # noqa: ARG001 - takes none
    context = session.context
    server = f"process {context.host}" if context.host else "none: `nb open NOTEBOOK` starts one"
    version = f"{__version__}, Python {platform.python_version()}, {platform.system()}"
    checks = [
        Check(name="nb", ok=True, detail=version),
        Check(name="host", ok=context.host is not None, detail=server),
        await _writable(context.root),
        await _kernelspecs(session),
        await _model(session),
        *await _servers(),
    ]
    findings = await asyncio.to_thread(probe, Path(context.root))
    checks += [
        Check(name=f"sandbox: {found.name}", ok=found.ok, detail=found.detail) for found in findings
    ]
    return session.finish(CheckResults(looks=checks))


async def _writable(root: str) -> Check:
    ok = await asyncio.to_thread(os.access, root, os.W_OK)
    return Check(name="project", ok=ok, detail=root if ok else f"{root} cannot be written")


async def _kernelspecs(session: Session) -> Check:
    specs = await session.context.workspace.kernels.kernelspecs()
    names = [spec.name for spec in specs]
    detail = ", ".join(names) or "No kernel is installed: `pip install ipykernel`"
    return Check(name="kernels", ok=bool(names), detail=detail)


async def _model(session: Session) -> Check:
    """Return which model answers in chats, and where its key comes from."""
    context, environment = session.context, session.terminal.info.env
    named = {name: environment[name] for name in FOR_CHATS if name in environment}
    if context.host is not None or context.url:
        found = await (await context.chats(context.user, named)).model()
    else:
        # No server runs: as it would start.
        from tk_ai_extension.agent.claude.models import ClaudeModels
        from tk_ai_extension.agent.claude.providers import ProviderSettings

        settings = ProviderSettings()
        found = await ClaudeModels(settings, lambda: os.environ, Path(context.root)).health()
    ok = found["ready"] and found["provider"] != "tour"
    source = SOURCES.get(found["source"] or "")
    detail = found["label"] + (f", by the key of {source}" if source else "")
    return Check(name="model", ok=ok, detail=detail if ok else f"{detail}. {found['hint']}")


async def _servers() -> list[Check]:
    servers = Servers()
    checks: list[Check] = []
    for server in servers.running():
        ok = await servers.has_extension(server)
        detail = f"{server.url} on {server.root}"
        if not ok:
            detail += (
                " has no tk-ai-extension: notebooks that are open there cannot be changed from here"
            )
        checks.append(Check(name="Jupyter Server", ok=ok, detail=detail))
    return checks


def _nothing(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


COMMANDS = (
    Command(
        "doctor",
        "Check what this machine and this project support.",
        _nothing,
        _doctor,
        ("nb doctor", "nb doctor --json"),
        answers=(CheckResults,),
    ),
)
