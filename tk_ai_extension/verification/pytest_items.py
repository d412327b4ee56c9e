"""Tests of pytest that verify notebooks (`pytest_plugin`), by nbclient: no server is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook

from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.executions import Execution
from tk_ai_extension.notebooks.reading import read_notebook
from tk_ai_extension.verification.comparing import ComparisonRules, sanitizers_in
from tk_ai_extension.verification.verifying import NotebookReport, Verification


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
        option: Any = self.config.option
        report = verify_file(
            self.path,
            rules_of(self.config),
            kernel_name=option.nb_verify_kernel,
            timeout=option.nb_verify_timeout,
        )
        if report.status in ("differs", "failed"):
            raise VerificationFailed(report.as_text())

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


def verify_file(
    path: Path,
    rules: ComparisonRules,
    *,
    kernel_name: str | None = None,
    timeout: float | None = None,
) -> NotebookReport:
    """Verify a notebook in its own kernel, by nbclient.

    Args:
        path: The notebook.
        rules: What is ignored.
        kernel_name: The kernelspec; None for the notebook's.
        timeout: Seconds of a cell after which the verification ends; None for no limit.
    """
    stored = read_notebook(path.read_bytes(), path.name)
    snapshot = stored.snapshot(path.name)
    outputs = {
        cell.key: stored.cell_json(cell.index)["outputs"]
        for cell in snapshot.cells
        if cell.outputs.count
    }
    verification = Verification(snapshot, outputs, rules)
    notebook = new_notebook(cells=[new_code_cell(cell.source) for cell in verification.cells])
    begun: list[int] = []

    def begin(cell: Any, cell_index: int) -> None:  # noqa: ARG001 - the hook's arguments
        begun.append(cell_index)

    client = NotebookClient(
        notebook,
        kernel_name=kernel_name or snapshot.kernel_name or "python3",
        timeout=timeout,
        allow_errors=True,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=begin,
    )
    stopped = ""
    try:
        client.execute()
    except (CellTimeoutError, DeadKernelError) as error:
        is_slow = isinstance(error, CellTimeoutError)
        stopped = f"It ran longer than {timeout:g} s." if is_slow else "The kernel died."
    for at in begun:
        ended = Execution("ok", tuple(notebook.cells[at].outputs))
        if stopped and at == begun[-1]:
            ended = Execution("timed_out", message=stopped)
        verification.record(verification.cells[at], ended)
    return verification.report()


def rules_of(config: pytest.Config) -> ComparisonRules:
    """Return the rules that the options choose."""
    option: Any = config.option
    files = [Path(config.invocation_params.dir, name) for name in option.nb_verify_sanitize_with]
    return ComparisonRules(
        sanitizers=tuple(
            each for file in files for each in sanitizers_in(file.read_text("utf-8"), file.name)
        ),
        ignore_times=option.nb_verify_ignore_times,
        image=option.nb_verify_image_tolerance,
        lax=option.nb_verify_lax,
    )
