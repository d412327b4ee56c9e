"""Files of `nb` are readable by their user only."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Nb


@pytest.mark.proves("threat:secrets")
def test_the_state_of_a_project_is_readable_by_its_user_alone(shared: Nb) -> None:
    shared("open", "a.ipynb")
    shared("add", "'x' * 100")
    state = Path(shared.environment["JUPYTER_DATA_DIR"], "tk-ai-extension")
    kept = [state, *state.rglob("*")]
    assert {"journal.sqlite"} <= {path.name for path in kept}
    readable = {
        path.name: oct(path.stat().st_mode)
        for path in kept
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    }
    assert readable == {}
