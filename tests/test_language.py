"""The project's vocabulary: words that no maintainer of Jupyter, asyncio or React would write are not used.

Each is listed with what to write instead. What is searched: code with its identifiers, comments and
strings, documentation, and what tests are called.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SUFFIXES = {".py", ".ts", ".tsx", ".md", ".css", ".json", ".toml", ".js", ".mjs", ".ipynb", ""}

WORDS = {
    r"(?:for|your|by|with|without|asks?|asked|gives?|given|needs?|grants?|no) leave": "approval",
    r"faces?": "interface, front end",
    r"tells?|told|telling": "notify, publish, report, say",
    r"hears?|heard|unheard|hearing": "receive, handle",
    r"news": "event, update",
    r"mend(?:s|ed|ing)?": "fix, repair, recover",
    r"anew": "again, re-read, rebuild",
    r"whoever": "the caller, the client, whatever acts",
    r"lets? go|letting go": "release, close, detach, disconnect",
    r"patience": "Timeouts, grace period",
    r"surroundings": "Config, Settings",
    r"office|desks?": "Services, Context, harness",
    r"as shown": "the version that was shown",
    r"sees? before it changes": "optimistic concurrency, compare-and-set",
    r"cell 0|Cell 0": "cell 1 is the first, for a person",
    r"whatsoever|thereof|hereby|henceforth": "plain words",
}
"""What is not written, as a regular expression of whole words, and what is."""

EXCEPTIONS = {
    "tests/test_language.py": r".*",
    "CHANGELOG.md": r"office|face",
    # What others call so.
    "": r"news_url|NewsHandler|jupyterlab\.news|announcements|font-face|typeface|--face",
}
"""What may stand in a file (in every file where it is empty), by what surrounds it on its line."""


# Also within names: `is_told`, `onHeard`.
PATTERN = re.compile(
    r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:(" + ")|(".join(WORDS) + r"))(?![a-z])"
)

FILES = [
    path
    for path in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    if path
    and Path(path).suffix in SUFFIXES
    and not path.endswith(("yarn.lock", "package-lock.json", ".ipynb", "LICENSE"))
    and not path.startswith("tests/data/")
]


def test_words_of_the_list_are_not_used() -> None:
    found = []
    for name in FILES:
        allowed = re.compile("|".join(filter(None, (EXCEPTIONS[""], EXCEPTIONS.get(name)))))
        text = (ROOT / name).read_text(encoding="utf-8")
        if not PATTERN.search(text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if (match := PATTERN.search(line)) and not allowed.search(line):
                instead = WORDS[list(WORDS)[(match.lastindex or 1) - 1]]
                found.append(f"{name}:{number}: {match[0]} (write: {instead})")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("it was told so", True),
        ("is_told = True", True),
        ("a toldest", False),
        ("the interface", False),
        ("untold", False),
        ("onHeard(event)", True),
        ("Whoever asks", True),
    ],
)
def test_words_are_found_within_names(line: str, *, is_found: bool) -> None:
    assert bool(PATTERN.search(line)) is is_found
