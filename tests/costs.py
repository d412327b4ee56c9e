"""What a call may cost: the budgets that `test_costs.py` measures.

Milliseconds differ between machines; counts do not. A budget is raised only by a commit that says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Documents = Literal["file", "tab"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The budget of one call.

    Attributes:
        tool: The tool that is called.
        cells: How many cells the notebook has.
        calls: Calls of functions in the server, Python's and C's, by what holds the notebook: a file
            or an open tab.
        transactions: Transactions of the extension's databases, whatever holds the notebook.
    """

    tool: str
    cells: int
    calls: dict[Documents, int]
    transactions: float


def cost(tool: str, cells: int, *calls: int, transactions: float) -> Cost:
    """Return the budget of a call."""
    return Cost(tool, cells, dict(zip(get_args(Documents), calls, strict=True)), transactions)


MAX_MODULES = 31
"""Modules of the package that `execute_cell` may pass, in addition to values and errors (`model`)."""

COSTS = (
    cost("list_kernels", 10, 4_000, 4_000, transactions=0),
    cost("execute_ipython", 10, 7_900, 7_900, transactions=1),
    cost("execute_cell", 10, 9_900, 10_200, transactions=2),
    cost("overwrite_cell", 10, 5_600, 7_500, transactions=1),
    cost("insert_and_execute_cell", 10, 11_700, 13_400, transactions=2),
    cost("overwrite_cell", 500, 5_500, 7_500, transactions=1),
    cost("list_cells", 500, 4_900, 5_500, transactions=0),
    cost("insert_cell", 500, 5_400, 7_300, transactions=1),
    cost("insert_and_execute_cell", 500, 11_900, 13_600, transactions=2),
)
"""The calls, in the order in which they are measured."""
