"""The first execution on a fresh kernel, beside the kernel's own start."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from contents import write
from family import Options, main
from harness import BenchmarkHarness, start_harness
from jupyter_client.manager import AsyncKernelManager
from kept import KeptClient
from measure import Row, interleaved, timed

CODE = "1+1"
SAMPLES = 8


async def measure(options: Options) -> AsyncGenerator[Row]:
    """With both executors."""
    for executor in ("direct", "stack"):
        root = options.new_folder(executor)
        async with start_harness(root, executor) as here:
            write(root / "fresh.ipynb", [CODE])
            starts = Starts(here)
            try:
                floor, first = await interleaved(
                    options.count(SAMPLES),
                    starts.bare,
                    starts.ours,
                    between=starts.stop,
                    warm_ups=1,
                )
            finally:
                await starts.stop()
        work = f"first 1+1 on a fresh kernel, {executor}"
        yield timed(work, first, floor, above=50)


class Starts:
    """Starts kernels, one at a time."""

    def __init__(self, here: BenchmarkHarness) -> None:
        self._here = here
        self._bare: tuple[AsyncKernelManager, KeptClient] | None = None

    async def bare(self) -> None:
        """A kernel by jupyter_client alone, from nothing to its kernel_info reply."""
        manager = AsyncKernelManager(kernel_name="python3")
        await manager.start_kernel()
        client = KeptClient(manager.get_connection_info())
        self._bare = (manager, client)
        await client.answered()

    async def ours(self) -> None:
        """The first execution in a notebook that has no kernel yet."""
        await self._here.call("execute_ipython", notebook="fresh.ipynb", code=CODE)

    async def stop(self) -> None:
        """Ends whatever was started."""
        if self._bare is not None:
            manager, client = self._bare
            client.close()
            await manager.shutdown_kernel(now=True)
            self._bare = None
        for kernel_id in self._here.workspace.kernels.ids():
            await self._here.workspace.kernels.shutdown(kernel_id)


if __name__ == "__main__":
    main(measure, __doc__)
