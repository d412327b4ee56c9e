"""The matrix says what ran, and what did not."""

from __future__ import annotations

from tests.matrix import matrices


def test_the_matrix_has_a_row_for_a_case_and_a_column_for_each_pair_of_backends() -> None:
    module = "tests/kernels/test_conformance.py"
    matrix = matrices(
        [
            (f"{module}::TestExecutor::test_error[stack]", "passed"),
            (f"{module}::TestExecutor::test_error[direct]", "passed"),
            (f"{module}::test_ends[direct-killed]", "passed"),
            (f"{module}::test_ends[direct-restarted]", "failed"),
            (f"{module}::test_alone", "passed"),
        ]
    )[module]
    assert list(matrix.lines()) == [
        "                direct       stack",
        "test_error          ok          ok",
        "test_ends   1/2 failed           -",
    ]


def test_tests_without_backends_have_no_matrix() -> None:
    assert matrices([("tests/test_a.py::test_b[1-2]", "passed")]) == {}
