"""The columns and first rows of a table, without a kernel: the program that runs in it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

SOURCE = files("tk_ai_extension.tools").joinpath("kernel_variables.py").read_text("utf-8")

PANDAS = """
class List(list):
    def tolist(self): return list(self)
class Series(List):
    def __init__(self, values, dtype): list.__init__(self, values); self.dtype = dtype
class Places:
    def __init__(self, table): self.table = table
    def __getitem__(self, key): return Series(self.table.values[key[1]][:5], self.table.types[key[1]])
class DataFrame:
    dtypes = ()
    def __init__(self, names, types, values):
        self.names, self.types, self.values = names, types, values
    @property
    def shape(self): return (len(self.values[0]), len(self.names))
    def head(self, rows): assert rows == 5; return self
    def to_string(self, **options): return 'a table'
    iloc = property(Places)
    columns = property(lambda self: List(self.names))
    index = property(lambda self: List(range(min(5, self.shape[0]))))
"""
"""As much of pandas as a preview uses."""

TRAP = """
ran = []
class Trap:
    def __repr__(self): ran.append(1)
    __str__ = __len__ = __format__ = __getattr__ = __repr__
    shape = property(__repr__)
trap = Trap()
"""


def asked(code: str, name: str) -> tuple[Any, dict[str, Any]]:
    """The answer about a variable, and the variables afterwards."""
    pandas: dict[str, Any] = {"__name__": "pandas.core"}
    exec(PANDAS, pandas)
    variables: dict[str, Any] = {"DataFrame": pandas["DataFrame"], "__name__": "__main__"}
    exec(code, variables)
    program: dict[str, Any] = {}
    exec(SOURCE, program)
    call = json.dumps({"query": "preview", "name": name})
    return json.loads(program["answer"](variables, call)), variables


@pytest.mark.proves("rest:chat")
def test_a_table_has_its_columns_and_first_rows() -> None:
    code = "sales = DataFrame(['city', 'n'], ['object', 'int64'], [list('abcdefg'), range(7)])"
    answer, _ = asked(code, "sales")
    assert answer["table"] == {
        "rows": 7,
        "columns": 2,
        "index": ["0", "1", "2", "3", "4"],
        "head": [
            {"name": "city", "type": "object", "values": ["a", "b", "c", "d", "e"]},
            {"name": "n", "type": "int64", "values": ["0", "1", "2", "3", "4"]},
        ],
    }


@pytest.mark.proves("rest:chat")
def test_a_large_table_is_cut_and_objects_in_it_do_not_run() -> None:
    code = f"{TRAP}\nt = DataFrame(['x' * 500, trap] * 100, ['object'] * 200, [[trap, 'y' * 500]] * 200)"
    answer, variables = asked(code, "t")
    table = answer["table"]
    assert (table["columns"], len(table["head"])) == (200, 20)
    texts = [text for each in table["head"] for text in (each["name"], *each["values"])]
    assert max(map(len, texts)) <= 63
    assert "<Trap object>" in texts
    assert variables["ran"] == []
