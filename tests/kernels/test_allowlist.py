"""Which variables a kernel inherits where only a short list is allowed."""

from __future__ import annotations

import pytest

from tk_ai_extension.kernels.environment import ALLOWED, allowed


@pytest.mark.proves("threat:secrets")
def test_only_what_is_named_is_allowed() -> None:
    given = {"PATH": "/bin", "LC_ALL": "C", "XDG_SECRET": "s", "CUDA_API_KEY": "s", "FOO": "1"}
    assert allowed(given) == {"PATH": "/bin", "LC_ALL": "C"}
    assert allowed(given, more=["FOO"]) == {"PATH": "/bin", "LC_ALL": "C", "FOO": "1"}
    assert "ANTHROPIC_API_KEY" not in ALLOWED
