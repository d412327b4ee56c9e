"""Values of parameters: each one is read, or refused with its name."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.verification.parameters import from_file, source_of, typed

pytestmark = pytest.mark.proves("verify:run")

REFUSED = [
    "[0x_]",
    "[!!int foo]",
    "[!!int '']",
    "[!!bool foo]",
    "{a: !!float x}",
    "[!!int {=: abc}]",
    "[!!float {=: 1e999}]",
    "[!!timestamp foo]",
    "[!!timestamp 2026-01-02]",
    "[!!binary YQ==]",
    "[!!set {a}]",
    "[&a [*a]]",
    "[&a [1, 2], *a]",
    "[" * 3_000,
    "[" * 60 + "]" * 60,
    "9" * 5_000,
    f"[{'9' * 5_000}]",
    f"[0x{'f' * 5_000}]",
    "1e999",
    "[1.0e+999]",
    "[{[1]: 2}]",
    "['\udcff']",
]


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_a_value_that_cannot_be_read_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(InvalidArguments, match=r"^alpha\b"):
        typed(text, "alpha")
    if text[0] in "[{":
        with pytest.raises(InvalidArguments, match=r"^a\.yaml\b"):
            from_file(f"alpha: {text}", "a.yaml")


PARTS = st.sampled_from(
    [
        *("[", "]", "{", "}", ", ", ": ", "? ", "- ", "\n", " ", "'", '"', "#", "|", ">", "%"),
        *("&a ", "*a", "<<", "=", "~", "null", "true", "no", "a", "0x", "0b", "0o", "_", "-", "1"),
        *(".inf", ".nan", "1e9", "1.5e+400", "1:30", "017", "2026-01-02", "\\ud800", "\\x00"),
        *("!!int ", "!!float ", "!!bool ", "!!null ", "!!str ", "!!seq ", "!!map ", "!!set "),
        *("!!timestamp ", "!!binary ", "!!omap ", "!!pairs ", "!!python/tuple ", "! "),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(PARTS, max_size=8).map("".join),
    st.lists(PARTS, max_size=8).map(lambda parts: f"[{''.join(parts)}]"),
    st.lists(PARTS, max_size=8).map(lambda parts: f"{{a: {''.join(parts)}}}"),
)


def assert_settable(value: object) -> None:
    names: dict[str, object] = {}
    exec(source_of({"alpha": value}, "python"), names)
    assert repr(names["alpha"]) == repr(value)


@given(TEXTS)
@settings(max_examples=300)
def test_what_is_accepted_is_set_to_the_same_value(text: str) -> None:
    with suppress(InvalidArguments):
        assert_settable(typed(text, "alpha"))


@given(TEXTS)
@settings(max_examples=100)
def test_a_file_has_parameters_or_is_refused(text: str) -> None:
    values: dict[str, object] = {}
    with suppress(InvalidArguments):
        values = from_file(text, "a.yaml")
    for value in values.values():
        assert_settable(value)
