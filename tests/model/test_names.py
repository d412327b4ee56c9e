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
        ("%%time\na = b", {"a"}, {"b"}),
        ("lambda q: q + r", set(), {"r"}),
    ],
)
def test_names(source, defines, uses):
    names = names_of(source)
    assert names is not None
    assert (set(names.defines), set(names.uses)) == (defines, uses)


def test_code_that_cannot_be_parsed_has_no_names():
    assert names_of("a b c") is None
