"""Values of parameters: each one is set by papermill, or refused."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.verification.notebook_parameters import from_file, source_of, typed

pytestmark = pytest.mark.proves("verify:run")

NOTEBOOK = Snapshot("a.ipynb", (Cell("a", "code", "1"),), {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.1", 0.1),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("nan", math.nan),
        ("null", "null"),
        ("None", None),
        ("True", True),
        ("no", "no"),
        ("{a: [.inf, -.inf, .nan]}", {"a": [math.inf, -math.inf, math.nan]}),
    ],
)
def test_a_value_of_the_command_line_has_the_type_that_papermill_gives_it(
    text: str, value: object
) -> None:
    names: dict[str, object] = {}
    exec(source_of({"alpha": typed(text)}, NOTEBOOK, None), names)
    assert repr(names["alpha"]) == repr(value)


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "alpha: [", "alpha: !!int foo", "alpha: !!python/tuple []"],
)
def test_a_file_without_parameters_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(InvalidArguments, match=r"^a\.yaml\b"):
        from_file(text, "a.yaml")


def test_a_file_has_values_of_json_and_dates_as_texts() -> None:
    found = from_file("a: 1\nb: [x, null]\nc: 2026-01-02\n", "a.yaml")
    assert found == {"a": 1, "b": ["x", None], "c": "2026-01-02"}


def test_the_cell_is_in_the_language_of_the_notebook() -> None:
    notebook = Snapshot("a.ipynb", (), {"language_info": {"name": "r"}})
    assert source_of({"a": True}, notebook, "ir") == "# Parameters\na = TRUE"
    with pytest.raises(InvalidArguments, match="cannot be set"):
        source_of({"a": 1}, Snapshot("a.ipynb", (), {"language_info": {"name": "cobol"}}), "x")
    with pytest.raises(InvalidArguments, match="not the name"):
        source_of({"a; b": 1}, NOTEBOOK, None)


def test_without_papermill_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['papermill'] = None\n"
        "from tests.verification.test_notebook_parameters import NOTEBOOK, source_of\n"
        "try: source_of({'a': 1}, NOTEBOOK, None)\n"
        "except Exception as error: print(error.as_text())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert "tk-ai-extension[papermill]" in ended.stdout
