"""Describe the variables of a user's Python kernel (Python 3.6 or later); runs inside the kernel.

It imports only the standard library, keeps no state, and runs no code of the user's classes: no
`__repr__`, no property. (Tables and arrays that hold such objects may.) Its source is sent to the
kernel; this package imports only its limits.
"""
# pyrefly: ignore-errors[implicit-any, missing-attribute, unannotated-return, unknown-argument-type]
# pyrefly: ignore-errors[unknown-attribute-access, unknown-return-type, unknown-variable-type]

import contextlib
import fnmatch
import inspect
import itertools
import json
import sys
import types

MAX_VARIABLES = 200
MAX_VALUE = 60
MAX_DETAIL = 6000
MAX_ITEMS = 20
MAX_ROWS = 5
MAX_COLUMNS = 20
MAX_TYPES = 50
MAX_TEXT = 2000
MAX_TEXT_WITHIN = 200
DEPTH = 3
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
PLAIN = ("datetime", "decimal", "fractions", "pathlib", "uuid", "re")
SEQUENCES = ((list, "[%s]"), (tuple, "(%s)"), (set, "{%s}"), (frozenset, "{%s}"))
CALLABLE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
FIXED = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    type(str.join),
    type(object.__init__),
)
MISSING = object()
HIDDEN = {"In", "Out", "exit", "quit", "get_ipython", "open"}


def type_name(value):
    kind = type(value)
    module = root_of(kind)
    name = str.__str__(type.__dict__["__qualname__"].__get__(kind))
    return name if module in ("", "builtins", "__main__") else "%s.%s" % (module, name)


def root_of(kind):
    """Return the first part of a class's module; "" if it is not text. A metaclass does not run."""
    try:
        module = type.__dict__["__module__"].__get__(kind)
    except AttributeError:
        return ""
    return str.__str__(module).split(".")[0] if issubclass(type(module), str) else ""


def is_shaped(value):
    return root_of(type(value)) in SHAPED


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
            return int(size)
        usage = getattr(value, "memory_usage", None)
        if root_of(type(value)) == "pandas" and callable(usage):
            total = usage(deep=False)
            return int(total if isinstance(total, int) else total.sum())
        return None
    if root_of(type(value)) == "builtins":
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
    found = {"name": name, "type": type_name(value)}
    for field, describe in (("shape", shape_of), ("size", size_of), ("value", value_of)):
        found[field] = described(describe, value)
    return found


def described(describe, value):
    """Return a short description; None if the value's code raises, or its answer is too long or not JSON."""
    try:
        found = describe(value)
        return found if len(json.dumps(found)) <= MAX_TEXT else None
    except Exception:  # noqa: BLE001 - the code of a value may raise anything
        return None


def listing(variables, pattern):
    found = [
        (name, value)
        for name, value in list(variables.items())
        if type(name) is str
        and not name.startswith("_")
        and name not in HIDDEN
        and not issubclass(type(value), types.ModuleType)
        and (pattern is None or fnmatch.fnmatchcase(name, pattern))
    ]
    shown = found[:MAX_VARIABLES]
    return {
        "variables": [entry(name, value) for name, value in shown],
        "more": len(found) - len(shown),
    }


def is_callable(value):
    return type(value) in CALLABLE or issubclass(type(value), type)


def cut(text, most):
    return (
        text
        if len(text) <= most
        else "%s... (%d more characters)" % (text[:most], len(text) - most)
    )


def text_of(value, depth=DEPTH):
    """Return the `repr`, unless that would run the user's code."""
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int, float, complex, range):
        return value_of(value) or repr(value)
    if kind in (str, bytes, bytearray):
        most = MAX_TEXT if depth == DEPTH else MAX_TEXT_WITHIN
        return repr(value[:most]) + ("..." if len(value) > most else "")
    text = within_of(value, depth)
    if text is not None:
        return text if root_of(kind) == "builtins" else "%s(%s)" % (type_name(value), text)
    if root_of(kind) in PLAIN or is_shaped(value):
        return repr(value)
    if is_callable(value):
        return "<%s>" % value.__qualname__
    return "<%s object>" % type_name(value)


def within_of(value, depth):
    """Return the items of a container as text, read by its built-in base; None if it has none."""
    if issubclass(type(value), dict):
        pairs = itertools.islice(dict.items(value), MAX_ITEMS) if depth else ()
        shown = ["%s: %s" % (text_of(k, depth - 1), text_of(v, depth - 1)) for k, v in pairs]
        return "{%s}" % ", ".join(shown + ["..."] * (dict.__len__(value) > len(shown)))
    for base, form in SEQUENCES:
        if issubclass(type(value), base):
            items = itertools.islice(base.__iter__(value), MAX_ITEMS) if depth else ()
            shown = [text_of(item, depth - 1) for item in items]
            shown += ["..."] * (base.__len__(value) > len(shown))
            return form % (", ".join(shown) + "," * (base is tuple and len(shown) == 1))
    return None


