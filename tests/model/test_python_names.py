"""Names that Python code defines and uses."""

import pytest

from tk_ai_extension.model.python_names import names_of


@pytest.mark.parametrize(
    ("source", "defines", "uses"),
    [
        ("import numpy as np\nfrom a.b import c", {"np", "c"}, set()),
        ("def f(x, *y):\n    z = x + g\n    return z", {"f"}, {"g"}),
        ("class A(B):\n    x = 1\n    def m(self):\n        return x2", {"A"}, {"B", "x2"}),
        ("[i * k for i in xs]", set(), {"k", "xs"}),
        ("x += 1", {"x"}, {"x"}),
        ("for i in range(n):\n    t = i", {"i", "t"}, {"range", "n"}),
        ("with open(p) as f:\n    d = f.read()", {"f", "d"}, {"open", "p"}),
        ("%matplotlib inline\n!ls\nfiles = !ls\na = b", {"files", "a"}, {"b"}),
        ("%%time\na = b", {"a"}, {"b"}),
        ("lambda q: q + r", set(), {"r"}),
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = y", {"f"}, {"y"}),
        ("def f():\n    global g\n    g = 1", {"f", "g"}, set()),
        ("def f(a: T, *b, c=d) -> R:\n    return f(a)", {"f"}, {"T", "d", "R"}),
        ("@dec\nasync def f():\n    async for i in a:\n        i", {"f"}, {"dec", "a"}),
        (
            "class A:\n    x = 1\n    def m(self):\n        return x, A, super()",
            {"A"},
            {"x", "super"},
        ),
        ("[(y := x) for x in a if (z := y)]", {"y", "z"}, {"a", "y"}),
        ("(x := x + 1)", {"x"}, {"x"}),
        ("match p:\n    case [a, *b]:\n        a, b", {"a", "b"}, {"p"}),
        (
            "match p:\n    case {'k': v, **r} if v:\n        r\n    case P(q=1) as w:\n        w",
            {"v", "r", "w"},
            {"p", "P"},
        ),
        ("try:\n    a\nexcept E as e:\n    print(e)", set(), {"a", "E", "print"}),
        ("x: int = x + 1", {"x"}, {"x", "int"}),
        ("del x", {"x"}, {"x"}),
        ("df['a'] = b", {"df"}, {"df", "b"}),
        ("async with o as q:\n    q", {"q"}, {"o"}),
        ("from m import *\nq", set(), {"q"}),
    ],
)
def test_names(source, defines, uses):
    names = names_of(source)
    assert names is not None
    assert (set(names.defines), set(names.uses)) == (defines, uses)


def test_code_that_cannot_be_parsed_has_no_names():
    assert names_of("a b c") is None


@pytest.mark.parametrize(
    "source",
    [
        "async \\\ndef f():\n    return x",
        "from __future__ import annotations\ndef f(x: (lambda: y)): pass",
        "from __future__ import annotations\nclass A:\n    x: (lambda: y) = 1",
    ],
)
def test_code_that_symtable_reads_differently_raises_nothing(source):
    names_of(source)
