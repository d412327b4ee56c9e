"""Reading a kernel's variables: no user code runs, and nothing is left behind."""

import pytest

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import KernelBusy, NotFound
from tk_ai_extension.tools.default import variables

LOOP = """
import time
def loop(self, *_):
    ran.append(1)
    while True: time.sleep(0.01)
ran = []
"""

TRAPS = f"""
import collections, functools
{LOOP}
class Trap:
    slow = 1
    def __init__(self):
        self.kept = [1, self.__class__]
    __repr__ = __str__ = __len__ = __format__ = __lt__ = __hash__ = __eq__ = __getattr__ = loop
    computed, cached = property(loop), functools.cached_property(loop)
    def method(self, first=1):
        'What it does.'
class Slots:
    __slots__ = ('a', 'b')
class Listed(list):
    __iter__ = __len__ = __repr__ = loop
class Lies:
    __class__ = __dict__ = property(loop)
trap, slots, listed, lies = Trap(), Slots(), Listed([1, 2]), Lies()
slots.a = 5
held, named, many = [trap, (trap,)], {{'key': trap}}, collections.deque([1, trap])
counted = collections.OrderedDict(a=[1])
def function(x: trap = trap, *, y: int = 2) -> trap:
    'Its docstring.'
"""

# Says that it is a table of pandas', which shows itself.
TABLE = f"""
{LOOP}
class Table:
    __module__, shape, head = 'pandas', (1, 1), loop
table = Table()
"""


@pytest.fixture
async def used(harness):
    harness.write("n.ipynb", "a = 1")
    return await harness.call("use_notebook", notebook="n.ipynb")


async def inspect(harness, name):
    return (await harness.call("inspect_variable", name=name)).detail


async def evaluate(harness, code):
    return (await harness.call("execute_ipython", code=code)).runs[0].output


@pytest.mark.proves("perm:modes")
async def test_no_code_of_a_users_classes_runs(harness, used):
    assert (await harness.call("execute_ipython", code=TRAPS)).status == "ok"
    listed = {v.name: v.type for v in (await harness.call("list_variables")).variables}
    assert (listed["trap"], listed["lies"]) == ("Trap", "Lies")
    details = {
        "trap": "<Trap object>\nkept = [1, <Trap>]",
        "trap.slow": "1",
        "trap.kept": "[1, <Trap>]",
        "trap.computed": "The value is computed by code of its class, which was not run.",
        "trap.cached": "The value is computed by code of its class, which was not run.",
        "trap.method": "Trap.method(self, first=1)\nWhat it does.",
        "slots": "<Slots object>\na = 5",
        "slots.a": "5",
        "listed": "Listed([1, 2])",
        "lies": "<Lies object>",
        "held": "[<Trap object>, (<Trap object>,)]",
        "named": "{'key': <Trap object>}",
        "counted": "collections.OrderedDict({'a': [1]})",
        "function": "function(x: <Trap object> = <Trap object>, *, y: int = 2) -> <Trap object>\n"
        "Its docstring.",
    }
    assert {name: await inspect(harness, name) for name in details} == details
    assert "deque object" in await inspect(harness, "many")
    for missing in ("trap.nothing", "slots.b", "nothing.kept"):
        with pytest.raises(NotFound):
            await inspect(harness, missing)
    assert await evaluate(harness, "ran") == "[]"


@pytest.mark.proves("perm:modes")
async def test_a_table_with_cells_that_loop_is_interrupted_and_the_kernel_goes_on(
    harness, used, monkeypatch
):
    monkeypatch.setattr(variables, "ANSWER_WITHIN", 1.0)
    assert (await harness.call("execute_ipython", code=TABLE)).status == "ok"
    with pytest.raises(KernelBusy, match="Command timed out after 1 seconds"):
        await inspect(harness, "table")
    assert await evaluate(harness, "6 * 7") == "42"


@pytest.mark.proves("perm:modes")
async def test_a_look_leaves_count_history_and_the_last_results_as_they_are(harness, used):
    await harness.call("execute_ipython", code="kept = 41")
    assert await evaluate(harness, "kept + 1") == "42"
    plan = Caller("alice", "session-plan", "mcp", mode="plan")
    await harness.call("list_variables", caller=plan, notebook="n.ipynb")
    await harness.call("inspect_variable", caller=plan, notebook="n.ipynb", name="kept")
    inputs, last, out = eval(await evaluate(harness, "(In[-2:], _, list(Out.values())[-1])"))
    assert inputs[0] == "kept + 1"
    assert (last, out) == (42, 42)
    counts = [int(await evaluate(harness, "get_ipython().execution_count")) for _ in range(2)]
    await harness.call("list_variables")
    counts.append(int(await evaluate(harness, "get_ipython().execution_count")))
    assert counts[2] - counts[1] == counts[1] - counts[0]
    history = await evaluate(
        harness, "[row[2] for row in get_ipython().history_manager.get_range()]"
    )
    assert "answer" not in history
