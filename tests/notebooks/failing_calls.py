"""Calls of the system that fail, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FailingCalls:
    """Functions of the system, whose n-th call fails.

    Args:
        failing: The number of the call, from 0.
        code: The number of the error.

    Attributes:
        calls: The names of the functions that were called.
    """

    def __init__(self, failing: int, code: int) -> None:
        self.calls: list[str] = []
        self._failing = failing
        self._code = code

    def of(self, module: Any, *names: str) -> Any:
        """Return a module with functions that may fail."""

        def calling(name: str) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                self.calls.append(name)
                if len(self.calls) == self._failing + 1:
                    raise OSError(self._code, f"{name} failed")
                return getattr(module, name)(*arguments, **named)

            return call

        functions = {name: calling(name) for name in names}

        class Functions:
            def __getattr__(self, name: str) -> Any:
                return functions[name] if name in functions else getattr(module, name)

        return Functions()
