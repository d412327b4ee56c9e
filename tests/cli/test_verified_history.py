"""What the history says about verifications."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Nb


@pytest.mark.proves("nb:commands")
def test_the_history_says_whether_a_notebook_was_verified(nb: Nb) -> None:
    path = nb.notebook("a.ipynb", "1 / 0", "2")
    nb("open", "a.ipynb")
    nb("exec", "--all", "--keep-going", status=1)
    nb("verify", "a.ipynb")
    (verified, *_) = nb("history", "--json").json["entries"]
    assert verified["summary"].endswith("to verify their outputs: verified")
    nb("shutdown")
    stored = json.loads(path.read_text())
    stored["cells"][1]["outputs"][0]["data"]["text/plain"] = "3"
    path.write_text(json.dumps(stored))
    nb("verify", "a.ipynb", status=1)
    (differs, *_) = nb("history", "-n", "a.ipynb", "--json").json["entries"]
    assert differs["summary"].endswith("to verify their outputs: differs")
