r"""``.secrets.env``: names and values, one a line, as a shell would read them, and nothing run.

What is allowed is little, so that nothing is guessed: an optional ``export``, a name, ``=``, and a
value that is plain, in single quotes (as it is) or in double quotes (with the escapes ``\"``,
``\\``, ``\$`` and ``\n``). ``#`` begins a comment, at the start of a line or after a space. No
variable is expanded and no command is run. An error names the line and never shows its value.
"""

from __future__ import annotations

import re
from pathlib import Path

MAX_BYTES = 64_000
"""A file of secrets is small; what is larger is something else."""

_LINE = re.compile(
    r"""
    [ \t]* (?:export[ \t]+)?
    (?P<name>[A-Za-z_][A-Za-z0-9_]*) =
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<plain>[^\s'"#$`\\][^\s'"`\\]*)? )
    [ \t]* (?:(?<=[ \t])\#.*)?
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\", "$": "$", "`": "`"}


class SecretsFileError(ValueError):
    """The file of secrets cannot be read; says where, and shows no value."""


def parse(text: str, name: str = ".secrets.env") -> dict[str, str]:
    r"""The variables in the text of such a file; of two of one name the later one holds.

    Args:
        text: What is in the file.
        name: What it is called in an error.

    Raises:
        SecretsFileError: a line is none of the allowed ones.

    >>> parse("export A=1  # one\nB='a # b'\n\nC=\"x\\ny\"")
    {'A': '1', 'B': 'a # b', 'C': 'x\ny'}
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise SecretsFileError(
                f"Line {number} of {name} is not NAME=value, NAME='value' or NAME=\"value\"."
            )
        values[match["name"]] = _value(match)
    return values


def read(path: Path) -> dict[str, str]:
    """The variables in a file; none where there is no file.

    Raises:
        SecretsFileError: it cannot be read, or a line is none of the allowed ones.
    """
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SecretsFileError(f"{path.name} cannot be read: {error.strerror}.") from error
    if data is None:
        raise SecretsFileError(f"{path.name} has more than {MAX_BYTES} bytes.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        # Not chained: that error would hold the file's bytes.
        raise SecretsFileError(f"{path.name} is no UTF-8 text.") from None
    return parse(text, path.name)


def _value(match: re.Match[str]) -> str:
    if (quoted := match["double"]) is not None:
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), quoted)
    return match["single"] or match["plain"] or ""
