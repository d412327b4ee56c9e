"""Tests of pytest that verify notebooks (`pytest_plugin`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from tk_ai_extension.kernels.service import Kernels
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.verification.fresh_kernel import verify_alone
from tk_ai_extension.verification.report import NotebookReport
from tk_ai_extension.verification.rules import Rules, sanitizers_in
from tk_ai_extension.verification.stored import stored_outputs
from tk_ai_extension.verification.verifying import Verification


class VerificationFailed(Exception):
    """A notebook fails or differs; the message is the report."""


class NotebookFile(pytest.File):
    """A notebook as a file of tests."""

    def collect(self) -> Iterator[NotebookItem]:
        """Yield its one test."""
        yield NotebookItem.from_parent(self, name="verify")


class NotebookItem(pytest.Item):
    """The verification of a notebook."""

    def runtest(self) -> None:
        """Run the notebook in a fresh kernel.

        Raises:
            VerificationFailed: It fails or differs.
        """
        report = asyncio.run(_verify(self.path, self.config))
        is_hidden = bool(report.findings) and self.config.getoption("nb_verify_strict")
        if report.status != "same" or is_hidden:
            raise VerificationFailed("\n".join(report.as_lines()))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the report of a failure, without a traceback of this module."""
        if isinstance(excinfo.value, VerificationFailed):
            return str(excinfo.value)
        if isinstance(excinfo.value, ToolError):
            return excinfo.value.as_text()
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return what the line of the test says."""
        return self.path, None, f"verify {self.path.name}"


async def _verify(path: Path, config: pytest.Config) -> NotebookReport:
    manager: Any = AsyncMappingKernelManager(root_dir=str(path.parent))
    kernels = Kernels(manager)
    files = NotebookRouter(path.parent, str)
    try:
        document = await files.open(path.name)
        snapshot = await document.read()
        verification = Verification(
            snapshot, await stored_outputs(document, snapshot), rules_of(config)
        )
        return await verify_alone(
            kernels,
            verification,
            kernel_name=config.getoption("nb_verify_kernel"),
            timeout=config.getoption("nb_verify_timeout"),
        )
    finally:
        with suppress(ToolError):
            await kernels.close()
        await manager.shutdown_all(now=True)
        await files.close()


def rules_of(config: pytest.Config) -> Rules:
    """Return the rules that the options choose."""
    option: Any = config.option
    files = [Path(config.invocation_params.dir, name) for name in option.nb_verify_sanitize_with]
    return Rules(
        sanitizers=tuple(
            each for file in files for each in sanitizers_in(file.read_text("utf-8"), file.name)
        ),
        ignore_times=option.nb_verify_ignore_times,
        lax=option.nb_verify_lax,
    )
