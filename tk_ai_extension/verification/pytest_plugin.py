"""Pytest plug-in: `pytest --nb-verify` collects notebooks and verifies each as one test.

The cells run by nbclient: no server is needed. Pytest imports this module at each start, so it imports
the rest when the first notebook is verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tk_ai_extension.verification import OPTIONS

if TYPE_CHECKING:
    from tk_ai_extension.verification.output_comparison import ComparisonRules
    from tk_ai_extension.verification.report import NotebookReport


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("nb-verify", "notebooks")
    group.addoption(
        "--nb-verify",
        action="store_true",
        help="run each notebook in a fresh kernel and compare its outputs with the stored ones",
    )
    for name, described in OPTIONS.items():
        group.addoption(f"--nb-verify-{name}", **described)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a notebook."""
    if file_path.suffix != ".ipynb" or not parent.config.getoption("nb_verify"):
        return None
    if ".ipynb_checkpoints" in file_path.parts:
        return None
    return NotebookCollector.from_parent(parent, path=file_path)


class NotebookCollector(pytest.File):
    """A notebook as a file of tests."""

    def collect(self) -> Iterator[NotebookItem]:
        """Yield its one test."""
        yield NotebookItem.from_parent(self, name="verify")


class NotebookItem(pytest.Item):
    """The verification of a notebook."""

    def runtest(self) -> None:
        """Run the notebook in a fresh kernel; fail with the report if it fails or differs."""
        from tk_ai_extension.model.errors import ToolError
        from tk_ai_extension.verification.output_comparison import ComparisonRules

        option: Any = self.config.option
        folder = self.config.invocation_params.dir
        files = [Path(folder, name) for name in option.nb_verify_sanitize_with]
        try:
            rules = ComparisonRules.of(
                [file.read_text("utf-8") for file in files],
                ignore_times=option.nb_verify_ignore_times,
                lax=option.nb_verify_lax,
            )
            report = verify_file(
                self.path,
                rules,
                kernel_name=option.nb_verify_kernel,
                timeout=option.nb_verify_timeout,
            )
        except ToolError as error:
            pytest.fail(error.as_text(), pytrace=False)
        if report.status in ("differs", "failed"):
            pytest.fail(report.as_text(), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the location and the name of the test."""
        return self.path, None, f"verify {self.path.name}"


def verify_file(
    path: Path,
    rules: ComparisonRules,
    *,
    kernel_name: str | None = None,
    timeout: float | None = None,
) -> NotebookReport:
    """Verify a notebook in a fresh kernel.

    Args:
        path: The notebook.
        rules: The differences to ignore.
        kernel_name: The kernelspec; None for the notebook's.
        timeout: Seconds of a cell after which the verification ends; None for no limit.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from nbformat.v4 import new_code_cell, new_notebook

    from tk_ai_extension.model.executions import Execution
    from tk_ai_extension.notebooks.parsed_notebooks import read_notebook
    from tk_ai_extension.verification.report import Verification

    stored = read_notebook(path.read_bytes(), path.name)
    snapshot = stored.snapshot(path.name)
    outputs = {
        cell.key: stored.cell_json(index)["outputs"]
        for index, cell in enumerate(snapshot.cells)
        if cell.outputs.count
    }
    verification = Verification(snapshot, outputs, rules)
    if not verification.cells:
        pytest.skip(f"{path.name} has no code to run")
    notebook = new_notebook(cells=[new_code_cell(cell.source) for cell in verification.cells])
    replies: list[Any] = []

    def end(execute_reply: Any, **_: Any) -> None:
        replies.append(execute_reply["content"])

    client = NotebookClient(
        notebook,
        kernel_name=kernel_name or snapshot.kernel_name or "python3",
        timeout=timeout,
        allow_errors=True,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_executed=end,
    )
    stopped = ""
    try:
        client.execute()
    except (CellTimeoutError, DeadKernelError) as error:
        is_slow = isinstance(error, CellTimeoutError)
        stopped = f"It ran longer than {timeout:g} s." if is_slow else "The kernel died."
    for cell, ran, reply in zip(verification.cells, notebook.cells, replies, strict=False):
        # Some exceptions are only in the reply, such as IPython's UsageError.
        error = reply if reply["status"] == "error" else None
        ended = Execution("error" if error else "ok", tuple(ran.outputs), error=error)
        verification.record(cell, ended)
    if stopped:
        slow = verification.cells[len(replies)]
        verification.record(slow, Execution("timed_out", message=stopped))
    return verification.report(stopped)
