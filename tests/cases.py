"""Many cases in one test with an expensive setup: all of them run, and all failures are reported."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import pytest


class Cases:
    """Runs cases, and fails at its end with those that failed.

    ::

        with Cases() as cases:
            for body in (b"", b"{"):
                with cases.case(body):
                    assert await refused(body)
    """

    def __init__(self) -> None:
        self._count = 0
        self._errors: list[BaseException] = []

    @contextmanager
    def case(self, *what: object) -> Generator[None]:
        """One case; what it is about is named where it fails."""
        self._count += 1
        try:
            yield
        # A failure of `pytest.raises` is not an Exception.
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (raised at the end)
            error.add_note(f"Case: {', '.join(str(each)[:200] for each in what)}")
            self._errors.append(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del kind, traceback
        if error is None and not self._count:
            raise AssertionError("There was no case.")
        if self._errors:
            message = f"{len(self._errors)} of {self._count} cases failed"
            raise BaseExceptionGroup(message, self._errors) from error
