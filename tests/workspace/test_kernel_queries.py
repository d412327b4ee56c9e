"""What a query of a kernel's variables reports if the kernel does not answer it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.harness import ToolHarness, backend, documents, harness, jp_server_config
from tk_ai_extension.model.errors import KernelBusy, KernelDied, ToolError
from tk_ai_extension.model.executions import (
    EndStatus,
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    Started,
)

__all__ = ["backend", "documents", "harness", "jp_server_config"]


class EndingExecutor:
    """An executor whose executions end in one way."""

    name = "direct"

    def __init__(self, status: EndStatus) -> None:
        self.status: EndStatus = status

    async def execute(
        self, _kernel_id: str, _request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        yield Started(None)
        yield Execution(self.status)


@pytest.mark.proves("exec:statuses")
@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("interrupted", KernelBusy),
        ("connection_lost", KernelBusy),
        ("kernel_died", KernelDied),
        ("kernel_restarted", KernelDied),
    ],
)
async def test_only_a_kernel_that_ended_has_lost_its_variables(
    harness: ToolHarness,
    status: EndStatus,
    error: type[ToolError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness.write("n.ipynb", "1")
    await harness.call("use_notebook", notebook="n.ipynb")
    executor = EndingExecutor(status)
    monkeypatch.setattr(harness.workspace.kernels, "executor", lambda _kernel_id: executor)
    with pytest.raises(error):
        await harness.call("list_variables")
