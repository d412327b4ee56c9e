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
    r"leave (?:to|for)": "approval",
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
    "": [
        # Names and properties of other projects.
        r"news_url|NewsHandler|jupyterlab\.news|font-face|typeface|--face",
        # Ordinary English, and the position in a file.
        r"\btells? (?:\w+ ){0,2}apart\b|\.tell\(",
    ],
    "CHANGELOG.md": [r"\b(?:office|face)\b|`heard`|tells_exit"],
    "docs/": [
        # To a person or a model, in words.
        r"\b(?:Claude|model|agent|you|the cap and|as it) (?:is|are) told\b",
        r"\b[Tt]ells? (?:it what|me (?:what|why)|every model|them nothing|one that)\b",
    ],
    "tests/": [
        # Fields of messages and answers that clients of earlier versions know.
        r"\"(?:heard|face)\"",
    ],
    "tk_ai_extension/": [
        r"\"(?:heard|face)\"",
        # A trigger in journals that exist.
        r"\btouched_anew\b",
    ],
    # Fields of the tabs' messages, and of a permission request: `mcp`, `rest`, `chat` or `nb`.
    "src/": [r"\bheard(?=[,:] )", r"\bface\b"],
    "tk_ai_extension/cli/permission_results.py": [r"\bface\b"],
    "tk_ai_extension/server/permission_models.py": [r"\bface\b"],
    # The deprecated name of `Caller.interface`.
    "tk_ai_extension/model/callers.py": [r"\bface\b"],
    "tests/tools/test_caller_identity.py": [r"\.face\b"],
    # The deprecated name of `ExecutorBench.reports_exit`.
    "tk_ai_extension/testing/executor_bench.py": [r"\btells_exit\b"],
    "tests/testing/test_executor_bench.py": [r"\btells_exit\b"],
    # A sentence of Claude Code, and what a person asks a model.
    "tests/cli_stand_in.py": [r"user to tell you how"],
    "tests/testing/test_scripted_model.py": [r"Tell me about"],
    "tests/test_language.py": [r".*"],
}
"""What may stand in a file, by the start of its path. The rest of the line is searched all the same."""


PATTERN = re.compile(
    r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:("
    + ")|(".join(word.replace(" ", "(?:[ _]|(?-i:(?=[A-Z])))") for word in WORDS)
    + r"))(?![a-z]|(?<=[A-Z])[A-Z])"
)
"""The words, also within names: `is_told`, `onHeard`, `letGo`."""

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


def exceptions(name: str) -> re.Pattern[str]:
    """What may stand in a file."""
    allowed = [
        each for start, them in EXCEPTIONS.items() if name.startswith(start) for each in them
    ]
    return re.compile("|".join(allowed))


def test_words_of_the_list_are_not_used() -> None:
    found = []
    for name in FILES:
        text = (ROOT / name).read_text(encoding="utf-8")
        if not PATTERN.search(text):
            continue
        allowed = exceptions(name)
        for number, line in enumerate(text.splitlines(), 1):
            if match := PATTERN.search(allowed.sub("", line)):
                instead = list(WORDS.values())[(match.lastindex or 1) - 1]
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
        ("letGo(element)", True),
        ("is_let_go", True),
        ("needs_leave_to_run", True),
        ("IS_TOLD", True),
        ("HEARTBEAT", False),
        ("leaves it", False),
    ],
)
def test_words_are_found_within_names(line: str, *, is_found: bool) -> None:
    assert bool(PATTERN.search(line)) is is_found


@pytest.mark.parametrize(
    ("name", "line", "is_found"),
    [
        ("docs/panel.md", "Claude is told that you denied it", False),
        ("docs/panel.md", "the listeners are told", True),
        ("docs/panel.md", "Claude is told, and the server hears it", True),
        ("src/tabs.ts", "Claude is told so", True),
        ("tests/server/test_page_connection.py", '{"tabs": [], "heard": 0}', False),
        ("tests/server/test_page_connection.py", 'heard = page["heard"]', True),
        ("src/a.ts", "one can tell the two apart", False),
    ],
)
def test_exceptions_hold_for_their_words_alone(name: str, line: str, *, is_found: bool) -> None:
    assert bool(PATTERN.search(exceptions(name).sub("", line))) is is_found


def test_every_exception_is_needed() -> None:
    unused = []
    for start, allowed in EXCEPTIONS.items():
        texts = [
            (ROOT / name).read_text(encoding="utf-8")
            for name in FILES
            if name.startswith(start) and (name == start or name != "tests/test_language.py")
        ]
        unused += [
            f"{start}: {each}"
            for each in allowed
            if not any(re.search(each, text) for text in texts)
        ]
    assert not unused