def fields_of(value):
    """Return an object's stored attributes without evaluating properties."""
    fields = {}
    shadowed = False
    for base in type.mro(type(value)):
        for name, found in type.__dict__["__dict__"].__get__(base).items():
            if type(found) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):
                    fields[name] = found.__get__(value)
            elif name == "__dict__" and type(found) is not types.GetSetDescriptorType:
                shadowed = True
    with contextlib.suppress(AttributeError):
        fields.update({} if shadowed else object.__getattribute__(value, "__dict__"))
    return fields


def attribute_of(value, name):
    """Return an attribute, and whether it is known without running the user's code."""
    if is_shaped(value):
        return getattr(value, name, MISSING), True
    found = inspect.getattr_static(value, name, MISSING)
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    if type(found) in FIXED:
        try:
            return found.__get__(value, type(value)), True
        except AttributeError:
            return MISSING, True
    if type(found) in (types.FunctionType, types.BuiltinFunctionType):
        return found, True
    computed = inspect.getattr_static(type(found), "__get__", MISSING) is not MISSING
    return found, not computed


class VerbatimRepr:
    """A default or an annotation, as text."""

    def __init__(self, value):
        self.text = value if isinstance(value, str) else text_of(value)

    def __repr__(self):
        return self.text


def annotation_of(annotation):
    if isinstance(annotation, (type, str)) or root_of(type(annotation)) in ("typing", "types"):
        return annotation
    return VerbatimRepr(annotation)


def signature_of(value):
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    empty = inspect.Parameter.empty
    parameters = [
        each.replace(
            default=empty if each.default is empty else VerbatimRepr(text_of(each.default)),
            annotation=annotation_of(each.annotation),
        )
        for each in signature.parameters.values()
    ]
    returned = annotation_of(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def frame_of(value):
    """The head of a pandas table or series."""
    parts = ["shape %s" % (shape_of(value) or "")]
    dtypes = getattr(value, "dtypes", None)
    if hasattr(dtypes, "items"):
        types = ["%s: %s" % item for item in dtypes.items()]
        more = ["... and %d more columns" % (len(types) - MAX_TYPES)] * (len(types) > MAX_TYPES)
        parts.append("\n".join(types[:MAX_TYPES] + more))
    else:
        parts.append("dtype %s" % (dtypes,))
    head = value.head(MAX_ROWS)
    wide = {"max_cols": MAX_COLUMNS} if hasattr(head, "columns") else {}
    parts.append(head.to_string(**wide))
    return "\n".join(parts)


def detail_of(value):
    module = root_of(type(value))
    if module == "pandas" and hasattr(value, "head"):
        return frame_of(value)
    if module == "polars" and hasattr(value, "head"):
        return "shape %s\n%s" % (shape_of(value) or "", value.head(MAX_ROWS))
    if module == "numpy" and hasattr(value, "dtype"):
        flat = value.reshape(-1)[:MAX_ITEMS] if getattr(value, "size", 0) else value
        shown = text_of(flat.tolist()) if value.dtype.hasobject else flat
        more = getattr(value, "size", 0) - MAX_ITEMS
        rest = "\n... and %d more" % more if more > 0 else ""
        return "shape %s, dtype %s\n%s%s" % (shape_of(value) or "()", value.dtype, shown, rest)
    if issubclass(type(value), types.ModuleType):
        return "module %s\n%s" % (value.__name__, inspect.getdoc(value) or "")
    if is_callable(value):
        doc = inspect.getdoc(value) or "(no docstring)"
        return "%s%s\n%s" % (value.__qualname__, signature_of(value), doc)
    lines = [text_of(value)]
    if lines[0] == "<%s object>" % type_name(value):
        fields = fields_of(value)
        lines += ["%s = %s" % (name, text_of(fields[name])) for name in list(fields)[:MAX_ITEMS]]
        lines += ["... and %d more" % (len(fields) - MAX_ITEMS)] * (len(fields) > MAX_ITEMS)
    return "\n".join(lines)


def inspection(variables, name):
    parts = name.split(".")
    value, known = variables.get(parts[0], MISSING), True
    for part in parts[1:]:
        if value is MISSING or not known:
            break
        value, known = attribute_of(value, part)
    if value is MISSING:
        return None
    if not known:
        detail = "The value is computed by code of its class, which was not run."
        return {"type": type_name(value), "detail": detail}
    return {"type": type_name(value), "detail": cut(detail_of(value), MAX_DETAIL)}


def answer(variables, call):
    request = json.loads(call)
    if request["query"] == "list":
        return json.dumps(listing(variables, request["pattern"]))
    return json.dumps(inspection(variables, request["name"]))
