"""A variable that cannot be described is listed by its name and type, and the others as ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from importlib.resources import files
from itertools import product
from typing import Any

import pytest

from tests.harness import ToolHarness

SOURCE = files("tk_ai_extension.tools").joinpath("kernel_variables.py").read_text("utf-8")


def listed(variables: dict[Any, Any]) -> list[dict[str, Any]]:
    """What the program that runs in the kernel lists."""
    program: dict[str, Any] = {}
    exec(SOURCE, program)
    call = json.dumps({"query": "list", "pattern": None})
    found: list[dict[str, Any]] = json.loads(program["answer"](variables, call))["variables"]
    return found


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def answering(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def usage(value: Any) -> Any:
    """The method `memory_usage`, whose call returns a value."""
    return answering(answering(value))


class _Pretends:
    """Says that it is a number."""

    __class__ = property(answering(int))


class _Number(int):
    __repr__ = __str__ = __int__ = __index__ = __format__ = raising(ValueError("a number"))


class _Sum:
    sum = raising(OverflowError("a sum"))


class _Texts:
    __str__ = __repr__ = raising(ValueError("a text"))


PROPERTIES = {
    "shape": [answering((_Texts(),)), answering(("\ud800" * 5000,)), answering((10**5000,))],
    "nbytes": [answering(_Pretends()), answering(_Number(5)), answering(10**5000)],
    "memory_usage": [
        usage(_Sum()),
        usage(_Texts()),
        usage(10**5000),
        answering(raising(OSError())),
    ],
}
METHODS = ["__len__", "__sizeof__", "__repr__", "__str__", "__bool__", "__hash__", "__eq__"]
MODULES = ["pandas.core", "numpy", "builtins", "__main__"]


def things() -> list[tuple[str, Any]]:
    """Objects that raise, or answer what nobody can use, at each place, with their class's module."""
    found: list[tuple[str, Any]] = []
    for module, (name, gets) in product(MODULES, PROPERTIES.items()):
        for get in [raising(ValueError("no")), raising(AttributeError("no")), *gets]:
            members = {"__module__": module, name: property(get)}
            found.append((module, type("Thing", (), members)()))
    for module, name in product(MODULES, [*METHODS, "__getattr__", "__getattribute__"]):
        members = {"__module__": module, name: raising(RuntimeError("no"))}
        found.append((module, type("Thing", (), members)()))
    return found


@pytest.mark.parametrize("kind", [ValueError, OverflowError, RecursionError, MemoryError])
def test_an_error_of_an_object_leaves_its_name_and_type(kind: type[Exception]) -> None:
    thing = type("Thing", (), {"__module__": "pandas", "shape": property(raising(kind()))})()
    assert listed({"thing": thing, "b": 2})[0]["type"] == "pandas.Thing"


def test_no_object_fails_the_list() -> None:
    made = things()
    variables: dict[Any, Any] = {"first": 1}
    variables |= {f"v{number}": thing for number, (_, thing) in enumerate(made)}
    variables |= {"last": [1, 2]}
    found = listed(variables)
    assert [each["name"] for each in found] == list(variables)
    for (module, _), each in zip(made, found[1:-1], strict=True):
        root = module.split(".")[0]
        assert each["type"] == ("Thing" if root in ("builtins", "__main__") else f"{root}.Thing")
        assert each["value"] is None
        assert each["size"] is None or each["size"] < 10**6
    assert (found[0]["value"], found[-1]["shape"]) == ("1", "len 2")


def test_a_class_that_hides_its_name_has_one() -> None:
    meta: Any = type("Meta", (type,), {"__getattribute__": raising(ValueError("no"))})
    text = type("Text", (str,), {"__str__": raising(ValueError("no")), "split": None})
    variables = {
        "a": meta("Hidden", (), {"__module__": "here"})(),
        "b": type("Odd", (), {"__module__": _Texts()})(),
        "c": type("Odd", (), {"__module__": text("there.inner")})(),
    }
    assert [each["type"] for each in listed(variables)] == ["here.Hidden", "Odd", "there.Odd"]


def test_a_name_that_is_no_text_is_left_out() -> None:
    assert [each["name"] for each in listed({1: 2, ("a",): 3, "b": 4})] == ["b"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_ends_the_list(kind: type[BaseException]) -> None:
    thing = type("Thing", (), {"__module__": "pandas", "shape": property(raising(kind()))})()
    with pytest.raises(kind):
        listed({"thing": thing})


def test_a_name_that_vanishes_meanwhile_is_listed() -> None:
    variables: dict[str, Any] = {}
    gone = property(lambda _: variables.pop("last", None) and None)
    variables["first"] = type("Thing", (), {"__module__": "pandas", "shape": gone})()
    variables["last"] = threading.Lock()
    assert [each["name"] for each in listed(variables)] == ["first", "last"]


async def test_a_range_too_long_for_len_is_listed(harness: ToolHarness) -> None:
    harness.write("n.ipynb", "df = 1\nr = range(10**20)")
    await harness.call("use_notebook", notebook="n.ipynb")
    await harness.call("execute_cell", cell=0)
    answer = await harness.call("list_variables")
    assert [(each.name, each.type) for each in answer.variables] == [("df", "int"), ("r", "range")]
