"""The file of secrets: what it may hold, and that an error shows none of it."""

from __future__ import annotations

import pytest

from tk_ai_extension.agent.claude.user_connection import parse
from tk_ai_extension.model.private_files import PrivateFileError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A=1", {"A": "1"}),
        ("export A=1\n", {"A": "1"}),
        ("  export\tA=1  \r\n", {"A": "1"}),
        ("A='it is # no comment $HOME'", {"A": "it is # no comment $HOME"}),
        ('A="say \\"hi\\" \\\\"', {"A": 'say "hi" \\'}),
        ('A="x" # said', {"A": "x"}),
        ("A=$(x)", {"A": "$(x)"}),
        ("A=a=b==", {"A": "a=b=="}),
        ("A=", {"A": ""}),
        ("A=''", {"A": ""}),
        ("A=1\nA=2", {"A": "2"}),
        ("# only this\n\n   # and that", {}),
        ("\ufeffA=1", {"A": "1"}),
        ("A='ключ'", {"A": "ключ"}),
        ("", {}),
    ],
)
@pytest.mark.proves("ext:secrets")
def test_variables_are_read_with_export_and_quotes(text: str, values: dict[str, str]) -> None:
    assert parse(text) == values


@pytest.mark.parametrize(
    "line",
    [
        "canary",
        "A = canary",
        "A=canary more",
        "A='canary",
        'A="canary',
        "1A=canary",
        "A-B=canary",
        "export canary",
        "source canary",
    ],
)
def test_any_other_line_is_an_error_that_names_it_and_does_not_show_it(line: str) -> None:
    with pytest.raises(PrivateFileError) as caught:
        parse(f"# first\nB=2\n{line}\n")
    assert "The file of keys .secrets.env cannot be used: line 3 is not" in str(caught.value)
    assert "canary" not in repr(caught.value)
    assert caught.value.__context__ is None
