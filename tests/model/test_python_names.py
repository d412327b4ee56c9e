"""What a piece of Python defines and uses."""

import pytest

from tk_ai_extension.model.names import names_of


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
        ("a = (b\n% c)", {"a"}, {"b", "c"}),
        ("%%time\na = b", {"a"}, {"b"}),
        ("lambda q: q + r", set(), {"r"}),
        ("lambda q=d, *, k=e: q + k", set(), {"d", "e"}),
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = y", {"f"}, {"y"}),
        ("def f():\n    global g\n    g = 1", {"f", "g"}, set()),
        ("def f(a: T, *b, c=d) -> R:\n    return f(a)", {"f"}, {"T", "d", "R"}),
        ("def f():\n    return x\n    x = 1", {"f"}, set()),
        ("@dec\nasync def f():\n    async for i in a:\n        i", {"f"}, {"dec", "a"}),
        (
            "class A:\n    x = 1\n    def m(self):\n        return x, A, super()",
            {"A"},
            {"x", "super"},
        ),
        ("class A:\n    x = x\n    y = x\n    z = [y for _ in x]", {"A"}, {"x", "y"}),
        ("class A:\n    class B(C):\n        def m(self): return A", {"A"}, {"C"}),
        ("[[x + y for x in r] for r in rows]", set(), {"y", "rows"}),
        ("[x for x in x]", set(), {"x"}),
        ("[[r for x in z] for r in rows]", set(), {"z", "rows"}),
        ("[lambda a: (a, r, k) for r in rows]", set(), {"k", "rows"}),
        ("[0 for s[i] in rows]", {"s"}, {"s", "i", "rows"}),
        ("[(y := x) for x in a if (z := y)]", {"y", "z"}, {"a", "y"}),
        ("def f():\n    return [a + b for a in c]", {"f"}, {"b", "c"}),
        ("class A:\n    y = [lambda: (x, A, g) for x in a]", {"A"}, {"g", "a"}),
        ("{k: v for k, v in d.items() if k in s}", set(), {"d", "s"}),
        ("[y := f(x) for x in xs]\ny", {"y"}, {"f", "xs"}),
        ("(x := x + 1)", {"x"}, {"x"}),
        ("if (n := len(a)) > 1:\n    n", {"n"}, {"len", "a"}),
        ("match p:\n    case [a, *b]:\n        a, b", {"a", "b"}, {"p"}),
        (
            "match p:\n    case {'k': v, **r} if v:\n        r\n    case P(q=1) as w:\n        w",
            {"v", "r", "w"},
            {"p", "P"},
        ),
        ("try:\n    a\nexcept E as e:\n    print(e)", set(), {"a", "E", "print"}),
        ("try:\n    a\nexcept E as e:\n    pass\ne", set(), {"a", "E", "e"}),
        ("x: int = x + 1", {"x"}, {"x", "int"}),
        ("x: int", set(), {"int"}),
        ("for x in x:\n    x", {"x"}, {"x"}),
        ("del x", {"x"}, {"x"}),
        ("x = 1\ndel x", {"x"}, set()),
        ("df['a'] = b", {"df"}, {"df", "b"}),
        ("a = await b\nc = [x async for x in d]", {"a", "c"}, {"b", "d"}),
        ("async with o as q:\n    q", {"q"}, {"o"}),
        ("from m import *\nq", set(), {"q"}),
        ("g = 1\nf = lambda: g; h = lambda: k", {"f", "g", "h"}, {"k"}),
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
