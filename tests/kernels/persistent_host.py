"""A program that starts a kernel in a folder, and is killed or leaves it.

``python -m tests.kernels.persistent_host FOLDER`` writes the kernel's id and process once code has run in
it, and leaves it where the next line of stdin says ``leave``.
"""

from __future__ import annotations

import asyncio
import json
import sys

from tk_ai_extension.kernels.persistent import PersistentMappingKernelManager
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.model.executions import Execution, ExecutionRequest


async def main(folder: str) -> None:
    manager = PersistentMappingKernelManager(connection_dir=folder, adopt_on_start=False)
    kernels = JupyterKernels(manager, capture_stderr=False)
    kernel_id = await kernels.start("python3")
    events = kernels.executor(kernel_id).execute(kernel_id, ExecutionRequest("kept = 41"))
    last = [event async for event in events][-1]
    assert isinstance(last, Execution), last
    assert last.status == "ok", last
    sys.stdout.write(f"{json.dumps([kernel_id, (await kernels.info(kernel_id)).pid])}\n")
    sys.stdout.flush()
    if sys.stdin.readline().strip() == "leave":
        await kernels.close()
        manager.detach()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
