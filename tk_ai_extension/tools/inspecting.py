"""Runs inside a user's Python kernel (Python 3.6 or later): says what its variables are.

It imports nothing but the standard library, keeps nothing, and calls no method of a user's own
class. Its text is sent to the kernel; nothing here is imported by this package.
"""
# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportMissingTypeArgument=false

import fnmatch
import inspect
import json
import reprlib
import sys
import types

MAX_VARIABLES = 200
MAX_VALUE = 60
MAX_DETAIL = 6000
SHAPED = (
    "numpy",
    "pandas",
    "polars",
    "torch",
    "tensorflow",
    "jax",
    "xarray",
    "scipy",
    "pyarrow",
    "dask",
    "cupy",
)
HIDDEN = {"In", "Out", "exit", "quit", "get_ipython", "open"}


def type_name(value):
    kind = type(value)
    module = kind.__module__
    return (
        kind.__qualname__
        if module in ("builtins", "__main__")
        else "%s.%s" % (module.split(".")[0], kind.__qualname__)
    )


def is_shaped(value):
    return type(value).__module__.split(".")[0] in SHAPED


def shape_of(value):
    if is_shaped(value):
        shape = getattr(value, "shape", None)
        return "x".join(str(n) for n in shape) if isinstance(shape, tuple) else None
    if type(value) in (list, tuple, set, frozenset, dict, str, bytes, bytearray, range):
        return "len %d" % len(value)
    return None


def size_of(value):
    if is_shaped(value):
        size = getattr(value, "nbytes", None)
        if isinstance(size, int):
            return size
        usage = getattr(value, "memory_usage", None)
        if type(value).__module__.startswith("pandas") and callable(usage):
            total = usage(deep=False)
            return int(total if isinstance(total, int) else total.sum())
        return None
    if type(value).__module__ == "builtins":
        return sys.getsizeof(value)
    return None


def value_of(value):
    if value is None or type(value) in (bool, int, float, complex):
        if type(value) is int and value.bit_length() > 200:
            return "%d bits" % value.bit_length()
        return repr(value)
    if type(value) in (str, bytes) and len(value) <= MAX_VALUE:
        return repr(value)
    return None


def entry(name, value):
    return {
        "name": name,
        "type": type_name(value),
        "shape": shape_of(value),
        "size": size_of(value),
        "value": value_of(value),
    }


def listing(variables, pattern):
    names = [
        name
        for name, value in list(variables.items())
        if not name.startswith("_")
        and name not in HIDDEN
        and not isinstance(value, types.ModuleType)
        and (pattern is None or fnmatch.fnmatchcase(name, pattern))
    ]
    shown = names[:MAX_VARIABLES]
    return {
        "variables": [entry(name, variables[name]) for name in shown],
        "more": len(names) - len(shown),
    }


def detail_of(value):
    module = type(value).__module__.split(".")[0]
    if module == "pandas" and hasattr(value, "head"):
        parts = ["shape %s" % (shape_of(value) or "")]
        dtypes = getattr(value, "dtypes", None)
        if hasattr(dtypes, "items"):
            parts.append(
                "\n".join("%s: %s" % (column, dtype) for column, dtype in list(dtypes.items())[:50])
            )
        else:
            parts.append("dtype %s" % (dtypes,))
        head = value.head(5)
        parts.append(head.to_string(max_cols=20) if hasattr(head, "columns") else head.to_string())
        return "\n".join(parts)
    if module == "polars" and hasattr(value, "head"):
        return "shape %s\n%s" % (shape_of(value) or "", value.head(5))
    if module == "numpy" and hasattr(value, "dtype"):
        flat = value.reshape(-1)[:20] if getattr(value, "size", 0) else value
        return "shape %s, dtype %s\n%s" % (shape_of(value) or "()", value.dtype, flat)
    if isinstance(value, types.ModuleType):
        return "module %s\n%s" % (value.__name__, inspect.getdoc(value) or "")
    if callable(value):
        try:
            signature = str(inspect.signature(value))
        except (TypeError, ValueError):
            signature = "(...)"
        return "%s%s\n%s" % (
            getattr(value, "__qualname__", type_name(value)),
            signature,
            inspect.getdoc(value) or "(no docstring)",
        )
    short = reprlib.Repr()
    short.maxlist = short.maxtuple = short.maxset = short.maxdict = 20
    short.maxstring = short.maxother = 2000
    return short.repr(value)


def inspecting(variables, name):
    parts = name.split(".")
    if parts[0] not in variables:
        return None
    value = variables[parts[0]]
    for part in parts[1:]:
        if not hasattr(value, part):
            return None
        value = getattr(value, part)
    return {"type": type_name(value), "detail": detail_of(value)[:MAX_DETAIL]}


def answer(variables, call):
    asked = json.loads(call)
    if asked["what"] == "list":
        return json.dumps(listing(variables, asked["pattern"]))
    return json.dumps(inspecting(variables, asked["name"]))
