"""Many cases in one test: none is left out, and none that fails is hidden."""

from __future__ import annotations

import pytest

from tests.cases import Cases


def test_all_cases_run_and_all_failures_are_reported() -> None:
    seen: list[int] = []

    def run() -> None:
        with Cases() as cases:
            for number in range(4):
                with cases.case("number", number):
                    seen.append(number)
                    if number == 2:
                        with pytest.raises(KeyError):
                            seen.append(number)
                    assert number == 1

    with pytest.raises(BaseExceptionGroup, match="3 of 4 cases failed") as failed:
        run()
    assert seen == [0, 1, 2, 2, 3]
    notes = [error.__notes__ for error in failed.value.exceptions]
    assert notes == [[f"Case: number, {number}"] for number in (0, 2, 3)]


def test_an_error_between_cases_is_reported_with_the_cases() -> None:
    def run() -> None:
        with Cases() as cases:
            with cases.case("first"):
                raise ValueError
            raise KeyError

    with pytest.raises(BaseExceptionGroup) as failed:
        run()
    assert isinstance(failed.value.__cause__, KeyError)


def test_no_case_at_all_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="no case"), Cases():
        pass
