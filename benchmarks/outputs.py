"""A cell that prints 10 MB in 10,000 flushed lines, compared with a client that only drains it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from measure import Bench, Row, at_most, bench, in_turns, main, timed, write

LINES = 10_000
PRINTING = f"for n in range({LINES}):\n    print(f'{{n:06d}} '.ljust(999, 'x'), flush=True)"


async def measure(folder: Path, limited: Callable[[int], int]) -> AsyncGenerator[Row]:
    """Measure it in a file and in an open page, and count the lines in the file."""
    async with bench(folder) as here:
        for open_in in ("a file", "a page"):
            name = f"{open_in[2:]}.ipynb"
            write(here.root / name, [PRINTING])
            if open_in == "a page":
                await here.page.open(name)
            used = await here.call("use_notebook", notebook=name)
            async with here.kernel_client(used["kernel_id"]) as client:
                floor, ours = await in_turns(
                    limited(3),
                    lambda: client.execute(PRINTING),
                    here.calls("execute_cell", cell="cell0", wait=120),
                    between=client.drain,
                    warm_ups=1,
                )
            yield timed(f"10 MB printed into {open_in}", ours, floor, times=1.3, unit="s")
            lost = LINES - _lines(here, name)
            yield at_most(f"10 MB printed into {open_in}: lines lost", lost, 0, "lines")


def _lines(here: Bench, name: str) -> int:
    """Return how many numbered lines the file has."""
    notebook = json.loads((here.root / name).read_text(encoding="utf-8"))
    text = "".join("".join(each.get("text", "")) for each in notebook["cells"][0]["outputs"])
    return len({line[:6] for line in text.splitlines() if len(line) == 999})


if __name__ == "__main__":
    main(measure, __doc__)
